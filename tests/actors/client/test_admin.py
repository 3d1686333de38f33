"""An administrator's client against a simulated cluster."""

import pytest

from actors.client.admin import Admin
from actors.cluster import SimulatedCluster
from actors.names import node_name
from wire.admin import ElectionType, ListPartitionReassignmentsResponse
from wire.codec import encode
from wire.configs import (
    AlterConfigOperation,
    ConfigChange,
    ConfigResource,
    ConfigResourceType,
    ConfigSource,
)
from wire.errors import (
    BrokerNotAvailable,
    ElectionNotNeeded,
    ErrorCode,
    InvalidPartitions,
    InvalidReplicaAssignment,
    InvalidReplicationFactor,
    InvalidRequest,
    MalformedMessage,
    NoReassignmentInProgress,
    NotController,
    PreferredLeaderNotAvailable,
    RequestTimedOut,
    TopicAlreadyExists,
    UnknownTopicOrPartition,
    UnsupportedVersion,
)
from wire.ids import NO_BROKER, BrokerId, TopicPartition
from wire.metadata import (
    ApiVersionsResponse,
    MetadataResponse,
)

ORDERS = ConfigResource(ConfigResourceType.TOPIC, "orders")
ORDERS_0 = TopicPartition("orders", 0)


@pytest.fixture
async def cluster(sim):
    cluster = SimulatedCluster(sim, brokers=3)
    await cluster.start_nodes()
    await sim.settle()
    return cluster


@pytest.fixture
def admin(cluster):
    return cluster.admin()


def replicas(described):
    return {each.partition: each.replicas for each in described.partitions}


# --- topics ---------------------------------------------------------------------------------------


@pytest.mark.behaviour("B083")
async def test_a_created_topic_has_leaders_when_the_call_returns(cluster, admin):
    created = await admin.create_topic("orders", partitions=3, replication_factor=2)

    described = (await admin.describe_topics(["orders"]))["orders"]
    assert (created.num_partitions, created.replication_factor) == (3, 2)
    assert described.topic_id == created.topic_id
    assert all(each.leader == each.replicas[0] for each in described.partitions)
    assert await admin.list_topics() == ("orders",)


async def test_a_topic_may_be_created_with_replicas_and_configs(cluster, admin):
    await admin.create_topic(
        "orders", assignments={1: [3, 1], 0: [2, 3]}, configs={"retention.ms": "5"}
    )

    described = await admin.describe_topics()
    entries = (await admin.describe_configs(ORDERS))[ORDERS]
    assert replicas(described["orders"]) == {0: (2, 3), 1: (3, 1)}
    assert [each.value for each in entries if each.source is ConfigSource.TOPIC_CONFIG] == ["5"]


async def test_an_error_is_raised_with_the_brokers_sentence(admin):
    await admin.create_topic("orders")

    with pytest.raises(TopicAlreadyExists, match=r"^Topic 'orders' exists already\.$"):
        await admin.create_topic("orders")
    with pytest.raises(InvalidReplicationFactor, match="live brokers, 3"):
        await admin.create_topic("payments", replication_factor=4, validate_only=True)
    with pytest.raises(InvalidPartitions, match="can only grow"):
        await admin.create_partitions("orders", 1)
    with pytest.raises(UnknownTopicOrPartition, match="'payments' does not exist"):
        await admin.delete_topic("payments")


@pytest.mark.behaviour("B089")
async def test_a_topic_grows(admin):
    await admin.create_topic("orders", assignments={0: [1, 2]})

    await admin.create_partitions("orders", 3, [[2, 3], [3, 1]])

    described = await admin.describe_topics(["orders"])
    assert replicas(described["orders"]) == {0: (1, 2), 1: (2, 3), 2: (3, 1)}


@pytest.mark.behaviour("B090")
async def test_a_deleted_topic_is_no_longer_seen_when_the_call_returns(sim, admin):
    await admin.create_topic("orders", partitions=3, replication_factor=3)

    await admin.delete_topic("orders")
    seen = await admin.list_topics()
    await sim.settle()

    assert seen == ()
    assert sim.zookeeper.tree.children("/brokers/topics") == ()
    assert isinstance((await admin.describe_topics(["orders"]))["orders"], UnknownTopicOrPartition)


async def test_the_cluster_is_described(cluster, admin):
    described = await admin.describe_cluster()

    assert described.controller_id == cluster.controller.config.broker_id
    assert [node.id for node in described.brokers] == [1, 2, 3]


# --- configs --------------------------------------------------------------------------------------


async def test_configs_are_changed_and_told_of_many_resources(admin):
    await admin.create_topic("orders")
    nowhere = ConfigResource(ConfigResourceType.TOPIC, "nowhere")
    change = ConfigChange("retention.ms", AlterConfigOperation.SET, "7")

    results = await admin.alter_configs({ORDERS: [change], nowhere: [change]})
    described = await admin.describe_configs(ORDERS, nowhere)

    assert results[ORDERS] is None
    assert isinstance(results[nowhere], UnknownTopicOrPartition)
    assert "7" in [each.value for each in described[ORDERS]]
    assert isinstance(described[nowhere], UnknownTopicOrPartition)


async def test_every_broker_is_asked_for_its_own_configuration(admin):
    resources = [ConfigResource(ConfigResourceType.BROKER, str(each)) for each in (1, 2, 3)]

    described = await admin.describe_configs(*resources)

    ids = {
        resource.name: each.value
        for resource, entries in described.items()
        for each in entries
        if each.name == "broker.id"
    }
    assert ids == {"1": "1", "2": "2", "3": "3"}


async def test_what_is_no_brokers_id_is_refused(admin):
    resource = ConfigResource(ConfigResourceType.BROKER, "x")

    assert isinstance((await admin.describe_configs(resource))[resource], InvalidRequest)


