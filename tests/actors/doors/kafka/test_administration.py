"""Administration over Kafka's protocol: topics, configuration, disks, records that go."""

import pytest

from tests.support.kafka_caller import (
    NOBODY,
    ORDERS,
    KafkaCaller,
    batch,
    id_of,
    offsets_of,
    produce,
)
from wire.errors import ErrorCode


@pytest.mark.parametrize("version", range(2, 8))
async def test_a_topic_is_created_and_told_of_as_its_version_can(drive, caller, version):
    new = {
        "name": "new",
        "num_partitions": 2,
        "replication_factor": 2,
        "assignments": [],
        "configs": [{"name": "retention.ms", "value": "5000"}],
    }

    made = await caller.ask("CreateTopics", version, topics=[new], timeout=5_000)
    again = await caller.ask("CreateTopics", version, topics=[new], timeout=5_000)

    assert (made.topics[0].name, made.topics[0].error_code) == ("new", 0)
    assert again.topics[0].error_code == ErrorCode.TOPIC_ALREADY_EXISTS
    if version >= 5:
        assert (made.topics[0].num_partitions, made.topics[0].replication_factor) == (2, 2)
        assert {each.name: each.value for each in made.topics[0].configs}["retention.ms"] == "5000"
    if version >= 7:
        assert made.topics[0].topic_id == id_of(drive, "new")


async def test_a_broker_that_is_not_the_controller_says_so(sim, drive):
    other = KafkaCaller(sim, 2)
    new = {"name": "new", "num_partitions": 1, "replication_factor": 1}

    made = await other.ask(
        "CreateTopics", 7, topics=[new | {"assignments": [], "configs": []}], timeout=5_000
    )
    gone = await other.ask("DeleteTopics", 1, topic_names=["orders"], timeout=5_000)

    assert made.topics[0].error_code == ErrorCode.NOT_CONTROLLER
    assert gone.responses[0].error_code == ErrorCode.NOT_CONTROLLER


@pytest.mark.parametrize("version", range(1, 6))
async def test_topics_are_deleted_by_their_names(caller, version):
    answer = await caller.ask(
        "DeleteTopics", version, topic_names=["orders", "nobody"], timeout=5_000
    )

    assert {each.name: each.error_code for each in answer.responses} == {
        "orders": 0,
        "nobody": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }


async def test_topics_are_deleted_by_their_ids(drive, caller):
    topic_id = id_of(drive)
    wanted = [{"name": None, "topic_id": each} for each in (topic_id, NOBODY)]

    known, unknown = (await caller.ask("DeleteTopics", 6, topics=wanted, timeout=5_000)).responses

    assert (known.name, known.topic_id, known.error_code) == ("orders", topic_id, 0)
    assert (unknown.name, unknown.topic_id) == (None, NOBODY)
    assert unknown.error_code == ErrorCode.UNKNOWN_TOPIC_ID


async def configs_of(caller, version: int = 4, **more) -> dict:
    wanted = {"resource_type": 2, "resource_name": "orders", "configuration_keys": None}
    flags = {"include_synonyms": True, "include_documentation": False}
    answer = await caller.ask("DescribeConfigs", version, resources=[wanted | more], **flags)
    assert answer.results[0].error_code == 0
    return {each.name: each for each in answer.results[0].configs}


@pytest.mark.parametrize("version", [1, 2, 3, 4])
async def test_configuration_is_described_all_of_it_or_some_keys(caller, version):
    every = await configs_of(caller, version)
    some = await configs_of(caller, version, configuration_keys=["retention.ms"])

    assert len(every) > 20
    assert list(some) == ["retention.ms"]
    assert some["retention.ms"].value == "604800000"


async def test_keys_have_types(caller):
    found = await configs_of(caller)

    kinds = {name: found[name].config_type for name in KINDS}
    assert kinds == KINDS


KINDS = {
    "preallocate": 1,
    "message.timestamp.type": 2,
    "segment.bytes": 3,
    "retention.ms": 5,
    "min.cleanable.dirty.ratio": 6,
    "cleanup.policy": 7,
}


async def test_what_cannot_be_configured_is_refused_by_itself(caller):
    strange = {"resource_type": 99, "resource_name": "x", "configuration_keys": None}
    known = {"resource_type": 2, "resource_name": "orders", "configuration_keys": ["segment.ms"]}

    answer = await caller.ask(
        "DescribeConfigs", 4, resources=[strange, known], include_synonyms=False
    )

    codes = {each.resource_type: each.error_code for each in answer.results}
    assert codes == {2: 0, 99: ErrorCode.INVALID_REQUEST}


