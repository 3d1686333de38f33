"""Batches: what goes into one, how it is sent, and what each request says. B125 to B133."""

import pytest

from actors.broker.api import ROUTES
from actors.controller.context import Leadership
from actors.controller.outbox import BatchNotEmpty
from tests.support.drive import Drive
from tests.support.orders import broker
from wire.codec import RESPONSE_OF, decode, encode
from wire.control import (
    LeaderAndIsr,
    LeaderAndIsrPartition,
    StopReplica,
    StopReplicaPartition,
    UpdateMetadata,
    UpdateMetadataPartition,
)
from wire.ids import (
    LEADER_EPOCH_DURING_DELETE,
    NO_CONTROL_SEQUENCE,
    NO_LEADER_EPOCH,
    Node,
    TopicPartition,
)
from wire.message import CODES
from wire.metadata import ApiVersionRange, ApiVersions, ApiVersionsResponse
from wire.trace import ControllerResigned
from wire.znodes import ReplicaAssignment

ORDERS = TopicPartition("orders", 0)


@pytest.fixture
async def drive(sim):
    drive = await Drive.start(sim)
    await drive.create("orders", {0: [1, 2, 3], 1: [2, 3, 1]})
    drive.forget()
    return drive


@pytest.fixture
def outbox(drive):
    """The outbox of the controller in office, between two events."""
    outbox = drive.reign.office.outbox
    outbox.begin()
    return outbox


def decide(drive, leader: int, epoch: int) -> Leadership:
    """Let the controller believe in another leader of orders-0."""
    leadership = Leadership(leader, epoch, (1, 2, 3), 1, epoch)
    drive.context.lead(ORDERS, leadership)
    return leadership


async def send(drive, outbox) -> None:
    outbox.send()
    await drive.sim.sleep(500)  # not until all is quiet: some follow a leader that is made up


# --- one batch after the other -------------------------------------------------------------------


@pytest.mark.behaviour("B125")
@pytest.mark.parametrize(
    "add",
    [
        lambda outbox: outbox.add_leader_and_isr((1,), ORDERS),
        lambda outbox: outbox.add_stop_replica(1, ORDERS, delete=False),
        lambda outbox: outbox.add_metadata(()),
    ],
    ids=["LeaderAndIsr", "StopReplica", "UpdateMetadata"],
)
async def test_a_batch_cannot_begin_while_another_one_is_unsent(sim, drive, outbox, add):
    add(outbox)

    with pytest.raises(BatchNotEmpty):
        outbox.begin()

    outbox.send()
    outbox.begin()  # it was sent
    add(outbox)
    outbox.clear()
    outbox.begin()  # it was forgotten


@pytest.mark.behaviour("B125")
async def test_an_event_that_finds_a_batch_unsent_costs_the_controller_its_office(drive, outbox):
    outbox.add_metadata(())

    await drive.write_topic("more", {0: [1, 2, 3]})
    await drive.settle()

    (resigned,) = drive.of(ControllerResigned)
    assert resigned.controller_epoch == 1
    assert drive.context.epoch == 2
    assert drive.state("more").controller_epoch == 2


@pytest.mark.behaviour("B126")
async def test_a_broker_gets_one_leader_and_isr_with_the_last_word_on_each_partition(drive, outbox):
    other = TopicPartition("orders", 1)
    outbox.add_leader_and_isr((2, 3), ORDERS)
    outbox.add_leader_and_isr((2,), other)
    decide(drive, leader=3, epoch=7)
    outbox.add_leader_and_isr((2,), ORDERS)

    await send(drive, outbox)

    (request,) = drive.sent(LeaderAndIsr, to=2)
    said = [(each.partition, each.leader, each.leader_epoch) for each in request.partitions]
    assert said == [(ORDERS, 3, 7), (other, 2, 0)]
    (former,) = drive.sent(LeaderAndIsr, to=3)  # nobody had another word for it
    assert [(each.leader, each.leader_epoch) for each in former.partitions] == [(1, 0)]
    assert drive.sent(LeaderAndIsr, to=1) == []


