"""What several brokers say, as one value."""

from actors.cluster import SimulatedCluster
from actors.conditions import leader
from actors.view import BrokerState, BrokerView, assemble
from wire.ids import TopicPartition
from wire.observation import ObserveResponse, PartitionSight, ReplicaSight

ORDERS = TopicPartition("orders", 0)
UP = {each: BrokerView(each, BrokerState.UP, f"host:{each}") for each in (1, 2, 3)}


def told(leader=1, epoch=3, version=5, isr=(1, 2, 3), **others):
    return PartitionSight(
        partition=ORDERS,
        leader=leader,
        leader_epoch=epoch,
        partition_epoch=version,
        replicas=(1, 2, 3),
        isr=isr,
        **others,
    )


def led(epoch=3, version=6, isr=(1, 2), end=10):
    return ReplicaSight(
        partition=ORDERS,
        leader=1,
        leader_epoch=epoch,
        partition_epoch=version,
        isr=isr,
        log_start_offset=0,
        high_watermark=8,
        log_end_offset=end,
    )


def seen(broker, *, epoch=-1, partitions=(), replicas=()):
    return ObserveResponse(
        broker_id=broker, controller_epoch=epoch, partitions=partitions, replicas=replicas
    )


def test_a_leader_knows_its_isr_before_the_controller():
    view = assemble({1: seen(1, replicas=(led(),)), 2: seen(2, epoch=7, partitions=(told(),))}, UP)

    assert view.partitions[ORDERS].isr == (1, 2)
    assert (view.controller, view.controller_epoch) == (2, 7)


def test_a_deposed_leader_is_not_believed():
    view = assemble(
        {
            1: seen(1, replicas=(led(epoch=3, version=6),)),
            2: seen(2, epoch=7, partitions=(told(leader=2, epoch=4, version=7, isr=(2, 3)),)),
        },
        UP,
    )

    assert view.partitions[ORDERS].leader == 2
    assert view.partitions[ORDERS].isr == (2, 3)


def test_of_two_controllers_the_newer_counts():
    view = assemble({1: seen(1, epoch=7), 2: seen(2, epoch=8)}, UP)

    assert view.controller == 2


def test_without_a_controller_the_newest_of_what_was_told_counts():
    view = assemble(
        {
            1: seen(1, partitions=(told(epoch=3),)),
            2: seen(2, partitions=(told(epoch=4, leader=3),)),
        },
        UP,
    )

    assert view.partitions[ORDERS].leader == 3
    assert view.controller == -1


def test_a_dead_leader_leads_nothing_and_its_replicas_are_offline():
    brokers = {**UP, 1: BrokerView(1, BrokerState.DOWN)}

    view = assemble({2: seen(2, epoch=7, partitions=(told(leader=1),))}, brokers)

    partition = view.partitions[ORDERS]
    assert partition.is_offline
    assert partition.offline == (1,)
    assert view.offline == 1


def test_a_replica_being_added_need_not_be_in_sync():
    sight = told(isr=(1, 2), adding=(3,))

    view = assemble({2: seen(2, epoch=7, partitions=(sight,))}, UP)

    assert not view.partitions[ORDERS].is_under_replicated
    assert view.under_replicated == 0


def test_offsets_are_the_leaders_and_ends_everybodys():
    follower = ReplicaSight(partition=ORDERS, leader=1, leader_epoch=3, log_end_offset=9)

    view = assemble({1: seen(1, replicas=(led(),)), 2: seen(2, replicas=(follower,))}, UP)

    assert view.offsets[ORDERS].high_watermark == 8
    assert view.offsets[ORDERS].ends == {1: 10, 2: 9}


async def test_a_cluster_shows_what_its_brokers_know(sim):
    cluster = SimulatedCluster(sim, brokers=3)
    await cluster.start_nodes()
    await cluster.admin().create_topic("orders", assignments={0: (1, 2, 3)})
    await sim.settle()

    cluster.kill(1)
    before = cluster.view()
    view = await cluster.until(leader("orders") != 1)

    assert before.partitions[ORDERS].is_offline
    assert before.brokers[1].state is BrokerState.DOWN
    assert view.partitions[ORDERS].leader == 2
    assert view.partitions[ORDERS].isr == (2, 3)
    assert view.brokers[view.controller].state is BrokerState.CONTROLLER
    assert view.brokers[2].leaders == 1
    assert view.under_replicated == 1
