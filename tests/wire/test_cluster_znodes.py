"""What ZooKeeper holds for the cluster as a whole."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.wire.malformed import assert_reads_any_order_and_unknown_keys, assert_refuses_malformed
from tests.wire.strategies import fixed
from wire.cluster_znodes import (
    ClusterIdZNode,
    ConsumerOffsetZNode,
    Features,
    FeatureStatus,
    FeatureZNode,
    FinalizedRange,
    ProducerIdBlock,
    ProducerIdBlockZNode,
)
from wire.errors import MalformedZNode
from wire.ids import BrokerId, Offset, ProducerId, TopicPartition

CLUSTER_ID = b'{"version":"1","id":"22-char-base64"}'
PRODUCER_IDS = b'{"version":1,"broker":1,"block_start":"0","block_end":"999"}'
FEATURE = b'{"version":1,"status":1,"features":{}}'


def test_the_cluster_id_is_these_bytes():
    assert ClusterIdZNode.path() == "/cluster/id"
    assert ClusterIdZNode.encode("22-char-base64") == CLUSTER_ID
    assert ClusterIdZNode.decode(CLUSTER_ID) == "22-char-base64"


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{}",
        b'{"version":1,"id":"x"}',
        b'{"version":"one","id":"x"}',
        b'{"version":"1","id":""}',
        b'{"version":"1","id":7}',
        b'{"version":"1"}',
        b'{"id":"x"}',
        b'{"version":"1","id":"\xff"}',
    ],
)
def test_a_malformed_cluster_id_is_refused(data: bytes):
    with pytest.raises(MalformedZNode, match="/cluster/id is malformed"):
        ClusterIdZNode.decode(data)


def test_a_block_of_producer_ids_is_these_bytes():
    block = ProducerIdBlock(
        broker=BrokerId(1), block_start=ProducerId(0), block_end=ProducerId(999)
    )

    assert ProducerIdBlockZNode.path() == "/latest_producer_id_block"
    assert ProducerIdBlockZNode.encode(block) == PRODUCER_IDS
    assert ProducerIdBlockZNode.decode(PRODUCER_IDS) == block


def test_a_malformed_block_of_producer_ids_is_refused():
    path = "/latest_producer_id_block"

    assert_refuses_malformed(path, PRODUCER_IDS, ProducerIdBlockZNode.decode)
    assert_reads_any_order_and_unknown_keys(PRODUCER_IDS, ProducerIdBlockZNode.decode)


def test_features_are_these_bytes():
    assert FeatureZNode.path() == "/feature"
    assert FeatureZNode.encode(Features(status=FeatureStatus.ENABLED)) == FEATURE
    assert FeatureZNode.decode(FEATURE) == Features(status=FeatureStatus.ENABLED)


def test_a_finalized_feature_comes_back():
    features = Features(status=FeatureStatus.DISABLED, features={"f": FinalizedRange(1, 3)})

    data = FeatureZNode.encode(features)

    assert data == (
        b'{"version":1,"status":0,"features":{"f":{"min_version_level":1,"max_version_level":3}}}'
    )
    assert FeatureZNode.decode(data) == features


def test_malformed_features_are_refused():
    assert_refuses_malformed("/feature", FEATURE, FeatureZNode.decode)
    assert_reads_any_order_and_unknown_keys(FEATURE, FeatureZNode.decode)


@fixed(100)
@given(st.integers(0, 2**63 - 1))
def test_an_old_consumers_offset_is_plain_text(offset: int):
    partition = TopicPartition("orders", 3)
    data = ConsumerOffsetZNode.encode(Offset(offset))

    assert data == str(offset).encode()
    assert ConsumerOffsetZNode.decode("group", partition, data) == offset


@pytest.mark.parametrize("data", [b"", b"-1", b"x", b"9223372036854775808", b"\xff", b"42\n"])
def test_a_malformed_offset_is_refused(data: bytes):
    with pytest.raises(MalformedZNode) as caught:
        ConsumerOffsetZNode.decode("group", TopicPartition("orders", 3), data)
    assert caught.value.path == "/consumers/group/offsets/orders/3"