@pytest.mark.behaviour("B126")
@pytest.mark.parametrize("words", [(True, False), (False, True), (True, True), (False, False)])
async def test_new_and_delete_once_said_stay_said(drive, outbox, words):
    for word in words:
        outbox.add_leader_and_isr((2,), ORDERS, is_new=word)
        outbox.add_stop_replica(3, ORDERS, delete=word)

    await send(drive, outbox)

    (ordered,) = drive.sent(LeaderAndIsr, to=2)
    (stopped,) = drive.sent(StopReplica, to=3)
    assert [each.is_new for each in ordered.partitions] == [any(words)]
    assert [each.delete for each in stopped.partitions] == [any(words)]


@pytest.mark.behaviour("B126")
async def test_new_is_said_to_those_brokers_only_to_whom_it_was_said(drive, outbox):
    outbox.add_leader_and_isr((3,), ORDERS, is_new=True)
    outbox.add_leader_and_isr((2, 3), ORDERS)

    await send(drive, outbox)

    assert [drive.sent(LeaderAndIsr, to=each)[0].partitions[0].is_new for each in (2, 3)] == [
        False,
        True,
    ]


# --- who gets what, and in which order -----------------------------------------------------------


@pytest.mark.behaviour("B127")
async def test_what_one_broker_is_ordered_all_brokers_may_know(drive, outbox):
    drive.context.shutting_down.add(3)
    outbox.add_leader_and_isr((2,), ORDERS)

    await send(drive, outbox)

    assert [each.to for each in drive.requests if isinstance(each.request, LeaderAndIsr)] == [2]
    for each in (1, 2, 3):
        (told,) = drive.sent(UpdateMetadata, to=each)
        assert [entry.partition for entry in told.partitions] == [ORDERS]


@pytest.mark.behaviour("B128")
async def test_a_batch_goes_out_as_orders_then_metadata_then_stops(drive, outbox):
    outbox.add_stop_replica(2, TopicPartition("orders", 1), delete=False)
    outbox.add_metadata((ORDERS,))
    outbox.add_leader_and_isr((2,), ORDERS)

    await send(drive, outbox)

    to_broker_2 = [type(each.request) for each in drive.requests if each.to == 2]
    assert to_broker_2 == [LeaderAndIsr, UpdateMetadata, StopReplica]


@pytest.mark.behaviour("B128")
async def test_a_batch_goes_to_live_and_leaving_brokers_and_to_nobody_else(drive, outbox):
    drive.context.shutting_down.add(3)
    for each in (-1, 2, 3, 9):
        outbox.add_leader_and_isr((each,), ORDERS)
        outbox.add_stop_replica(each, TopicPartition("orders", 1), delete=False)
    outbox.add_metadata((), (3, 9))

    await send(drive, outbox)

    def told(kind):
        return sorted(each.to for each in drive.requests if isinstance(each.request, kind))

    assert told(LeaderAndIsr) == [2, 3]
    assert told(UpdateMetadata) == [1, 2, 3]
    assert told(StopReplica) == [2, 3]


# --- what requests say ---------------------------------------------------------------------------


@pytest.mark.behaviour("B129")
async def test_orders_name_the_leaders_in_them_and_metadata_names_everybody(drive, outbox):
    drive.context.shutting_down.add(3)
    decide(drive, leader=3, epoch=1)
    outbox.add_leader_and_isr((1,), ORDERS)
    outbox.add_leader_and_isr((1,), TopicPartition("orders", 1))

    await send(drive, outbox)

    (ordered,) = drive.sent(LeaderAndIsr, to=1)
    assert ordered.live_leaders == (Node(2, "broker-2", 9092), Node(3, "broker-3", 9092))
    (told,) = drive.sent(UpdateMetadata, to=1)
    assert told.live_brokers == (broker(1), broker(2), broker(3))


@pytest.mark.behaviour("B129")
async def test_a_leader_that_is_dead_is_not_named(drive, outbox):
    decide(drive, leader=9, epoch=1)
    outbox.add_leader_and_isr((1,), ORDERS)

    await send(drive, outbox)

    (ordered,) = drive.sent(LeaderAndIsr, to=1)
    assert (ordered.partitions[0].leader, ordered.live_leaders) == (9, ())


