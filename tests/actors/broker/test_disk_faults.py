"""Brokers on disks that are full, broken, read-only or rotten: what they say, and who is harmed."""

import asyncio

import pytest

from actors.broker.log.checkpoints import CLEAN_SHUTDOWN
from runtime.files import DiskFailed
from tests.support.data import batch_of, batches_on, fetch, produce, values_in, values_on
from tests.support.drive import Drive
from wire.admin_znodes import LogDirEventNotificationZNode
from wire.control import StopReplicaResponse
from wire.data import Produce, ProducePartition, ProduceResponse
from wire.errors import CorruptRecordBatch, ErrorCode, KafkaStorageError
from wire.ids import TopicPartition
from wire.metadata import Metadata, MetadataResponse
from wire.records import HEADER_BYTES, Record, encode_batch
from wire.trace import ActorCrashed, BrokerStateChanged, FollowerFailed, LogDirWentOffline

OK = ErrorCode.NONE
STORAGE_ERROR = ErrorCode.KAFKA_STORAGE_ERROR
CORRUPT = ErrorCode.CORRUPT_MESSAGE
LONG_MS = 60_000
MAGIC_AT = 16  # in a batch

FAULTS = {
    "full": lambda disk: disk.fill(),
    "failing": lambda disk: disk.fail(),
    "read-only": lambda disk: disk.make_read_only(),
}


@pytest.fixture
async def drive(sim):
    """Three brokers; whoever does not fetch for ten seconds lags."""
    return await Drive.start(sim, overrides={"replica_lag_time_max_ms": 10_000})


@pytest.fixture(params=FAULTS)
def break_disk(request):
    return FAULTS[request.param]


def disk(drive, broker: int):
    return drive.sim._disks[f"broker-{broker}"]


def notifications(drive) -> list[str]:
    """Of failed log directories, by whom."""
    prefix = LogDirEventNotificationZNode.prefix_path()
    return [
        each.node
        for each in drive.transactions
        for operation in each.operations
        if type(operation).__name__ == "Create" and operation.path.startswith(prefix)
    ]


def offline(drive) -> list[str]:
    return [stamp.node for stamp, event in drive.events if isinstance(event, LogDirWentOffline)]


def stop_codes(drive, by: int) -> list[ErrorCode]:
    answers = drive.answered(StopReplicaResponse, by=by)
    return [each.error_code for answer in answers for each in answer.partitions]


def is_unharmed(drive) -> bool:
    return all(node.system.is_up for node in drive.cluster.nodes.values()) and not drive.of(
        ActorCrashed
    )


async def mend(drive, broker: int, *, how: str = "stop") -> None:
    """Heal a broker's disk, and give the broker another life."""
    disk(drive, broker).heal()
    await (drive.stop if how == "stop" else drive.kill)(broker)
    await drive.restart(broker)


def is_all_in_sync(drive, partition) -> bool:
    state = drive.state(partition.topic, partition.partition)
    held = {broker: values_on(drive, broker, partition) for broker in (1, 2, 3)}
    watermarks = {
        drive.replica(broker, partition.topic, partition.partition).high_watermark
        for broker in (1, 2, 3)
    }
    return (
        sorted(state.isr) == [1, 2, 3]
        and held[1] == held[2] == held[3]
        and watermarks == {len(held[1])}
    )


# --- a disk that refuses --------------------------------------------------------------------------


@pytest.mark.behaviour("B074")
@pytest.mark.parametrize("how", ["stop", "kill"])
async def test_a_leader_whose_disk_refuses_a_produce_says_so_and_another_leads(
    drive, break_disk, how
):
    orders = await drive.create("orders", [2, 3, 1])
    sales = await drive.create("sales", [1, 3])
    await produce(drive, orders, b"a", b"b", acks=-1)
    await drive.settle()
    drive.forget()
    break_disk(disk(drive, 2))

    refused = await produce(drive, orders, b"lost", acks=-1)
    await drive.settle()

    assert refused.error_code is STORAGE_ERROR
    assert offline(drive) == ["broker-2"]
    assert notifications(drive) == ["broker-2"]
    assert (drive.state("orders").leader, 2 in drive.state("orders").isr) == (3, False)
    assert (await produce(drive, orders, b"c", acks=-1)).error_code is OK
    assert (await produce(drive, sales, b"x", acks=-1)).error_code is OK
    assert [values_on(drive, each, orders) for each in (1, 3)] == [[b"a", b"b", b"c"]] * 2
    response = await drive.ask(2, Metadata(topics=("orders",)), MetadataResponse)
    assert [each.leader for each in response.topics[0].partitions] == [3]
    assert is_unharmed(drive)

    await mend(drive, 2, how=how)

    assert is_all_in_sync(drive, orders)


