"""What each version of an API means: names and ids, nulls and defaults, errors of its time."""

from uuid import UUID

import pytest

from actors.doors.kafka.shapes import topic_id_of, uuid_of
from tests.support.kafka_caller import NOBODY, ORDERS, batch, id_of, offsets_of, produce
from tests.support.packed import packed
from wire.errors import ErrorCode
from wire.packing import Compression

# --- Metadata -------------------------------------------------------------------------------------

MORE = {
    "allow_auto_topic_creation": False,
    "include_cluster_authorized_operations": False,
    "include_topic_authorized_operations": False,
}


@pytest.mark.parametrize("version", range(13))
async def test_metadata_names_brokers_of_the_listener_leaders_and_replicas(drive, caller, version):
    answer = await caller.ask(
        "Metadata", version, topics=[{"name": "orders", "topic_id": None}], **MORE
    )

    assert [(each.node_id, each.host, each.port) for each in answer.brokers] == [
        (1, "broker-1", 9093),
        (2, "broker-2", 9093),
    ]
    (topic,) = answer.topics
    assert (topic.name, topic.error_code) == ("orders", 0)
    (partition,) = topic.partitions
    assert (partition.leader_id, partition.replica_nodes) == (1, (1, 2))
    if version >= 1:
        assert answer.controller_id == 1
    if version >= 2:
        assert len(answer.cluster_id) == 22
    if version >= 10:
        assert topic.topic_id == id_of(drive)


@pytest.mark.parametrize(("version", "every"), [(0, []), (1, None), (12, None)])
async def test_all_topics_are_asked_for_with_null_and_at_first_with_nothing(caller, version, every):
    answer = await caller.ask("Metadata", version, topics=every, **MORE)

    assert [each.name for each in answer.topics] == ["orders"]


@pytest.mark.parametrize("version", [1, 12])
async def test_no_topics_are_asked_for_with_nothing(caller, version):
    assert (await caller.ask("Metadata", version, topics=[], **MORE)).topics == ()


async def test_topics_are_asked_for_by_their_ids(drive, caller):
    wanted = [{"topic_id": id_of(drive), "name": None}, {"topic_id": NOBODY, "name": None}]

    known, unknown = (await caller.ask("Metadata", 12, topics=wanted, **MORE)).topics

    assert (known.name, known.error_code) == ("orders", 0)
    assert (unknown.name, unknown.topic_id) == (None, NOBODY)
    assert unknown.error_code == ErrorCode.UNKNOWN_TOPIC_ID


async def test_before_version_4_whoever_asks_for_a_topic_wants_it_to_be(drive, caller):
    first = await caller.ask("Metadata", 3, topics=[{"name": "new"}])
    await drive.settle()
    second = await caller.ask("Metadata", 3, topics=[{"name": "new"}])

    assert first.topics[0].error_code == ErrorCode.LEADER_NOT_AVAILABLE
    assert second.topics[0].error_code == 0