# --- leaders and replicas -------------------------------------------------------------------------


async def test_leaders_are_elected_partition_by_partition(sim, cluster, admin):
    await admin.create_topic("orders", assignments={0: [1, 2], 1: [2, 3]})
    nowhere = TopicPartition("orders", 9)

    results = await admin.elect_leaders(ElectionType.PREFERRED, [ORDERS_0, nowhere])

    assert isinstance(results[ORDERS_0], ElectionNotNeeded)
    assert isinstance(results[nowhere], UnknownTopicOrPartition)
    assert await admin.elect_leaders(ElectionType.PREFERRED) == {}


async def test_a_preferred_leader_that_is_down_is_not_elected(sim, cluster, admin):
    follower = next(each for each in (2, 3) if cluster.controller is not cluster.nodes[each])
    await admin.create_topic("orders", assignments={0: [follower, 1]})
    cluster.kill(follower)
    await sim.settle(10_000)

    results = await admin.elect_leaders(ElectionType.PREFERRED, [ORDERS_0])

    assert isinstance(results[ORDERS_0], PreferredLeaderNotAvailable)


async def test_reassignments_are_begun_and_listed(sim, cluster, admin):
    await admin.create_topic("orders", assignments={0: [1], 1: [1]})
    other = TopicPartition("orders", 1)

    results = await admin.alter_reassignments({ORDERS_0: [2], other: [9]})
    await sim.settle()

    assert results[ORDERS_0] is None
    assert isinstance(results[other], InvalidReplicaAssignment)
    assert await admin.list_reassignments() == {}
    assert replicas((await admin.describe_topics())["orders"]) == {0: (2,), 1: (1,)}
    results = await admin.alter_reassignments({ORDERS_0: None})
    assert isinstance(results[ORDERS_0], NoReassignmentInProgress)


# --- finding somebody who answers -----------------------------------------------------------------


async def test_the_controller_is_found_again_after_it_was_killed(sim, cluster, admin):
    await admin.create_topic("before")
    first = cluster.controller.config.broker_id
    cluster.kill(first)

    await admin.create_topic("after")

    assert cluster.controller.config.broker_id != first
    assert await admin.list_topics() == ("after", "before")


async def test_the_controller_is_found_again_after_it_was_paused(sim, cluster, admin):
    await admin.create_topic("before")
    sim.pause(node_name(cluster.controller.config.broker_id))

    await admin.create_topic("after")

    assert "after" in sim.zookeeper.tree.children("/brokers/topics")


async def test_the_controller_is_found_again_after_its_session_has_expired(sim, cluster, admin):
    await admin.create_topic("before")
    sim.expire_session(node_name(cluster.controller.config.broker_id))

    await admin.create_topic("after")

    assert set(await admin.list_topics()) == {"before", "after"}


async def test_dead_bootstrap_brokers_are_passed_over(sim, cluster):
    network, clock = sim.client("late")
    admin = Admin(network, clock, ["broker-9", "broker-8", "broker-2"], name_of=node_name)

    await admin.create_topic("orders")

    assert await admin.list_topics() == ("orders",)


async def test_nobody_answers_until_the_deadline(sim):
    network, clock = sim.client("alone")
    admin = Admin(network, clock, ["broker-1"], name_of=node_name)

    with pytest.raises(RequestTimedOut, match="broker-1"):
        await admin.create_topic("orders", timeout_ms=3_000)

    assert 2_900 <= sim.now_ms <= 3_600


async def test_a_client_needs_a_broker(sim):
    with pytest.raises(ValueError, match="one broker at least"):
        Admin(*sim.client("alone"), [], name_of=node_name)


class Impostor:
    """Answers every request with what it was given."""

    def __init__(self, sim, answers, name="broker-1"):
        self.answers = answers
        self.network, _ = sim.client(name)
        self.network.serve(self)
        self.count = 0

    def tell(self, incoming):
        answer = self.answers[min(self.count, len(self.answers) - 1)]
        self.count += 1
        incoming.reply(encode(answer))


def asking(sim):
    network, clock = sim.client("admin")
    return Admin(network, clock, ["broker-1"], name_of=node_name)


async def test_a_controller_is_waited_for(sim):
    nobody = MetadataResponse(brokers=(), controller_id=NO_BROKER)
    impostor = Impostor(sim, [nobody])

    with pytest.raises(BrokerNotAvailable, match="broker-1 knows of no controller"):
        await asking(sim).list_reassignments(timeout_ms=1_000)

    assert impostor.count > 5


async def test_whoever_denies_being_the_controller_is_asked_again_until_the_deadline(sim):
    Impostor(sim, [MetadataResponse(brokers=(), controller_id=BrokerId(2))])
    denied = ListPartitionReassignmentsResponse(error_code=ErrorCode.NOT_CONTROLLER)
    denier = Impostor(sim, [denied], name="broker-2")

    with pytest.raises(NotController, match=r"broker-2 answered .* with NOT_CONTROLLER"):
        await asking(sim).list_reassignments(timeout_ms=1_000)

    assert denier.count > 5


async def test_a_request_that_is_not_taken_is_not_tried_again(sim):
    impostor = Impostor(sim, [ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)])

    with pytest.raises(UnsupportedVersion, match="broker-1 does not take DescribeCluster"):
        await asking(sim).describe_cluster()

    assert impostor.count == 1


async def test_an_answer_to_another_question_is_malformed(sim):
    Impostor(sim, [MetadataResponse(brokers=())])

    with pytest.raises(MalformedMessage, match="DescribeCluster with MetadataResponse"):
        await asking(sim).describe_cluster()
