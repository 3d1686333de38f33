"""What a broker is told of the cluster, and what it tells its clients: B142, B143."""

import pytest

from actors.broker.metadata import AwaitMetadata, leaders_are, topic_is_gone, topic_is_ready
from tests.support.drive import Drive
from tests.support.orders import broker, news, update_metadata
from wire.cluster_znodes import ClusterIdZNode
from wire.control import UpdateMetadataResponse
from wire.errors import ErrorCode
from wire.ids import LEADER_DURING_DELETE, NO_BROKER, NO_LEADER, Node, TopicPartition
from wire.metadata import (
    DescribeCluster,
    DescribeClusterResponse,
    Metadata,
    MetadataPartition,
    MetadataResponse,
    MetadataTopic,
)

ORDERS = TopicPartition("orders", 0)
MORE = TopicPartition("orders", 1)
SALES = TopicPartition("sales", 0)
ID = "J2yxR4FFQOK0gLYhlEcAAA"
NODES = tuple(Node(each, f"broker-{each}", 9092) for each in (1, 2, 3))


@pytest.fixture
async def drive(sim):
    return await Drive.start(sim)


async def update(drive, *partitions, **fields) -> None:
    response = await drive.ask(2, update_metadata(*partitions, **fields), UpdateMetadataResponse)
    assert response == UpdateMetadataResponse()


async def ask(drive, *topics: str) -> MetadataResponse:
    return await drive.ask(2, Metadata(topics=topics or None), MetadataResponse)


async def partition_of(drive, partition: TopicPartition = ORDERS) -> MetadataPartition:
    response = await ask(drive, partition.topic)
    return response.topics[0].partitions[partition.partition]


class Waiting:
    """Somebody who waits until the cache of broker 2 shows something."""

    def __init__(self, drive, holds, timeout_ms: float = 5_000) -> None:
        self.told = []
        wait = AwaitMetadata(holds, timeout_ms, self.told.append)
        drive.node(2).replica_manager.ref.tell(wait)


# --- UpdateMetadata ------------------------------------------------------------------------------


@pytest.mark.behaviour("B142")
async def test_brokers_are_replaced_and_partitions_are_merged(drive):
    await update(drive, news(ORDERS, 1), news(MORE, 2))

    await update(drive, news(MORE, 3, epoch=1), news(SALES, 3), brokers=[broker(2), broker(3)])

    assert sorted(drive.node(2).replica_manager.cache.brokers) == [2, 3]
    assert drive.cached(2, "orders", 0) == news(ORDERS, 1)
    assert drive.cached(2, "orders", 1) == news(MORE, 3, epoch=1)
    assert drive.cached(2, "sales") == news(SALES, 3)


@pytest.mark.behaviour("B142")
async def test_the_leader_minus_2_removes_a_partition_and_with_the_last_one_the_topic(drive):
    await update(drive, news(ORDERS, 1), news(MORE, 2), topic_ids=(("orders", ID),))

    await update(drive, news(ORDERS, LEADER_DURING_DELETE), topic_ids=(("orders", ID),))
    (orders,) = (await ask(drive)).topics
    assert [each.partition for each in orders.partitions] == [1]
    await update(drive, news(MORE, LEADER_DURING_DELETE), topic_ids=(("orders", ID),))

    cache = drive.node(2).replica_manager.cache
    assert (cache.topics, cache.topic_ids) == ({}, {})


@pytest.mark.behaviour("B142")
async def test_the_end_of_a_partition_that_was_never_known_is_no_news(drive):
    await update(drive, news(ORDERS, LEADER_DURING_DELETE))

    assert (await ask(drive)).topics == ()


@pytest.mark.behaviour("B142")
async def test_an_update_without_partitions_refreshes_only_the_brokers(drive):
    await update(drive, news(ORDERS, 1))

    await update(drive, brokers=[broker(1), broker(3, rack="north")])

    response = await ask(drive)
    assert response.brokers == (NODES[0], Node(3, "broker-3", 9092, "north"))
    assert [each.topic for each in response.topics] == ["orders"]


@pytest.mark.behaviour("B142")
async def test_whoever_waits_for_metadata_is_told_once_when_it_has_come(drive):
    leaders = Waiting(drive, leaders_are({ORDERS: 1, MORE: 2}))
    ready = Waiting(drive, topic_is_ready("orders", 2))
    await update(drive, news(ORDERS, 1))
    assert (leaders.told, ready.told) == ([], [])

    await update(drive, news(MORE, 2))
    assert (leaders.told, ready.told) == ([True], [True])

    await drive.sim.sleep(10_000)
    assert (leaders.told, ready.told) == ([True], [True])


@pytest.mark.behaviour("B142")
async def test_whoever_waits_for_a_topics_end_is_told_when_its_last_partition_goes(drive):
    await update(drive, news(ORDERS, 1), news(MORE, 2))
    gone = Waiting(drive, topic_is_gone("orders"))

    await update(drive, news(ORDERS, LEADER_DURING_DELETE))
    assert gone.told == []
    await update(drive, news(MORE, LEADER_DURING_DELETE))

    assert gone.told == [True]


@pytest.mark.behaviour("B142")
async def test_whoever_waits_in_vain_is_told_so_when_time_is_up(drive):
    waiting = Waiting(drive, topic_is_ready("orders", 1), timeout_ms=5_000)
    await drive.sim.sleep(4_990)
    assert waiting.told == []

    await drive.sim.sleep(20)
    await update(drive, news(ORDERS, 1))

    assert waiting.told == [False]