@pytest.mark.behaviour("B129")
async def test_metadata_is_silent_about_partitions_that_nobody_ever_led(drive, outbox):
    leaderless = TopicPartition("orders", 1)
    drive.context.drop_leadership(leaderless)
    outbox.add_metadata((ORDERS, leaderless))

    await send(drive, outbox)

    (told,) = drive.sent(UpdateMetadata, to=3)
    assert [each.partition for each in told.partitions] == [ORDERS]


@pytest.mark.behaviour("B129")
async def test_metadata_of_a_topic_that_is_deleted_has_leader_minus_2_and_the_old_isr(
    drive, outbox
):
    drive.context.topics_to_delete["orders"] = None
    outbox.add_metadata((ORDERS,))

    await send(drive, outbox)

    (told,) = drive.sent(UpdateMetadata, to=3)
    assert [(each.leader, each.isr) for each in told.partitions] == [(-2, (1, 2, 3))]
    assert drive.cached(3, "orders") is None


@pytest.mark.behaviour("B129")
async def test_metadata_lists_replicas_on_dead_brokers_and_failed_disks_as_offline(drive, outbox):
    drive.context.shutting_down.add(1)  # still there
    drive.context.offline_dirs[2] = {ORDERS: None}
    drive.context.assign(ORDERS, ReplicaAssignment(replicas=(1, 2, 3, 9)))
    outbox.add_metadata((ORDERS, TopicPartition("orders", 1)))

    await send(drive, outbox)

    (told,) = drive.sent(UpdateMetadata, to=3)
    assert [each.offline_replicas for each in told.partitions] == [(2, 9), ()]


@pytest.mark.behaviour("B130")
async def test_metadata_without_partitions_tells_who_lives_and_forgets_nothing(drive, outbox):
    # As of 2.2 (KAFKA-7537); before, "no partitions" was filled in with all of them.
    outbox.add_metadata(())

    await send(drive, outbox)

    for each in (1, 2, 3):
        (told,) = drive.sent(UpdateMetadata, to=each)
        assert told.partitions == ()
        assert told.live_brokers == (broker(1), broker(2), broker(3))
        assert drive.cached(each, "orders").leader == 1
    assert len(drive.requests) == 3


@pytest.mark.behaviour("B131")
async def test_orders_and_metadata_carry_who_speaks_to_which_life_and_each_full_state(drive):
    await drive.create("sales", [2, 3])

    topic_id = drive.context.topic_ids["sales"]
    sales = TopicPartition("sales", 0)
    common = {"controller_id": 1, "controller_epoch": 1}
    state = {
        "partition": sales,
        "controller_epoch": 1,
        "leader": 2,
        "leader_epoch": 0,
        "isr": (2, 3),
        "partition_epoch": 0,
        "replicas": (2, 3),
    }
    (order,), news = drive.sent(LeaderAndIsr, to=3), drive.sent(UpdateMetadata, to=1)[-1]
    assert drive.sent(LeaderAndIsr, to=3) == [
        LeaderAndIsr(
            **common,
            broker_epoch=drive.tree.stat("/brokers/ids/3").czxid,
            partitions=(LeaderAndIsrPartition(**state, is_new=True),),
            live_leaders=(Node(2, "broker-2", 9092),),
            topic_ids=(("sales", topic_id),),
            sequence=order.sequence,
        )
    ]
    assert news == UpdateMetadata(
        **common,
        broker_epoch=drive.tree.stat("/brokers/ids/1").czxid,
        partitions=(UpdateMetadataPartition(**state),),
        live_brokers=(broker(1), broker(2), broker(3)),
        topic_ids=(("sales", topic_id),),
        sequence=news.sequence,
    )
    assert NO_CONTROL_SEQUENCE < order.sequence < news.sequence


@pytest.mark.behaviour("B131")
async def test_a_partition_keeps_the_epoch_of_the_controller_that_decided_it_last(drive):
    await drive.create("sales", [2, 3])
    drive.forget()

    await drive.kill(1)

    requests = [each for each in drive.sent(LeaderAndIsr) if each.controller_epoch == 2]
    decided = {
        (order.partition.topic, order.leader_epoch, order.controller_epoch)
        for request in requests
        for order in request.partitions
        if order.partition.partition == 0
    }
    assert ("sales", 0, 1) in decided  # only told again
    assert drive.state("orders").controller_epoch == 2
    assert ("orders", drive.state("orders").leader_epoch, 2) in decided
    assert {request.controller_id for request in requests} == {drive.controller_id}


