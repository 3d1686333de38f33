"""Histories of our own clients, on simulated brokers that die."""

from contextlib import suppress

import pytest

from actors.client.errors import ClientClosed
from actors.cluster import SimulatedCluster
from actors.faults.history.checker import check_history
from actors.faults.history.events import (
    Acknowledged,
    Committed,
    CommittedSeen,
    EndSeen,
    Failed,
    Polled,
    Positioned,
    Sent,
)
from actors.faults.history.files import read_history
from actors.faults.history.recording import (
    History,
    HistoryConsumer,
    HistoryProducer,
    text_of,
)
from runtime.simulation.simulator import Simulator, run
from wire.errors import ApiError
from wire.ids import TopicPartition

ORDERS = TopicPartition("orders", 0)


def of(history, kind):
    return [each for each in history.events if isinstance(each, kind)]


async def recorded_run(sim):
    """Records are sent one by one while their leader dies, and read by one who was there."""
    cluster = SimulatedCluster(sim, brokers=3)
    await cluster.start_nodes()
    await sim.settle()
    await cluster.admin().create_topic("orders", partitions=1, replication_factor=3)
    await sim.settle()
    _, clock = sim.client("historian")
    history = History(clock)
    async with (
        HistoryProducer(cluster.producer(), history, "writer") as producer,
        HistoryConsumer(cluster.consumer(), history, "reader") as reader,
        HistoryConsumer(cluster.consumer(group_id="g"), history, "last") as last,
    ):
        reader.assign([ORDERS])
        await reader.seek_to_beginning()
        await last.commit({ORDERS: 0})  # while all can hold the topic of commits
        for number in range(30):
            if number == 10:
                cluster.kill(leader(cluster))
            delivery = await producer.enqueue("orders", b"%d" % number, partition=0)
            await reader.poll(50)
            await delivery
        records = await last.read_to_end([ORDERS])
        await last.commit()
        await last.committed([ORDERS])
    return history, records


def leader(cluster):
    caches = (node.replica_manager.cache for node in cluster.nodes.values() if node.system.is_up)
    return next(cache.topics["orders"][0].leader for cache in caches)


async def test_a_run_with_a_dead_leader_is_sound(sim, tmp_path):
    history, records = await recorded_run(sim)

    assert [each.value for each in of(history, Sent)] == [str(each) for each in range(30)]
    assert len(of(history, Acknowledged)) == 30
    assert {each.value for each in records} == {b"%d" % each for each in range(30)}
    assert [each.offset for each in of(history, EndSeen)] == [len(records)]
    assert [each.offset for each in of(history, Committed)] == [0, len(records)]
    assert [each.offset for each in of(history, CommittedSeen)] == [len(records)]
    assert {each.client for each in of(history, Polled)} == {"reader", "last"}
    assert check_history(history.events) == []
    history.write(tmp_path / "history.jsonl")
    assert read_history(tmp_path / "history.jsonl") == history.events


@pytest.mark.parametrize("seed", range(5))
def test_so_it_is_whatever_the_seed(seed):
    async def body():
        async with Simulator(seed=seed) as sim:
            return await recorded_run(sim)

    history, _ = run(body)

    assert check_history(history.events) == []


async def test_a_recorded_run_without_one_read_is_not(sim):
    history, _ = await recorded_run(sim)
    history.events.remove(of(history, Polled)[-3])

    assert check_history(history.events)


async def test_members_of_a_group_are_recorded_as_readers_who_go_and_come(sim):
    cluster = SimulatedCluster(sim, brokers=3)
    await cluster.start_nodes()
    await sim.settle()
    await cluster.admin().create_topic("orders", partitions=2, replication_factor=3)
    _, clock = sim.client("historian")
    history = History(clock)
    options = {"group_id": "g", "auto_offset_reset": "earliest", "heartbeat_interval_ms": 200}
    members = [HistoryConsumer(cluster.consumer(**options), history, name) for name in ("a", "b")]

    async with HistoryProducer(cluster.producer(), history, "writer") as producer:
        for number in range(60):
            await producer.send("orders", b"%d" % number, partition=number % 2)
            joined = members[: 1 + (number > 20)]
            for each in joined:
                if each.consumer.assignment == () and number in {0, 21}:
                    each.subscribe(["orders"])
                if await each.poll(100):
                    with suppress(ApiError):  # the group shares out anew
                        await each.commit()
    for each in members:
        await each.consumer.close()

    assert check_history(history.events) == []
    readers = {(each.client, each.partition) for each in of(history, Polled)}
    assert {client for client, _ in readers} == {"a", "b"}
    begins = [each for each in of(history, Positioned) if each.client == "a"]
    assert len(begins) >= 3  # both partitions, and what it kept once more after the rebalance


async def test_what_never_came_into_a_batch_surely_failed(sim):
    cluster = SimulatedCluster(sim, brokers=1)
    await cluster.start_nodes()
    await sim.settle()
    history = History(sim.client("historian")[1])
    async with HistoryProducer(cluster.producer(), history, "writer") as producer:
        pass

    with pytest.raises(ClientClosed):
        await producer.send("orders", b"a")

    assert [each.is_certain for each in of(history, Failed)] == [True]


async def test_what_was_on_its_way_may_be_written(sim):
    cluster = SimulatedCluster(sim, brokers=1)
    await cluster.start_nodes()
    await sim.settle()
    history = History(sim.client("historian")[1])
    options = {"delivery_timeout_ms": 2_000, "request_timeout_ms": 1_000}
    async with HistoryProducer(cluster.producer(**options), history, "writer") as producer:
        metadata = await producer.send("orders", b"a")
        cluster.kill(1)
        delivery = await producer.enqueue("orders", b"b", partition=metadata.partition)
        for _ in range(2):  # told twice, taken down once
            with pytest.raises(ApiError):
                await delivery

    assert [(each.id, each.is_certain) for each in of(history, Failed)] == [("writer-2", False)]
    assert of(history, Acknowledged)[0].partition == 0
    assert check_history(history.events) == []


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "(null)"),
        (b"", ""),
        (b"order 7", "order 7"),
        (
            b"\xff",
            "sha256:a8100ae6aa1940d0b663bb31cd466142ebbdbd5187131b92d93818987832eb89",
        ),
    ],
)
def test_a_value_is_text_or_a_hash(value, text):
    assert text_of(value) == text
    assert text_of(b"x" * 201).startswith("sha256:")
