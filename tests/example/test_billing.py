"""The shop's promise, in simulated and in real clusters: an invoice for every order."""

import asyncio

import pytest
from shop.billing import Billing
from shop.orders import Invoice, Order

from actors.testing import (
    BlockingCluster,
    Clients,
    NotEnoughReplicas,
    TopicPartition,
    brokers_up,
    isr,
    leader,
)

MENU = ("coffee", "tea", "cake")
INVOICES = TopicPartition("invoices", 0)


async def open_shop(cluster: Clients) -> None:
    admin = cluster.admin()
    for topic in ("orders", "invoices"):
        await admin.create_topic(topic, assignments={0: (1, 2, 3)})


async def place_orders(cluster: Clients, numbers: range) -> None:
    async with cluster.producer(acks="all") as producer:
        for number in numbers:
            order = Order(number, MENU[number % len(MENU)])
            await producer.send("orders", order.encode())


async def invoiced(cluster: Clients) -> list[int]:
    """The orders that have an invoice, as they come."""
    async with cluster.consumer(auto_offset_reset="earliest") as consumer:
        consumer.assign([INVOICES])
        (end,) = (await consumer.end_offsets([INVOICES])).values()
        found = []
        while await consumer.position(INVOICES) < end:
            found += [Invoice.decode(each.value).order for each in await consumer.poll()]
        return found


@pytest.mark.parametrize("cluster_seed", range(5))
@pytest.mark.cluster(config={"min.insync.replicas": 2})
async def test_every_order_gets_an_invoice_though_the_leader_dies(sim, faults):
    await open_shop(sim)
    orders = range(30)

    async with Billing(sim) as billing:
        placing = asyncio.create_task(place_orders(sim, orders))
        await billing.work_until(10)
        await faults.kill(1)
        await billing.work_until(20)
        await faults.restart(1)
        await placing
        while set(await invoiced(sim)) != set(orders):
            await billing.work()

    await sim.until(isr("orders", 0) == {1, 2, 3})


async def test_who_takes_over_goes_on_where_the_last_one_stopped(sim):
    await open_shop(sim)
    await place_orders(sim, range(3))
    async with Billing(sim) as billing:
        await billing.work_until(3)

    await place_orders(sim, range(3, 5))
    async with Billing(sim) as billing:
        await billing.work_until(2)

    assert await invoiced(sim) == [0, 1, 2, 3, 4]


@pytest.mark.cluster(config={"min.insync.replicas": 2})
async def test_an_order_that_could_be_lost_is_refused(sim, faults):
    await open_shop(sim)
    await place_orders(sim, range(1))
    await faults.kill(2)
    await faults.kill(3)
    await sim.until(isr("orders", 0) == {1})

    async with sim.producer(acks="all", retries=0) as producer:
        with pytest.raises(NotEnoughReplicas):
            await producer.send("orders", Order(1, "tea").encode())

    await faults.restart(2)
    await sim.until(isr("orders", 0) >= {1, 2})
    await place_orders(sim, range(1, 2))


async def test_the_shop_works_on_real_brokers(cluster, faults):
    await open_shop(cluster)
    await place_orders(cluster, range(2))
    async with Billing(cluster) as billing:
        await billing.work_until(2)

    await faults.shut_down(1)
    await cluster.until(leader("orders", 0) == 2)
    await place_orders(cluster, range(2, 5))
    async with Billing(cluster) as billing:
        await billing.work_until(3)

    assert await invoiced(cluster) == [0, 1, 2, 3, 4]


def test_a_program_that_does_not_await_sees_the_same(blocking_cluster: BlockingCluster):
    cluster = blocking_cluster
    cluster.create_topic("orders", assignments={0: (1, 2, 3)})
    cluster.send("orders", Order(1, "cake").encode(), key=b"1")

    cluster.kill(1)
    cluster.until((brokers_up() == {2, 3}) & (leader("orders", 0) == 2))
    cluster.send("orders", Order(2, "tea").encode(), key=b"2")

    orders = [Order.decode(each.value) for each in cluster.read("orders", count=2)]
    assert orders == [Order(1, "cake"), Order(2, "tea")]