@pytest.mark.behaviour("B131")
async def test_orders_tell_which_replicas_are_added_and_removed(drive, outbox):
    drive.context.assign(
        ORDERS,
        ReplicaAssignment(replicas=(3, 1, 2), adding_replicas=(3,), removing_replicas=(2,)),
    )
    outbox.add_leader_and_isr((1,), ORDERS)

    await send(drive, outbox)

    (request,) = drive.sent(LeaderAndIsr, to=1)
    (order,) = request.partitions
    moves = (order.replicas, order.adding_replicas, order.removing_replicas)
    assert moves == ((3, 1, 2), (3,), (2,))


@pytest.mark.behaviour("B132")
async def test_one_stop_replica_says_for_each_partition_whether_to_delete_and_its_epoch(
    drive, outbox
):
    """Version 3 of the request (KIP-570): before 2.6 there was one request for each flag."""
    await drive.create("sales", [2, 3])
    leaderless, sales = TopicPartition("orders", 1), TopicPartition("sales", 0)
    drive.forget()
    decide(drive, leader=1, epoch=4)
    drive.context.drop_leadership(leaderless)
    drive.context.topics_to_delete["sales"] = None
    outbox.add_stop_replica(3, ORDERS, delete=False)
    outbox.add_stop_replica(3, leaderless, delete=True)
    outbox.add_stop_replica(3, sales, delete=True)

    await send(drive, outbox)

    assert drive.sent(StopReplica) == [
        StopReplica(
            controller_id=1,
            controller_epoch=1,
            broker_epoch=drive.tree.stat("/brokers/ids/3").czxid,
            partitions=(
                StopReplicaPartition(partition=ORDERS, leader_epoch=4, delete=False),
                StopReplicaPartition(
                    partition=leaderless, leader_epoch=NO_LEADER_EPOCH, delete=True
                ),
                StopReplicaPartition(
                    partition=sales, leader_epoch=LEADER_EPOCH_DURING_DELETE, delete=True
                ),
            ),
            sequence=drive.sent(StopReplica)[0].sequence,
        )
    ]


@pytest.mark.behaviour("B132", "B134")
@pytest.mark.parametrize(("deletes", "events"), [((False, False), 0), ((False, True), 1)])
async def test_the_controller_hears_only_of_stops_that_delete(sim, drive, outbox, deletes, events):
    for number, delete in enumerate(deletes):
        outbox.add_stop_replica(3, TopicPartition("orders", number), delete=delete)
    sim.trace.drain()

    await send(drive, outbox)

    assert len(drive.sent(StopReplica, to=3)) == 1
    handled = [event for _, event in sim.trace.handled(sim.trace.drain().messages)]
    names = [event.message for event in handled if event.actor == "broker-1/controller"]
    assert names.count("StopReplicaAnswered") == events


@pytest.mark.behaviour("B133")
async def test_every_broker_speaks_all_that_a_controller_says(sim, drive):
    """There is one wire format here, version 0, and no inter.broker.protocol.version to follow.

    So the row means: what the controller sends is what every broker lists, routes and decodes.
    """
    await drive.stop(3)  # all kinds of requests are sent
    said = {type(each.request) for each in drive.requests if each.source == "broker-1"}
    assert {LeaderAndIsr, UpdateMetadata, StopReplica} <= said

    for each in (1, 2):
        response = await drive.ask(each, ApiVersions(), ApiVersionsResponse)
        for kind in (LeaderAndIsr, UpdateMetadata, StopReplica):
            assert ApiVersionRange(CODES[kind.__name__], 0, 0) in response.api_keys
    for each in drive.requests:
        if isinstance(each.request, LeaderAndIsr | UpdateMetadata | StopReplica):
            assert ROUTES[type(each.request)] == "replica-manager"
            assert decode(encode(each.request)) == each.request
            assert type(each.request) in RESPONSE_OF