@pytest.mark.behaviour("B074", "B156")
async def test_a_follower_whose_disk_refuses_leaves_the_isr_and_the_others_go_on(drive, break_disk):
    orders = await drive.create("orders", [2, 3, 1])
    await produce(drive, orders, b"a", acks=-1)
    await drive.settle()
    drive.forget()
    break_disk(disk(drive, 3))

    written = await produce(drive, orders, b"b", acks=-1)
    await drive.settle()

    assert written.error_code is OK
    assert offline(drive) == notifications(drive) == ["broker-3"]
    assert drive.state("orders").leader == 2
    assert sorted(drive.state("orders").isr) == [1, 2]
    assert is_unharmed(drive)

    await mend(drive, 3)

    assert is_all_in_sync(drive, orders)
    assert values_on(drive, 3, orders) == [b"a", b"b"]


@pytest.mark.behaviour("B074")
async def test_who_waits_for_records_to_be_safe_is_told_when_the_leaders_disk_fails(drive):
    orders = await drive.create("orders", [2, 3])
    drive.sim.cut("broker-2", "broker-3")
    waiting = asyncio.ensure_future(produce(drive, orders, b"a", acks=-1, timeout_ms=LONG_MS))
    await drive.sim.sleep(100)
    disk(drive, 2).fail()

    refused = await produce(drive, orders, b"b")
    await drive.sim.sleep(100)

    assert refused.error_code is STORAGE_ERROR
    assert waiting.result().error_code in {STORAGE_ERROR, ErrorCode.NOT_LEADER_OR_FOLLOWER}


@pytest.mark.behaviour("B074")
async def test_a_leader_whose_disk_fails_under_a_read_says_so_and_another_leads(drive):
    orders = await drive.create("orders", [2, 3, 1])
    await produce(drive, orders, b"a", acks=-1)
    await drive.settle()
    drive.forget()
    disk(drive, 2).fail("orders-0/")

    found = await fetch(drive, orders)
    await drive.settle()

    assert found.error_code is STORAGE_ERROR
    assert offline(drive) == notifications(drive) == ["broker-2"]
    assert drive.state("orders").leader == 3
    assert values_in((await fetch(drive, orders)).records) == [b"a"]
    assert is_unharmed(drive)


@pytest.mark.behaviour("B074", "B141")
async def test_a_broker_whose_disk_fails_under_a_deletion_deletes_when_it_is_mended(drive):
    orders = await drive.create("orders", [2, 3, 1])
    sales = await drive.create("sales", [2, 1])
    await produce(drive, orders, b"a", acks=-1)
    await produce(drive, sales, b"a", acks=-1)
    await drive.settle()
    drive.forget()
    disk(drive, 3).fail()

    await drive.delete("orders")
    await drive.sim.until(lambda: STORAGE_ERROR in stop_codes(drive, 3))
    assert offline(drive) == ["broker-3"]
    await drive.settle()

    assert notifications(drive) == ["broker-3"]
    assert drive.exists("/brokers/topics/orders")  # it waits for broker 3
    assert (await produce(drive, sales, b"b", acks=-1)).error_code is OK
    assert is_unharmed(drive)

    await mend(drive, 3)
    await drive.sim.sleep(3 * LONG_MS)

    assert not drive.exists("/brokers/topics/orders")
    assert [each for each in disk(drive, 3).list() if each.startswith("orders")] == []


