"""Replication and failover, in one process and in several: the same tests, the same API.

Rule: a test knows of the cluster what a user knows: clients, faults, and what can be seen.
"""

from collections.abc import AsyncIterator

import pytest

from actors.cluster import Cluster
from actors.conditions import (
    broker_state,
    brokers_up,
    controller,
    high_watermark,
    isr,
    leader,
    log_end_offset,
    under_replicated_partitions,
)
from actors.faults.hand import ZOOKEEPER, FaultRefused
from actors.process_cluster import ProcessCluster
from actors.source import NodeSource
from tests.support.traces import rows_of
from tests.support.zookeeper import SharedZooKeeper
from wire.ids import TopicPartition
from wire.trace import FaultInjected, NodeStopped

SESSION_MS = 3_000
ORDERS = TopicPartition("orders", 0)
OVERRIDES = {"min.insync.replicas": 2, "offsets.topic.num.partitions": 3}


class Form:
    """A cluster in one of its forms."""

    def __init__(self, cluster: Cluster | ProcessCluster) -> None:
        self.cluster = cluster
        self.until = cluster.until
        self.source = NodeSource(cluster) if isinstance(cluster, Cluster) else cluster
        self.faults = self.source.faults

    async def make_orders(self, first: int = 1) -> None:
        replicas = sorted((1, 2, 3), key=lambda broker: broker != first)
        await self.cluster.admin().create_topic("orders", assignments={0: replicas})
        await self.until(isr("orders") == {1, 2, 3})

    async def send(self, *values: bytes) -> None:
        async with self.cluster.producer(acks=-1) as producer:
            for value in values:
                await producer.send("orders", value)

    async def read(self, count: int) -> list[bytes]:
        values: list[bytes] = []
        async with self.cluster.consumer(auto_offset_reset="earliest") as consumer:
            consumer.assign([ORDERS])
            while len(values) < count:
                values += [each.value for each in await consumer.poll(timeout_ms=5_000)]
        return values

    async def other_than_the_controller(self) -> int:
        view = await self.source.look()
        return min(set(view.brokers) - {view.controller})


@pytest.fixture(params=[Cluster, ProcessCluster], ids=["one process", "processes"])
async def form(request, zookeeper: SharedZooKeeper) -> AsyncIterator[Form]:
    hosts = zookeeper.hosts + zookeeper.chroot()
    cluster = request.param(3, zookeeper=hosts, session_timeout_ms=SESSION_MS, overrides=OVERRIDES)
    async with cluster:
        yield Form(cluster)


async def test_records_are_on_all_replicas_and_outlive_their_leader(form: Form):
    await form.make_orders()
    await form.send(b"coffee")
    await form.until(high_watermark("orders") == 1)

    await form.faults.kill(1)
    await form.until(leader("orders") != 1)
    await form.send(b"tea")

    assert await form.read(2) == [b"coffee", b"tea"]
    assert (await form.source.look()).partitions[ORDERS].isr == (2, 3)

    await form.faults.restart(1)
    view = await form.until((isr("orders") == {1, 2, 3}) & (log_end_offset("orders", 0, 1) == 2))

    assert view.partitions[ORDERS].leader_epoch > 0
    assert view.brokers[1].is_up


async def test_the_controller_is_replaced(form: Form):
    await form.make_orders()
    former = (await form.source.look()).controller

    await form.faults.kill(former)
    view = await form.until(controller() != former)

    assert view.controller_epoch > 1
    await form.send(b"coffee")
    assert await form.read(1) == [b"coffee"]


async def test_a_broker_that_stands_still_falls_out_and_comes_back(form: Form):
    await form.make_orders()
    broker = await form.other_than_the_controller()

    await form.faults.pause(broker)
    await form.until(broker_state(broker) == "paused")
    await form.until(under_replicated_partitions() >= 1)
    await form.faults.resume(broker)

    await form.until(isr("orders") == {1, 2, 3})


async def test_a_broker_leaves_in_its_own_time_and_keeps_its_address(form: Form):
    await form.make_orders()
    before = form.source.addresses()["broker-1"]

    await form.faults.shut_down(1)
    await form.until((leader("orders") != 1) & (brokers_up() == {2, 3}))
    assert "broker-1" not in form.source.addresses()
    await form.faults.restart(1)

    await form.until(isr("orders") == {1, 2, 3})
    assert form.source.addresses()["broker-1"] == before


async def test_an_expired_session_is_followed_by_another(form: Form):
    await form.make_orders()
    broker = await form.other_than_the_controller()
    before = (await form.source.look()).brokers[broker].epoch

    await form.faults.expire_session(broker)

    await form.until(lambda view: view.brokers[broker].epoch > before)
    await form.until(isr("orders") == {1, 2, 3})


async def test_a_broker_cut_off_from_zookeeper_loses_its_leadership_until_healed(form: Form):
    broker = await form.other_than_the_controller()
    await form.make_orders(first=broker)

    await form.faults.cut(broker, ZOOKEEPER)
    await form.until(leader("orders") != broker)
    assert form.faults.cuts == ((broker, ZOOKEEPER),)
    await form.faults.heal()

    await form.until(isr("orders") == {1, 2, 3})
    assert form.faults.cuts == ()


async def test_faults_that_would_hit_nobody_are_refused(form: Form):
    await form.faults.kill(3)

    for refused in (
        form.faults.kill(3),
        form.faults.pause(3),
        form.faults.resume(1),
        form.faults.shut_down(3),
        form.faults.expire_session(9),
        form.faults.cut(1, 1),
        form.faults.cut(1, 9),
        form.faults.restart(9),
    ):
        with pytest.raises(FaultRefused):
            await refused


async def test_what_happens_is_told(form: Form):
    told = []
    stop = form.source.listen(told.append)
    await form.make_orders()

    await form.faults.kill(1)
    await form.until(leader("orders") != 1)
    await form.faults.restart(1)
    await form.until(isr("orders") == {1, 2, 3})
    await form.until(lambda _: any("in sync again" in each.text for each in told))
    stop()

    texts = [each.text for each in told]
    assert "fault: kill broker 1" in texts
    assert any(text.startswith("broker 1 is down: killed") for text in texts)
    assert any(text.startswith("orders-0: broker 2 leads") for text in texts)
    assert any(text.startswith("broker 1 is up") for text in texts)
    assert len({each.id for each in told}) == len(told)


async def test_what_a_hand_does_to_processes_is_in_the_trace(zookeeper: SharedZooKeeper, tmp_path):
    """A killed process tells nothing any more: whoever killed it does."""
    hosts = zookeeper.hosts + zookeeper.chroot()
    async with ProcessCluster(1, zookeeper=hosts, trace=tmp_path) as cluster:
        await cluster.faults.kill(1)

    (fault,) = rows_of(tmp_path, FaultInjected)
    (stopped,) = rows_of(tmp_path, NodeStopped)
    assert (fault["node"], fault["fault"], fault["target"]) == ("hand", "kill", "broker-1")
    assert (stopped["node"], stopped["reason"]) == ("broker-1", "killed by SIGKILL")
    assert fault["time_us"] <= stopped["time_us"]
    runs = {part.parent.parent for part in tmp_path.glob("*/run=*/hour=*/*.parquet")}
    assert len({run.name for run in runs}) == 1