async def test_incremental_changes_leave_the_rest_and_others_put_it_back(caller):
    async def alter(api: str, version: int, *entries: dict) -> int:
        resource = {"resource_type": 2, "resource_name": "orders", "configs": list(entries)}
        answer = await caller.ask(api, version, resources=[resource], validate_only=False)
        return answer.responses[0].error_code

    one = {"name": "retention.ms", "value": "1000"}
    other = {"name": "segment.ms", "value": "2000"}
    assert await alter("IncrementalAlterConfigs", 1, one | {"config_operation": 0}) == 0
    assert await alter("IncrementalAlterConfigs", 0, other | {"config_operation": 0}) == 0
    found = await configs_of(caller)
    assert (found["retention.ms"].value, found["segment.ms"].value) == ("1000", "2000")

    assert await alter("AlterConfigs", 2, one) == 0
    found = await configs_of(caller)
    assert (found["retention.ms"].value, found["segment.ms"].value) == ("1000", "604800000")
    bad = one | {"config_operation": 9}
    assert await alter("IncrementalAlterConfigs", 1, bad) == ErrorCode.INVALID_REQUEST


async def test_disks_are_described(drive, caller):
    await produce(caller, batch(1))

    answer = await caller.ask("DescribeLogDirs", 4, topics=None)

    (disk,) = answer.results
    (topic,) = disk.topics
    assert (disk.error_code, disk.log_dir, topic.name) == (0, "broker-1", "orders")
    assert topic.partitions[0].partition_size == len(batch(1))
    none = [{"topic": "orders", "partitions": [7]}]
    assert (await caller.ask("DescribeLogDirs", 1, topics=none)).results[0].topics == ()


async def test_the_cluster_is_described_for_brokers_and_not_for_controllers(caller):
    answer = await caller.ask(
        "DescribeCluster", 1, include_cluster_authorized_operations=False, endpoint_type=1
    )
    strange = await caller.ask(
        "DescribeCluster", 1, include_cluster_authorized_operations=False, endpoint_type=2
    )

    assert [(each.broker_id, each.port) for each in answer.brokers] == [(1, 9093), (2, 9093)]
    assert strange.error_code == ErrorCode.UNSUPPORTED_ENDPOINT_TYPE


# --- DeleteRecords --------------------------------------------------------------------------------


async def delete(caller, offset: int, within: int = 5_000, topic: str = "orders"):
    wanted = [{"partition_index": 0, "offset": offset}]
    answer = await caller.ask(
        "DeleteRecords", 2, topics=[{"name": topic, "partitions": wanted}], timeout=within
    )
    return answer.topics[0].partitions[0]


@pytest.mark.parametrize(("offset", "low"), [(2, 2), (-1, 3), (0, 0)])
async def test_records_are_deleted_on_every_replica(drive, caller, offset, low):
    await produce(caller, batch(1, 2, 3))
    await drive.settle()

    deleted = await delete(caller, offset)

    assert (deleted.error_code, deleted.low_watermark) == (0, low)
    for broker in (1, 2):
        assert drive.node(broker).replica_manager.replicas[ORDERS].log_start_offset == low
    (beginning,) = await offsets_of(caller, 5, -2)
    assert beginning.offset == low


@pytest.mark.parametrize("offset", [4, -2, 2**62])
async def test_only_what_is_committed_can_be_deleted(drive, caller, offset):
    await produce(caller, batch(1, 2, 3))
    await drive.settle()

    assert (await delete(caller, offset)).error_code == ErrorCode.OFFSET_OUT_OF_RANGE


async def test_what_is_only_compacted_is_not_deleted(drive, caller):
    await drive.create("table", [1, 2])
    resource = {"resource_type": 2, "resource_name": "table"}
    change = [{"name": "cleanup.policy", "config_operation": 0, "value": "compact"}]
    given = [resource | {"configs": change}]
    await caller.ask("IncrementalAlterConfigs", 1, resources=given, validate_only=False)
    await drive.settle()

    deleted = await delete(caller, -1, topic="table")

    assert deleted.error_code == ErrorCode.POLICY_VIOLATION


async def test_deletion_waits_for_replicas_that_live_and_no_longer_than_it_may(drive, caller):
    await produce(caller, batch(1, 2, 3))
    await drive.settle()
    drive.cluster.universe.pause("broker-2")

    late = await delete(caller, 2, within=500)
    assert (late.error_code, late.low_watermark) == (ErrorCode.REQUEST_TIMED_OUT, -1)
    assert drive.node(1).replica_manager.replicas[ORDERS].log_start_offset == 2

    drive.cluster.universe.resume("broker-2")
    assert (await delete(caller, 3)).low_watermark == 3