@pytest.mark.behaviour("B074", "B154")
async def test_a_follower_whose_disk_fails_under_a_truncation_goes_offline_and_no_further(drive):
    orders = await drive.create("orders", [3, 2, 1])
    await produce(drive, orders, b"a", acks=-1)
    await drive.settle()
    for other in (1, 2):
        drive.sim.cut("broker-3", f"broker-{other}")
    await produce(drive, orders, b"only on 3")
    await drive.replica(3, "orders").log.flush()
    await drive.kill(3)
    drive.sim.heal()
    await produce(drive, orders, b"b", acks=-1)
    drive.forget()

    running = BrokerStateChanged("RunningAsBroker")
    drive.at_first(BrokerStateChanged, disk(drive, 3).make_read_only, lambda each: each == running)
    await drive.restart(3)

    assert offline(drive) == notifications(drive) == ["broker-3"]
    assert sorted(drive.state("orders").isr) == [1, 2]
    assert is_unharmed(drive)

    await mend(drive, 3)

    assert is_all_in_sync(drive, orders)
    assert values_on(drive, 3, orders) == [b"a", b"b"]


# --- in the background ----------------------------------------------------------------------------


async def prepare(drive, **config: str) -> TopicPartition:
    """A topic of short segments, of which many are complete, led by broker 2."""
    await drive.configure("topics", "orders", segment_bytes="200", **config)
    orders = await drive.create("orders", [2, 3, 1])
    now_ms = drive.node(2).world.clock.now_ms()
    for number in range(9):
        entry = ProducePartition(orders, memoryview(bytes(keyed(b"k", number, now_ms))))
        request = Produce(acks=-1, timeout_ms=9_000, partitions=(entry,))
        (result,) = (await drive.ask(2, request, ProduceResponse)).partitions
        assert result.error_code is OK
    await drive.settle()
    drive.forget()
    return orders


def keyed(key: bytes, number: int, timestamp_ms: int) -> bytearray:
    value = b"%d" % number
    return encode_batch([Record(offset=0, timestamp_ms=timestamp_ms, key=key, value=value)])


@pytest.mark.behaviour("B074", "B172")
@pytest.mark.parametrize(
    ("config", "prefix"),
    [
        pytest.param({}, "replication-offset-checkpoint", id="high watermarks"),
        pytest.param({}, "recovery-point-offset-checkpoint", id="recovery points"),
        pytest.param({"flush_ms": "20000"}, "orders-0/", id="flush"),
        pytest.param({"retention_ms": "30000"}, "orders-0/", id="retention"),
        pytest.param({"cleanup_policy": "compact"}, "orders-0/", id="cleaner"),
    ],
)
async def test_a_disk_that_fails_under_work_in_the_background_goes_offline(sim, config, prefix):
    late = {"log_retention_check_interval_ms": 40_000, "log_cleaner_backoff_ms": 40_000}
    drive = await Drive.start(sim, overrides=late)
    orders = await prepare(drive, **config)
    if not prefix.startswith("orders"):
        await produce(drive, orders, b"something to note", acks=-1)
    disk(drive, 2).fail(prefix)

    await drive.sim.sleep(3 * LONG_MS)

    assert offline(drive) == notifications(drive) == ["broker-2"]
    assert drive.state("orders").leader == 3
    assert is_unharmed(drive)

    await mend(drive, 2)

    assert sorted(drive.state("orders").isr) == [1, 2, 3]


@pytest.mark.behaviour("B074", "B141")
async def test_a_disk_that_fails_when_deleted_folders_go_is_offline_and_the_broker_is_not(drive):
    orders = await drive.create("orders", [2, 3])
    await produce(drive, orders, b"a", acks=-1)
    await drive.delete("orders")
    await drive.settle()
    drive.forget()

    async def refuse(path: str) -> None:
        raise DiskFailed(path)

    disk(drive, 2).sync_directory = refuse
    await drive.sim.sleep(3 * LONG_MS)

    assert offline(drive) == ["broker-2"]
    assert is_unharmed(drive)


# --- at the start and at the end ------------------------------------------------------------------


@pytest.mark.parametrize("fault", ["failing", "read-only"])  # on a full one all can be read
async def test_a_broker_whose_disk_cannot_be_used_does_not_start_and_says_why(drive, fault):
    orders = await drive.create("orders", [2, 3, 1])
    await produce(drive, orders, b"a", acks=-1)
    await drive.stop(2)
    FAULTS[fault](disk(drive, 2))
    drive.forget()

    with pytest.raises(KafkaStorageError, match="disk"):
        await drive.cluster.start_broker(2)
    await drive.settle()

    assert not drive.node(2).system.is_up
    assert not drive.exists("/brokers/ids/2")
    assert drive.of(ActorCrashed) == []
    assert (await produce(drive, orders, b"b", acks=-1)).error_code is OK

    disk(drive, 2).heal()
    await drive.restart(2)

    assert is_all_in_sync(drive, orders)