async def test_later_only_who_says_so(drive, caller):
    for _ in range(2):
        answer = await caller.ask(
            "Metadata", 12, topics=[{"topic_id": None, "name": "new"}], **MORE
        )
        await drive.settle()
        assert answer.topics[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_an_id_is_printed_and_read_back():
    assert uuid_of(topic_id_of(NOBODY)) == NOBODY
    assert topic_id_of(UUID(int=0)) is None
    assert topic_id_of(None) is None


# --- records --------------------------------------------------------------------------------------


def wish(version: int, topic: dict, offset: int = 0, **more) -> dict:
    partition = {"partition": 0, "fetch_offset": offset, "partition_max_bytes": 1_000}
    return {
        "max_wait": 0,
        "min_bytes": 1,
        "topics": [topic | {"partitions": [partition]}],
        "forgotten_topics_data": [],
        "rack_id": "",
    } | more


@pytest.mark.parametrize("version", range(4, 17))
async def test_every_version_of_fetch_gets_the_records(drive, caller, version):
    await produce(caller, batch(1, 2))
    await drive.settle()
    topic = {"topic": "orders"} if version < 13 else {"topic_id": id_of(drive)}

    answer = await caller.ask("Fetch", version, **wish(version, topic))

    (found,) = answer.responses
    (partition,) = found.partitions
    assert (partition.error_code, partition.high_watermark) == (0, 2)
    assert partition.records[57:61] == b"\0\0\0\2"
    if version >= 13:
        assert found.topic_id == id_of(drive)
    if version >= 7:
        assert (answer.error_code, answer.session_id) == (0, 0)


async def test_an_id_that_nobody_has_is_told_and_the_others_are_read(drive, caller):
    await produce(caller, batch(1))
    await drive.settle()
    given = wish(13, {"topic_id": NOBODY})
    given["topics"] += wish(13, {"topic_id": id_of(drive)})["topics"]

    known, unknown = (await caller.ask("Fetch", 13, **given)).responses

    assert known.partitions[0].high_watermark == 1
    assert unknown.topic_id == NOBODY
    assert unknown.partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_ID


async def test_sessions_are_declined(caller):
    first = await caller.ask("Fetch", 7, **wish(7, {"topic": "orders"}), session_epoch=0)
    next_one = wish(7, {"topic": "orders"}, session_id=5, session_epoch=1)
    second = await caller.ask("Fetch", 7, **next_one)

    assert (first.error_code, first.session_id) == (0, 0)
    assert second.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


async def test_nobody_is_a_replica_who_says_so_at_this_door(drive, caller):
    await produce(caller, batch(1))
    await drive.settle()

    for replica in (2, -2):
        answer = await caller.ask(
            "Fetch", 11, **wish(11, {"topic": "orders"}, 1, replica_id=replica)
        )
        assert answer.responses[0].partitions[0].high_watermark == 1

    follower = drive.node(1).replica_manager.replicas[ORDERS].followers[2]
    assert follower.log_end_offset == 1  # by its own fetches


async def test_an_offset_out_of_range_has_its_error_and_no_null_records(caller):
    answer = await caller.ask("Fetch", 11, **wish(11, {"topic": "orders"}, 9))

    (partition,) = answer.responses[0].partitions
    assert partition.error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    assert partition.records == b""


@pytest.mark.parametrize("version", range(3, 12))
async def test_every_version_of_produce_tells_the_offset(caller, version):
    await produce(caller, batch(1, 2), version=version)

    assert (await produce(caller, batch(3), version=version)).base_offset == 2


@pytest.mark.parametrize("records", [b"", None, b"x" * 100, batch(1)[:-1], batch(1) + b"\0"])
async def test_what_is_no_batch_is_refused(caller, records):
    answer = await produce(caller, records)

    assert answer.error_code == ErrorCode.CORRUPT_MESSAGE


async def test_clients_that_know_no_zstd_neither_send_nor_get_it(drive, caller):
    records = bytes(packed(batch(1), Compression.ZSTD))

    assert (await produce(caller, records, version=6)).error_code == 76
    assert (await produce(caller, records, version=7)).base_offset == 0
    await drive.settle()

    old = await caller.ask("Fetch", 9, **wish(9, {"topic": "orders"}))
    new = await caller.ask("Fetch", 10, **wish(10, {"topic": "orders"}))
    assert old.responses[0].partitions[0].error_code == 76
    assert new.responses[0].partitions[0].records == records[:12] + b"\0" * 4 + records[16:]


@pytest.mark.parametrize("version", range(1, 9))
@pytest.mark.parametrize(
    ("timestamp", "offset", "time"), [(-2, 0, -1), (-1, 3, -1), (20, 1, 30), (31, -1, -1)]
)
async def test_every_version_of_list_offsets(drive, caller, version, timestamp, offset, time):
    await produce(caller, batch(10, 30, 20))
    await drive.settle()

    (partition,) = await offsets_of(caller, version, timestamp)

    assert (partition.error_code, partition.offset) == (0, offset)
    assert partition.timestamp == time


@pytest.mark.parametrize(("timestamp", "offset"), [(-3, 1), (-4, 0)])
async def test_the_greatest_time_and_what_is_here_can_be_asked_for(
    drive, caller, timestamp, offset
):
    await produce(caller, batch(10, 30, 30, 20))
    await drive.settle()

    (partition,) = await offsets_of(caller, 8, timestamp)

    assert (partition.error_code, partition.offset) == (0, offset)


async def test_an_empty_log_has_no_greatest_time(caller):
    (partition,) = await offsets_of(caller, 7, -3)

    assert (partition.error_code, partition.offset) == (0, -1)


@pytest.mark.parametrize("version", [2, 3, 4])
async def test_the_end_of_an_epoch_is_told(drive, caller, version):
    await produce(caller, batch(1, 2))
    wanted = [{"partition": 0, "leader_epoch": 0, "current_leader_epoch": -1}]

    answer = await caller.ask(
        "OffsetForLeaderEpoch",
        version,
        replica_id=-1,
        topics=[{"topic": "orders", "partitions": wanted}],
    )

    (partition,) = answer.topics[0].partitions
    assert (partition.error_code, partition.leader_epoch, partition.end_offset) == (0, 0, 2)