@pytest.mark.behaviour("B142")
async def test_what_is_there_already_or_may_take_no_time_is_told_at_once(drive):
    there = Waiting(drive, topic_is_gone("orders"), timeout_ms=0)
    impatient = Waiting(drive, topic_is_ready("orders", 1), timeout_ms=0)

    await drive.sim.sleep(1)

    assert (there.told, impatient.told) == ([True], [False])


async def test_a_topic_whose_leader_is_dead_is_not_ready(drive):
    waiting = Waiting(drive, topic_is_ready("orders", 1))

    await update(drive, news(ORDERS, 9))

    assert waiting.told == []


# --- what clients are told -----------------------------------------------------------------------


def cluster_id(drive) -> str:
    """What the first broker made up."""
    return ClusterIdZNode.decode(drive.tree.get(ClusterIdZNode.path()).data)


async def test_metadata_is_what_the_controller_told(drive):
    await update(
        drive,
        news(MORE, 2, epoch=4, isr=(2, 3), offline_replicas=(1,)),
        news(ORDERS, 1, epoch=3),
        news(TopicPartition("__consumer_offsets", 0), 3),
        topic_ids=(("orders", ID),),
    )

    assert await ask(drive, "orders", "__consumer_offsets") == MetadataResponse(
        brokers=NODES,
        cluster_id=cluster_id(drive),
        controller_id=1,
        topics=(
            MetadataTopic(
                topic="__consumer_offsets",
                is_internal=True,
                partitions=(
                    MetadataPartition(
                        partition=0, leader=3, leader_epoch=0, replicas=(1, 2, 3), isr=(1, 2, 3)
                    ),
                ),
            ),
            MetadataTopic(
                topic="orders",
                topic_id=ID,
                partitions=(
                    MetadataPartition(
                        partition=0, leader=1, leader_epoch=3, replicas=(1, 2, 3), isr=(1, 2, 3)
                    ),
                    MetadataPartition(
                        partition=1,
                        leader=2,
                        leader_epoch=4,
                        replicas=(1, 2, 3),
                        isr=(2, 3),
                        offline_replicas=(1,),
                    ),
                ),
            ),
        ),
    )


async def test_all_topics_one_topic_or_none_may_be_asked_for(drive):
    await update(drive, news(ORDERS, 1), news(SALES, 1))

    def names(response):
        return [each.topic for each in response.topics]

    assert names(await drive.ask(2, Metadata(topics=None), MetadataResponse)) == ["orders", "sales"]
    assert names(await drive.ask(2, Metadata(topics=("sales",)), MetadataResponse)) == ["sales"]
    assert names(await drive.ask(2, Metadata(topics=()), MetadataResponse)) == []


@pytest.mark.behaviour("B143")
async def test_a_topic_that_is_not_known_is_named_so(drive):
    response = await ask(drive, "nowhere")

    error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert response.topics == (MetadataTopic(topic="nowhere", error_code=error),)


@pytest.mark.behaviour("B143")
@pytest.mark.parametrize("leader", [NO_LEADER, 9], ids=["no leader", "a dead leader"])
async def test_a_leader_that_is_unknown_or_dead_is_not_available(drive, leader):
    await update(drive, news(ORDERS, leader, epoch=6))

    described = await partition_of(drive)

    assert described.error_code is ErrorCode.LEADER_NOT_AVAILABLE
    assert (described.leader, described.leader_epoch) == (NO_LEADER, 6)
    assert (described.replicas, described.isr) == ((1, 2, 3), (1, 2, 3))


@pytest.mark.behaviour("B143")
async def test_a_leader_without_the_listener_that_was_asked_by_is_not_found(drive):
    await update(drive, news(ORDERS, 3), brokers=[broker(1), broker(2), broker(3, "PLAINTEXT")])

    described = await partition_of(drive)
    response = await ask(drive)

    assert described.error_code is ErrorCode.LISTENER_NOT_FOUND
    assert described.leader == NO_LEADER
    assert response.brokers == NODES[:2]


@pytest.mark.behaviour("B143")
async def test_offline_replicas_are_listed_and_no_error(drive):
    # As of version 5; REPLICA_NOT_AVAILABLE and lists without the dead are of version 0 only.
    await update(
        drive, news(ORDERS, 1, isr=(1,), offline_replicas=(3,)), brokers=[broker(1), broker(2)]
    )

    described = await partition_of(drive)

    assert described.error_code is ErrorCode.NONE
    assert described.replicas == (1, 2, 3)
    assert described.offline_replicas == (3,)


async def test_the_controller_is_named_while_it_is_alive(drive):
    described = await drive.ask(2, DescribeCluster(), DescribeClusterResponse)
    assert described == DescribeClusterResponse(
        cluster_id=cluster_id(drive), controller_id=1, brokers=NODES
    )

    await update(drive, brokers=[broker(2)])

    described = await drive.ask(2, DescribeCluster(), DescribeClusterResponse)
    assert described == DescribeClusterResponse(
        cluster_id=cluster_id(drive), controller_id=NO_BROKER, brokers=NODES[1:2]
    )
    assert (await ask(drive)).controller_id == NO_BROKER


@pytest.mark.behaviour("B143")
async def test_clients_of_any_broker_learn_that_a_partition_has_lost_its_only_replica(drive):
    await drive.create("orders", [3])

    await drive.kill(3)

    for each in (1, 2):
        response = await drive.ask(each, Metadata(topics=("orders",)), MetadataResponse)
        (described,) = response.topics[0].partitions
        assert described.error_code is ErrorCode.LEADER_NOT_AVAILABLE
        assert described.offline_replicas == (3,)
        assert response.brokers == NODES[:2]
