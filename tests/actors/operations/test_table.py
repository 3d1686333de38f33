"""The table of operations, and what every row of it must be."""

import re

import msgspec
import pytest

from actors.operations.cluster import describe_cluster
from actors.operations.given import Nothing
from actors.operations.groups import ResetGiven
from actors.operations.records import ConsumeGiven, ProduceGiven
from actors.operations.table import OPERATIONS
from actors.operations.topics import CreateTopic, DescribeTopics


def test_names_and_routes_are_there_once():
    names = [each.name for each in OPERATIONS]
    routes = [(each.method, re.sub(r"{\w+}", "{}", each.path)) for each in OPERATIONS]

    assert len(set(names)) == len(names)
    assert len(set(routes)) == len(routes)


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda each: each.name)
def test_a_row_can_be_a_route(operation):
    fields = {each.name for each in msgspec.structs.fields(operation.given)}

    assert re.fullmatch(r"[a-z][a-zA-Z]+", operation.name)
    assert operation.method in {"GET", "POST", "PUT", "PATCH", "DELETE"}
    assert re.fullmatch(r"/api(/[a-z-]+|/{[a-z_]+})+", operation.path)
    assert set(re.findall(r"{(\w+)}", operation.path)) <= fields
    assert operation.summary.endswith(".")
    assert operation.given.__struct_config__.forbid_unknown_fields
    msgspec.json.schema(operation.given)


@pytest.mark.parametrize(
    ("kind", "given"),
    [
        (CreateTopic, {"topic": "x" * 250}),
        (CreateTopic, {"topic": ""}),
        (CreateTopic, {"topic": "t", "partitions": 0}),
        (CreateTopic, {"topic": "t", "partitions": 10**9}),
        (CreateTopic, {"topic": "t", "replication_factor": -1}),
        (CreateTopic, {"topic": "t", "replica_assignment": [[-1]]}),
        (CreateTopic, {"topic": "t", "replica_assignment": [[1]] * 100_001}),
        (CreateTopic, {"topic": "t", "colour": "red"}),
        (DescribeTopics, {"topics": ["t"] * 10_001}),
        (ProduceGiven, {"topic": "t", "records": []}),
        (ProduceGiven, {"topic": "t", "records": [{}] * 10_001}),
        (ProduceGiven, {"topic": "t", "records": [{"headers": {str(n): "" for n in range(1001)}}]}),
        (ProduceGiven, {"topic": "t", "records": [{"timestamp_ms": 2**63}]}),
        (ConsumeGiven, {"topic": "t", "max_records": 10_001}),
        (ConsumeGiven, {"topic": "t", "offset": "9" * 5_000}),
        (ConsumeGiven, {"topic": "t", "timeout_ms": 10**7}),
        (ResetGiven, {"group": "g", "to": "offset", "offset": 2**63}),
        (ResetGiven, {"group": "g", "to": "latest", "topic": "t", "partitions": []}),
    ],
)
def test_nothing_without_bounds_is_taken(kind, given):
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert(given, kind)


async def test_the_cluster_is_described(sim, cluster):
    found = await describe_cluster(cluster, Nothing())

    assert [each.id for each in found.brokers] == [1, 2, 3]
    assert found.controller == cluster.controller.config.broker_id
    assert all(re.fullmatch(r".+:\d+", each.address) for each in found.brokers)
