"""The cluster as ZooKeeper holds it, byte for byte."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.wire.malformed import assert_reads_any_order_and_unknown_keys, assert_refuses_malformed
from tests.wire.strategies import fixed
from wire.cluster_znodes import BrokerSequenceIdZNode
from wire.errors import MalformedZNode
from wire.ids import (
    NO_LEADER,
    BrokerId,
    ControllerEpoch,
    Endpoint,
    LeaderEpoch,
    TopicId,
    TopicPartition,
    ZkVersion,
)
from wire.znodes import (
    PERSISTENT_ROOTS,
    BrokerIdsZNode,
    BrokerIdZNode,
    BrokerRegistration,
    ControllerEpochZNode,
    ControllerRegistration,
    ControllerZNode,
    FeatureRange,
    PartitionState,
    PartitionStateZNode,
    PartitionsZNode,
    PartitionZNode,
    ReplicaAssignment,
    TopicAssignment,
    TopicsZNode,
    TopicZNode,
)

ORDERS = TopicPartition("orders", 3)
BROKERS = st.integers(0, 2**31 - 1)
REPLICAS = st.lists(BROKERS, max_size=4).map(tuple)
EPOCHS = st.integers(0, 2**31 - 1)
TIMES = st.integers(-1, 10**18 - 1)


def brokers(*ids: int) -> tuple[BrokerId, ...]:
    return tuple(map(BrokerId, ids))


def test_the_roots_are_the_folders_that_others_write_below():
    for path in (
        BrokerIdsZNode.path(),
        TopicsZNode.path(),
        BrokerSequenceIdZNode.path(),
        "/consumers",
        "/config/changes",
        "/admin/delete_topics",
        "/isr_change_notification",
        "/log_dir_event_notification",
        "/latest_producer_id_block",
        *(f"/config/{folder}" for folder in ("topics", "clients", "users", "brokers", "ips")),
    ):
        assert path in PERSISTENT_ROOTS
    assert len(PERSISTENT_ROOTS) == len(set(PERSISTENT_ROOTS)) == 14


CONTROLLER = b'{"version":1,"brokerid":0,"timestamp":"1652877672721"}'


def test_the_controller_is_these_bytes():
    registration = ControllerRegistration(broker=BrokerId(0), timestamp_ms=1652877672721)

    assert ControllerZNode.path() == "/controller"
    assert ControllerZNode.encode(registration) == CONTROLLER
    assert ControllerZNode.decode(CONTROLLER) == registration


def test_the_controller_of_kafka_3_4_is_read():
    data = b'{"version":2,"brokerid":4,"timestamp":"9","kraftControllerEpoch":-1}'

    assert ControllerZNode.decode(data).broker == 4


def test_a_malformed_controller_is_refused():
    assert_refuses_malformed("/controller", CONTROLLER, ControllerZNode.decode)
    assert_reads_any_order_and_unknown_keys(CONTROLLER, ControllerZNode.decode)


@fixed(100)
@given(BROKERS, TIMES)
def test_a_controller_comes_back(broker: int, timestamp_ms: int):
    registration = ControllerRegistration(broker=BrokerId(broker), timestamp_ms=timestamp_ms)

    assert ControllerZNode.decode(ControllerZNode.encode(registration)) == registration


def test_the_controller_epoch_is_plain_text():
    assert ControllerEpochZNode.path() == "/controller_epoch"
    assert ControllerEpochZNode.encode(ControllerEpoch(7)) == b"7"
    assert ControllerEpochZNode.decode(b"7") == 7
    assert ControllerEpochZNode.decode(b"0") == 0


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b" 7",
        b"7\n",
        b"+7",
        b"-1",
        b"07",
        b"1_0",
        b"7.0",
        b"2147483648",
        b"9" * 5000,
        b"\xff",
        "\N{ARABIC-INDIC DIGIT SEVEN}".encode(),
        b'"7"',
        b"{}",
    ],
)
def test_a_controller_epoch_that_is_no_number_is_refused(data: bytes):
    with pytest.raises(MalformedZNode, match="/controller_epoch"):
        ControllerEpochZNode.decode(data)


def test_the_children_of_broker_ids_are_brokers():
    assert BrokerIdsZNode.path() == "/brokers/ids"
    assert BrokerIdsZNode.broker_of("1001") == 1001


@pytest.mark.parametrize("child", ["", "one", "-1", "01", " 1", "1/2", "2147483648", "\u0661"])
def test_a_stranger_among_the_brokers_is_refused(child: str):
    with pytest.raises(MalformedZNode) as caught:
        BrokerIdsZNode.broker_of(child)
    assert caught.value.path == f"/brokers/ids/{child}"


# The example of Kafka's documentation; its host and port are of no endpoint.
BROKER_V4 = (
    b'{"version":4,"host":"localhost","port":9092,"jmx_port":9999,"timestamp":"2233345666",'
    b'"endpoints":["CLIENT://host1:9092","REPLICATION://host1:9093"],'
    b'"listener_security_protocol_map":{"CLIENT":"SSL","REPLICATION":"PLAINTEXT"},"rack":"dc1"}'
)
BROKER = BrokerRegistration(
    endpoints=(
        Endpoint("CLIENT", "SSL", "host1", 9092),
        Endpoint("REPLICATION", "PLAINTEXT", "host1", 9093),
    ),
    timestamp_ms=2233345666,
    rack="dc1",
    jmx_port=9999,
)


def _decode_broker(data: bytes) -> BrokerRegistration:
    return BrokerIdZNode.decode(BrokerId(1), data)


def test_a_broker_of_version_4_is_read():
    assert BrokerIdZNode.path(BrokerId(1)) == "/brokers/ids/1"
    assert _decode_broker(BROKER_V4) == BROKER


def test_a_broker_is_written_as_version_5():
    assert BrokerIdZNode.encode(BROKER) == (
        BROKER_V4.replace(b'"version":4', b'"version":5')
        .replace(b'"host":"localhost","port":9092', b'"host":"host1","port":9093')
        .replace(b'"rack":"dc1"}', b'"rack":"dc1","features":{}}')
    )


def test_a_broker_without_rack_and_plaintext_but_with_features_is_these_bytes():
    registration = BrokerRegistration(
        endpoints=(Endpoint("CLIENT", "SSL", "::1", 9092),),
        timestamp_ms=1,
        features={"f": FeatureRange(1, 3)},
    )

    data = BrokerIdZNode.encode(registration)

    assert data == (
        b'{"version":5,"host":null,"port":-1,"jmx_port":-1,"timestamp":"1",'
        b'"endpoints":["CLIENT://[::1]:9092"],"listener_security_protocol_map":{"CLIENT":"SSL"},'
        b'"features":{"f":{"min_version":1,"max_version":3}}}'
    )
    assert _decode_broker(data) == registration


def test_older_brokers_are_read():
    version_1 = b'{"version":1,"host":"h","port":9092,"jmx_port":9999,"timestamp":"5"}'
    version_2 = version_1[:-1].replace(b'"version":1', b'"version":2') + (
        b',"endpoints":["SSL://h:9093"]}'
    )
    version_3 = version_2[:-1].replace(b'"version":2', b'"version":3') + b',"rack":"dc1"}'

    assert _decode_broker(version_1).endpoints == (Endpoint("PLAINTEXT", "PLAINTEXT", "h", 9092),)
    assert _decode_broker(version_2).endpoints == (Endpoint("SSL", "SSL", "h", 9093),)
    assert _decode_broker(version_2).rack is None
    assert _decode_broker(version_3).rack == "dc1"


def test_an_endpoint_on_all_interfaces_has_no_host():
    data = BROKER_V4.replace(b"CLIENT://host1:9092", b"CLIENT://:9092")

    assert _decode_broker(data).endpoints[0] == Endpoint("CLIENT", "SSL", "", 9092)


@pytest.mark.parametrize(
    "change",
    [
        {"endpoints": ["nonsense"]},
        {"endpoints": ["CLIENT://host1:99999"]},
        {"endpoints": ["CLIENT://host1:"]},
        {"endpoints": ["CLIENT://host1"]},
        {"endpoints": ["CLIENT://::1:9092"]},
        {"endpoints": ["CLIENT://host1:9092\n"]},
        {"endpoints": ["OTHER://host1:9092"]},
        {"endpoints": "CLIENT://host1:9092"},
        {"listener_security_protocol_map": {"CLIENT": 1}},
        {"listener_security_protocol_map": {}},
        {"features": {"f": {"min_version": 1}}},
        {"features": []},
        {"rack": 1},
        {"port": 65536},
        {"port": "9092"},
        {"jmx_port": -2},
        {"timestamp": 2233345666},
        {"timestamp": "soon"},
        {"timestamp": "9" * 5000},
        {"version": 0},
        {"version": "4"},
        {"version": 1, "host": None},
        {"version": 1, "port": -1},
    ],
    ids=str,
)
def test_a_malformed_broker_is_refused(change: dict[str, object]):
    data = json.dumps(json.loads(BROKER_V4) | change).encode()

    with pytest.raises(MalformedZNode, match="/brokers/ids/1 is malformed"):
        _decode_broker(data)


@pytest.mark.parametrize("key", [key for key in json.loads(BROKER_V4) if key != "rack"])
def test_a_broker_without_a_key_is_refused(key: str):
    fields = json.loads(BROKER_V4)
    del fields[key]

    with pytest.raises(MalformedZNode):
        _decode_broker(json.dumps(fields).encode())


def test_a_broker_is_read_in_any_order():
    assert_reads_any_order_and_unknown_keys(BROKER_V4, _decode_broker)


NAMES = st.from_regex(r"[A-Z_]{1,8}", fullmatch=True)
HOSTS = st.from_regex(r"[a-z0-9.-]{0,12}", fullmatch=True) | st.ip_addresses().map(str)
RACKS = st.none() | st.text(max_size=5)
FEATURES = st.dictionaries(st.text(max_size=5), st.builds(FeatureRange, EPOCHS, EPOCHS), max_size=2)


@fixed(200)
@given(
    st.lists(
        st.builds(Endpoint, NAMES, NAMES, HOSTS, st.integers(0, 65535)),
        unique_by=lambda endpoint: endpoint.listener,
        max_size=3,
    ),
    st.builds(
        BrokerRegistration,
        endpoints=st.just(()),
        timestamp_ms=TIMES,
        rack=RACKS,
        jmx_port=st.integers(-1, 65535),
        features=FEATURES,
    ),
)
def test_a_broker_comes_back(endpoints: list[Endpoint], rest: BrokerRegistration):
    registration = BrokerRegistration(
        endpoints=tuple(endpoints),
        timestamp_ms=rest.timestamp_ms,
        rack=rest.rack,
        jmx_port=rest.jmx_port,
        features=rest.features,
    )

    assert _decode_broker(BrokerIdZNode.encode(registration)) == registration


def test_a_broker_without_an_id_gets_one_above_the_reserved():
    assert BrokerSequenceIdZNode.path() == "/brokers/seqid"
    assert BrokerSequenceIdZNode.broker_of(ZkVersion(1)) == 1001


def test_the_children_of_topics_are_topics():
    assert TopicsZNode.path() == "/brokers/topics"
    assert TopicsZNode.topic_of("__consumer_offsets") == "__consumer_offsets"


@pytest.mark.parametrize("child", ["", ".", "..", "a b", "a/b", "é", "a" * 250, "a\n"])
def test_a_stranger_among_the_topics_is_refused(child: str):
    with pytest.raises(MalformedZNode) as caught:
        TopicsZNode.topic_of(child)
    assert caught.value.path == f"/brokers/topics/{child}"


TOPIC_ID = TopicId("MjyAbc_-0123456789xyzQ")
TOPIC_V3 = (
    b'{"version":3,"topic_id":"MjyAbc_-0123456789xyzQ","partitions":{"0":[4,5,6,1,2,3]},'
    b'"adding_replicas":{"0":[4,5,6]},"removing_replicas":{"0":[1,2,3]}}'
)
MOVING = TopicAssignment(
    topic_id=TOPIC_ID,
    partitions={
        0: ReplicaAssignment(
            replicas=brokers(4, 5, 6, 1, 2, 3),
            adding_replicas=brokers(4, 5, 6),
            removing_replicas=brokers(1, 2, 3),
        )
    },
)


def _decode_topic(data: bytes) -> TopicAssignment:
    return TopicZNode.decode("orders", data)


def test_a_topic_with_an_id_is_version_3():
    assert TopicZNode.path("orders") == "/brokers/topics/orders"
    assert TopicZNode.encode(MOVING) == TOPIC_V3
    assert _decode_topic(TOPIC_V3) == MOVING


def test_a_topic_without_an_id_is_version_2():
    data = b'{"version":2,"partitions":{"0":[0,1]},"adding_replicas":{},"removing_replicas":{}}'
    assignment = TopicAssignment(partitions={0: ReplicaAssignment(replicas=brokers(0, 1))})

    assert TopicZNode.encode(assignment) == data
    assert _decode_topic(data) == assignment


def test_a_topic_of_version_1_is_read():
    data = b'{"version":1,"partitions":{"0":[0,1],"1":[1,0]}}'

    assert _decode_topic(data) == TopicAssignment(
        partitions={
            0: ReplicaAssignment(replicas=brokers(0, 1)),
            1: ReplicaAssignment(replicas=brokers(1, 0)),
        }
    )


def test_partitions_are_written_in_order_of_number():
    assignment = TopicAssignment(
        partitions={number: ReplicaAssignment(replicas=brokers(1)) for number in (10, 9, 0)}
    )

    assert b'{"0":[1],"9":[1],"10":[1]}' in TopicZNode.encode(assignment)


@pytest.mark.parametrize(
    "change",
    [
        {"partitions": {"zero": [1]}},
        {"partitions": {"-1": [1]}},
        {"partitions": {"00": [1]}},
        {"partitions": {"0": ["1"]}},
        {"partitions": {"0": [-1]}},
        {"partitions": {"0": [2**31]}},
        {"partitions": {"0": 1}},
        {"partitions": []},
        {"partitions": {}},
        {"adding_replicas": {"7": [1]}},
        {"removing_replicas": {"7": [1]}},
        {"adding_replicas": [1]},
        {"topic_id": "short"},
        {"topic_id": "MjyAbc_-0123456789xyzQ\n"},
        {"topic_id": 7},
        {"version": 0},
        {"version": None},
    ],
    ids=str,
)
def test_a_malformed_topic_is_refused(change: dict[str, object]):
    data = json.dumps(json.loads(TOPIC_V3) | change).encode()

    with pytest.raises(MalformedZNode, match="/brokers/topics/orders is malformed"):
        _decode_topic(data)


def test_a_topic_is_read_in_any_order():
    assert_reads_any_order_and_unknown_keys(TOPIC_V3, _decode_topic)
    with pytest.raises(MalformedZNode):
        _decode_topic(b'{"partitions":{}}')
    with pytest.raises(MalformedZNode):
        _decode_topic(b'{"version":1}')


@fixed(200)
@given(
    st.builds(
        TopicAssignment,
        topic_id=st.none() | st.from_regex(r"[A-Za-z0-9_-]{22}", fullmatch=True),
        partitions=st.dictionaries(
            st.integers(0, 2**31 - 1),
            st.builds(
                ReplicaAssignment,
                replicas=REPLICAS,
                adding_replicas=REPLICAS,
                removing_replicas=REPLICAS,
            ),
            max_size=4,
        ),
    )
)
def test_a_topic_comes_back(assignment: TopicAssignment):
    assert _decode_topic(TopicZNode.encode(assignment)) == assignment


def test_the_children_of_partitions_are_partitions():
    assert PartitionsZNode.path("orders") == "/brokers/topics/orders/partitions"
    assert PartitionsZNode.partition_of("orders", "3") == ORDERS
    assert PartitionZNode.path(ORDERS) == "/brokers/topics/orders/partitions/3"
    with pytest.raises(MalformedZNode) as caught:
        PartitionsZNode.partition_of("orders", "three")
    assert caught.value.path == "/brokers/topics/orders/partitions/three"


STATE = b'{"controller_epoch":1,"leader":0,"version":1,"leader_epoch":0,"isr":[0,1]}'


def _decode_state(data: bytes) -> PartitionState:
    return PartitionStateZNode.decode(ORDERS, data)


def test_a_partitions_state_is_these_bytes():
    state = PartitionState(
        controller_epoch=ControllerEpoch(1),
        leader=BrokerId(0),
        leader_epoch=LeaderEpoch(0),
        isr=brokers(0, 1),
    )

    assert PartitionStateZNode.path(ORDERS) == "/brokers/topics/orders/partitions/3/state"
    assert PartitionStateZNode.encode(state) == STATE
    assert _decode_state(STATE) == state


def test_a_partition_may_have_no_leader():
    assert _decode_state(STATE.replace(b'"leader":0', b'"leader":-1')).leader == NO_LEADER


def test_a_malformed_state_is_refused():
    assert_refuses_malformed("/brokers/topics/orders/partitions/3/state", STATE, _decode_state)
    assert_reads_any_order_and_unknown_keys(STATE, _decode_state)


@fixed(200)
@given(
    st.builds(
        PartitionState,
        controller_epoch=EPOCHS,
        leader=st.integers(-1, 2**31 - 1),
        leader_epoch=EPOCHS,
        isr=REPLICAS,
    )
)
def test_a_partitions_state_comes_back(state: PartitionState):
    assert _decode_state(PartitionStateZNode.encode(state)) == state


@pytest.mark.parametrize("broker", [0, 7, 2**31 - 1])
def test_a_brokers_path_tells_the_broker(broker: int):
    assert BrokerIdZNode.broker_at(BrokerIdZNode.path(broker)) == broker


@pytest.mark.parametrize("topic", ["orders", "__consumer_offsets", "a.b-c_d", "partitions"])
def test_a_topics_path_and_its_partitions_paths_tell_which_they_are_of(topic: str):
    partition = TopicPartition(topic, 12)

    assert TopicZNode.topic_at(TopicZNode.path(topic)) == topic
    assert PartitionStateZNode.partition_at(PartitionStateZNode.path(partition)) == partition
    assert TopicZNode.topic_at(PartitionStateZNode.path(partition)) is None
    assert PartitionStateZNode.partition_at(TopicZNode.path(topic)) is None


@pytest.mark.parametrize(
    "path",
    [
        "",
        "/",
        "/brokers/ids",
        "/brokers/ids/",
        "/brokers/ids/x",
        "/brokers/ids/-1",
        "/brokers/ids/1/x",
        "/brokers/ids/1\n",
        "/brokers/ids/\u0661",  # a digit, but not one of Kafka's
        "/brokers/topics",
        "/brokers/topics/",
        "/brokers/topics/orders/partitions",
        "/brokers/topics/orders/partitions/0",
        "/brokers/topics/orders/partitions/x/state",
        "/brokers/topics/orders/partitions/0/state/x",
        "/kafka/brokers/topics/orders/partitions/0/state",
        "/kafka/brokers/ids/1",
    ],
)
def test_another_path_is_nobodys(path: str):
    assert BrokerIdZNode.broker_at(path) is None
    assert TopicZNode.topic_at(path) is None
    assert PartitionStateZNode.partition_at(path) is None
