"""Followers get all that their leaders have, byte for byte, whatever is lost, late or too large."""

from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from runtime.simulation.network import Conditions
from runtime.simulation.simulator import Simulator, run
from tests.support.data import batch_of, produce
from tests.support.drive import Drive
from wire.data import Produce, ProducePartition, ProduceResponse
from wire.errors import ErrorCode
from wire.frame import FrameKind
from wire.ids import TopicPartition


def log_of(drive, broker, partition):
    """All bytes of a broker's log."""
    replica = drive.replica(broker, partition.topic, partition.partition)
    if replica.log is None:
        return b""
    return bytes(replica.log.read(0, 1 << 30)) if replica.log_end_offset else b""


def assert_all_replicated(drive, partitions, replicas=(1, 2, 3)):
    for partition in partitions:
        state = drive.state(partition.topic, partition.partition)
        assert sorted(state.isr) == list(replicas), f"{partition}: {state}"
        whole = log_of(drive, state.leader, partition)
        ends = {}
        for broker in replicas:
            assert log_of(drive, broker, partition) == whole, f"{partition} on {broker}"
            replica = drive.replica(broker, partition.topic, partition.partition)
            ends[broker] = (replica.log_end_offset, replica.high_watermark)
        assert {end for each in ends.values() for end in each} == {ends[state.leader][0]}, ends


async def test_a_late_repetition_of_a_sessions_beginning_takes_nothing_back(sim):
    """It says where the follower was then. What it said since must not be forgotten with it."""
    drive = await Drive.start(sim)
    orders = await drive.create("orders", [2, 3])
    copies, transmit = [], drive.sim.network.transmit

    def copy(frame):
        if frame.kind is FrameKind.REQUEST and frame.source == "broker-3":
            copies.append(frame)
        transmit(frame)

    drive.sim.network.transmit = copy
    await drive.kill(3)
    await drive.restart(3)
    late = next(
        each
        for each in copies
        if b"orders" in bytes(each.payload) and each.destination == "broker-2"
    )
    await produce(drive, orders, b"value", acks=-1)
    assert drive.replica(2, "orders").followers[3].log_end_offset == 1

    transmit(late)
    await drive.sim.sleep(2_000)

    assert drive.replica(2, "orders").followers[3].log_end_offset == 1


@pytest.mark.parametrize("who", ["leader", "follower"])
@pytest.mark.parametrize("how", ["killed", "stopped"])
async def test_replication_goes_on_after_a_restart(sim, who, how):
    drive = await Drive.start(sim)
    partitions = [TopicPartition("orders", number) for number in range(5)]
    await drive.create("orders", {each.partition: [2, 3, 1] for each in partitions})
    for partition in partitions:
        await produce(drive, partition, b"before", acks=-1)
    broker = 2 if who == "leader" else 3

    await (drive.kill(broker) if how == "killed" else drive.stop(broker))
    await produce(drive, partitions[3], b"meanwhile", acks=-1)
    await drive.restart(broker)
    await produce(drive, partitions[4], b"after", acks=-1)
    await drive.settle()

    assert_all_replicated(drive, partitions)


@pytest.mark.parametrize("source", ["broker-2", "broker-3"], ids=["answers", "requests"])
async def test_what_is_lost_on_its_way_is_asked_for_again(sim, source):
    drive = await Drive.start(sim, overrides={"replica_socket_timeout_ms": 1_000})
    partitions = [TopicPartition("orders", number) for number in range(3)]
    await drive.create("orders", {each.partition: [2, 3] for each in partitions})
    await produce(drive, partitions[0], b"before", acks=-1)
    destination = "broker-2" if source == "broker-3" else "broker-3"

    drive.sim.cut(source, destination, one_way=True)
    for partition in partitions:
        await produce(drive, partition, b"lost", acks=1)
    await drive.sim.sleep(5_000)
    assert drive.replica(3, "orders", 1).log_end_offset == 0
    drive.sim.heal()
    await drive.settle()

    assert_all_replicated(drive, partitions, (2, 3))


@pytest.mark.parametrize("seed", range(8))
def test_all_is_replicated_in_bad_weather(seed):
    """Frames are lost, repeated and overtaken; in the end all logs are the same, and in sync."""

    async def main():
        weather = Conditions(loss=0.02, duplication=0.2, reordering=0.3, max_delay_ms=8)
        async with Simulator(seed) as sim:
            overrides = {"replica_socket_timeout_ms": 600, "num_replica_fetchers": 1 + seed % 2}
            drive = await Drive.start(sim, overrides=overrides)
            partitions = [TopicPartition("orders", number) for number in range(6)]
            await drive.create("orders", {each.partition: [2, 3, 1] for each in partitions})
            for source in ("broker-1", "broker-2", "broker-3"):
                for other in {"broker-1", "broker-2", "broker-3"} - {source}:
                    sim.network._conditions[source, other] = weather
            for number in range(60):
                partition = partitions[number % 6]
                await produce(drive, partition, b"%d" % number, acks=1, leader=2)
                await sim.sleep(20)
            sim.heal()
            await drive.settle()
            assert drive.state("orders").leader == 2
            assert_all_replicated(drive, partitions)

    run(main)


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    seed=st.integers(0, 2**32),
    partitions=st.integers(1, 25),
    fetch_max=st.integers(1, 600),
    response_max=st.integers(1, 1_500),
    fetchers=st.integers(1, 3),
)
def test_no_partition_stalls_however_little_fits_into_an_answer(
    seed, partitions, fetch_max, response_max, fetchers
):
    random = Random(seed)

    async def main():
        async with Simulator(seed, recording=False) as sim:
            overrides = {
                "replica_fetch_max_bytes": fetch_max,
                "replica_fetch_response_max_bytes": response_max,
                "num_replica_fetchers": fetchers,
            }
            drive = await Drive.start(sim, overrides=overrides)
            all_of_them = [TopicPartition("orders", number) for number in range(partitions)]
            await drive.create("orders", {each.partition: [2, 3, 1] for each in all_of_them})
            for _ in range(6):
                chosen = random.sample(all_of_them, random.randint(1, partitions))
                entries = tuple(
                    ProducePartition(each, memoryview(b"".join(some_batches(random))))
                    for each in chosen
                )
                request = Produce(acks=-1, timeout_ms=60_000, partitions=entries)
                response = await drive.ask(2, request, ProduceResponse)
                assert {each.error_code for each in response.partitions} == {ErrorCode.NONE}
            await drive.settle()
            assert_all_replicated(drive, all_of_them)

    run(main)


def some_batches(random):
    return [
        bytes(batch_of(*(random.randbytes(random.randint(0, 500)) for _ in range(count))))
        for count in (random.randint(1, 3) for _ in range(random.randint(1, 4)))
    ]