@pytest.mark.behaviour("B074", "B135")
async def test_a_log_that_cannot_be_opened_is_its_partitions_own_matter(drive):
    orders = await drive.create("orders", [2, 3, 1])
    sales = await drive.create("sales", [2, 3, 1])
    for each in (orders, sales):
        await produce(drive, each, b"a", acks=-1)
    await drive.stop(2)
    disk(drive, 2).fail("orders-0/")
    drive.forget()

    await drive.restart(2)
    written = [await produce(drive, each, b"b", acks=-1) for each in (orders, sales)]
    await drive.settle()

    assert {each.error_code for each in written} == {OK}
    assert is_all_in_sync(drive, sales)
    assert sorted(drive.state("orders").isr) == [1, 3]
    assert (await fetch(drive, orders, leader=2)).error_code is not OK
    assert is_unharmed(drive)

    await mend(drive, 2)

    assert is_all_in_sync(drive, orders)


@pytest.mark.parametrize("has_logs", [True, False], ids=["with logs", "without logs"])
async def test_a_broker_whose_disk_refuses_its_farewell_leaves_all_the_same(
    drive, break_disk, has_logs
):
    orders = await drive.create("orders", [2, 3, 1] if has_logs else [1, 3])
    await produce(drive, orders, b"a", acks=-1)
    await drive.settle()
    drive.forget()
    break_disk(disk(drive, 2))

    await drive.stop(2)

    assert drive.of(ActorCrashed) == []
    assert not drive.exists("/brokers/ids/2")
    disk(drive, 2).heal()
    assert not has_logs or not disk(drive, 2).exists(CLEAN_SHUTDOWN)
    await drive.restart(2)
    assert not has_logs or is_all_in_sync(drive, orders)


async def test_a_disk_that_failed_a_sync_is_looked_through_though_the_next_one_succeeds(
    drive, monkeypatch
):
    await drive.configure("topics", "orders", flush_messages="1")
    orders = await drive.create("orders", [2, 3, 1])

    async def refuse(path: str) -> None:
        raise DiskFailed(path)

    with monkeypatch.context() as patch:
        patch.setattr(disk(drive, 2)._drive, "flush", refuse)
        await produce(drive, orders, b"a", acks=-1)
        await drive.settle()
    assert offline(drive) == ["broker-2"]
    assert drive.state("orders").leader == 3

    await drive.stop(2)  # what the failed sync should have written is perhaps lost already

    assert not disk(drive, 2).exists(CLEAN_SHUTDOWN)
    await drive.restart(2)
    assert is_all_in_sync(drive, orders)


# --- bits and pieces ------------------------------------------------------------------------------


def log_file(partition: TopicPartition) -> str:
    return f"{partition}/{0:020}.log"


def rot(drive, broker: int, partition: TopicPartition, number: int, at: int = HEADER_BYTES) -> None:
    """Flip a bit of one batch, counted from 0: of its records, if nothing is said."""
    sizes = [each.header.size_in_bytes for each in batches_on(drive, broker, partition)]
    disk(drive, broker).flip_bit(log_file(partition), sum(sizes[:number]) + at + 2, 0)


@pytest.mark.behaviour("B156")
async def test_a_batch_that_rots_at_its_leader_is_copied_by_nobody(drive):
    orders = await drive.create("orders", {0: [2, 3], 1: [2, 3]})
    other = TopicPartition("orders", 1)
    await produce(drive, orders, b"a", acks=-1)
    await drive.replica(3, "orders").log.flush()
    await drive.kill(3)
    for value in (b"b", b"c"):
        await produce(drive, orders, value, acks=-1)
    await produce(drive, other, b"x", acks=-1)
    rot(drive, 2, orders, number=1)
    drive.forget()

    await drive.cluster.start_broker(3)
    await drive.sim.sleep(20_000)

    assert values_on(drive, 3, orders) == [b"a"]
    assert drive.state("orders").isr == (2,)
    failures = [each.reason for each in drive.of(FollowerFailed)]
    assert len(failures) > 5  # it is tried again and again
    assert all("CRC" in each for each in failures)
    assert values_on(drive, 3, other) == [b"x"]
    assert sorted(drive.state("orders", 1).isr) == [2, 3]
    assert is_unharmed(drive)


@pytest.mark.behaviour("B156")
async def test_a_consumer_is_told_of_a_batch_that_rots_and_reads_what_is_sound(drive):
    orders = await drive.create("orders", [2, 3])
    for value in (b"a", b"b"):
        await produce(drive, orders, value, acks=-1)
    await drive.settle()
    rot(drive, 2, orders, number=1)

    async with drive.cluster.consumer(auto_offset_reset="earliest") as consumer:
        consumer.assign([orders])
        found = [each.value for each in await consumer.poll(timeout_ms=5_000)]
        with pytest.raises(CorruptRecordBatch, match="CRC"):
            await consumer.poll(timeout_ms=5_000)

    assert found == [b"a"]


@pytest.mark.behaviour("B156", "B170")
async def test_a_header_that_rots_at_its_leader_is_said_to_be_corrupt(drive):
    orders = await drive.create("orders", [2, 3])
    for value in (b"a", b"b"):
        await produce(drive, orders, value, acks=-1)
    await drive.settle()
    rot(drive, 2, orders, number=0, at=MAGIC_AT - 2)

    found = await fetch(drive, orders, 0)
    written = await produce(drive, orders, b"c")

    assert found.error_code is CORRUPT
    assert written.error_code is OK
    assert is_unharmed(drive)


@pytest.mark.behaviour("B171")
async def test_what_rots_at_a_follower_is_cut_off_after_a_power_cut_and_fetched_again(drive):
    orders = await drive.create("orders", [2, 3, 1])
    for value in (b"a", b"b", b"c"):
        await produce(drive, orders, value, acks=-1)
    await drive.settle()
    await drive.replica(3, "orders").log.flush()
    rot(drive, 3, orders, number=1)

    await drive.kill(3)
    await drive.restart(3)

    assert is_all_in_sync(drive, orders)
    assert values_on(drive, 3, orders) == [b"a", b"b", b"c"]


@pytest.mark.behaviour("B171")
@pytest.mark.parametrize("broker", [2, 3], ids=["leader", "follower"])
@pytest.mark.parametrize("left", [1, 20, 61, 65], ids=lambda each: f"{each} bytes")
async def test_a_batch_that_a_power_cut_tore_is_cut_off_and_fetched_again(drive, broker, left):
    orders = await drive.create("orders", [2, 3, 1])
    for value in (b"a", b"b"):
        await produce(drive, orders, value, acks=-1)
    await drive.settle()
    await drive.replica(broker, "orders").log.flush()
    whole = batches_on(drive, broker, orders)[0].header.size_in_bytes
    await drive.kill(broker)
    disk(drive, broker).open(log_file(orders)).truncate(whole + left)

    await drive.restart(broker)

    assert is_all_in_sync(drive, orders)
    assert values_on(drive, broker, orders) == [b"a", b"b"]


@pytest.mark.parametrize("spoilt", ["a bit", "cut short", "nothing", "a batch and a half"])
async def test_a_batch_that_comes_spoilt_is_refused_and_nothing_is_appended(drive, spoilt):
    orders = await drive.create("orders", [2, 3, 1])
    await produce(drive, orders, b"a", acks=-1)
    whole = bytes(batch_of(b"b", b"c"))
    flipped = bytes([*whole[:-1], whole[-1] ^ 1])
    data = {
        "a bit": flipped,
        "cut short": whole[:-1],
        "nothing": b"",
        "a batch and a half": whole + whole[: len(whole) // 2],
    }[spoilt]
    entry = ProducePartition(orders, memoryview(data))

    request = Produce(acks=-1, timeout_ms=1_000, partitions=(entry,))
    (refused,) = (await drive.ask(2, request, ProduceResponse)).partitions
    written = await produce(drive, orders, b"d", acks=-1)

    assert refused.error_code is CORRUPT
    assert refused.error_message
    assert written.base_offset == 1
    assert is_unharmed(drive)
