"""Every invariant of the control plane is silent whatever fails, and fires when it is broken."""

import pytest

from actors.broker.fence import Fence
from actors.controller import partition_states
from actors.controller.election import Elected
from actors.controller.outbox import Outbox
from actors.controller.reassignment import Reassignments
from actors.faults.control_plane import control_plane
from actors.faults.deletions import DataIsDeletedOnPurpose, TopicsVanishWhole
from actors.faults.elections import ElectionsAreClean, PreferredLeadersOnly
from actors.faults.epochs import (
    ControllersHaveWon,
    OneControllerAnEpoch,
    PastControllersChangeNothing,
)
from actors.faults.goodbyes import GoodbyesTellWhatRemains
from actors.faults.moves import MovesKeepWhatTheyNeed
from actors.faults.orders import BrokersTakeNewsOnly, OrdersKeepTheirOrder
from actors.faults.phases import PARTITIONS, REPLICAS, ChangesAreLegal
from actors.faults.states import (
    ControllersBelieveZooKeeper,
    InSyncReplicasAreAssigned,
    LeaderEpochsGrow,
)
from actors.faults.violation import Violation
from actors.faults.watched import Watched
from runtime.keeper import Check, Create, Delete, Set
from runtime.simulation.simulator import run
from tests.actors.faults.planted import (
    ORDERS,
    Planted,
    adventures,
    decision,
    disturbed,
    metadata,
)
from wire.control import (
    ControlledShutdown,
    ControlledShutdownResponse,
    LeaderAndIsrResponse,
    StopReplica,
    StopReplicaPartition,
    StopReplicaResponse,
    UpdateMetadataPartition,
    UpdateMetadataResponse,
)
from wire.errors import ErrorCode
from wire.ids import BrokerEpoch, BrokerId, ControllerEpoch, LeaderEpoch, Offset
from wire.message import PartitionResult
from wire.records import Record, assign, encode_batch
from wire.trace import (
    BrokerRegistered,
    ControllerElected,
    ControllerResigned,
    LeaderElected,
    MessageHandled,
    PartitionStateChanged,
    ReplicaRoleChanged,
    ReplicaStateChanged,
    TransitionRefused,
)
from wire.znodes import TopicAssignment, TopicZNode

PREFERRED = "PreferredReplicaPartitionLeaderElectionStrategy"
KINDS = tuple(type(each) for each in control_plane())


def stop(leader_epoch: int = 0, *, delete: bool = False, broker_epoch: int = -1) -> StopReplica:
    return StopReplica(
        controller_id=BrokerId(1),
        controller_epoch=ControllerEpoch(1),
        broker_epoch=BrokerEpoch(broker_epoch),
        partitions=(
            StopReplicaPartition(
                partition=ORDERS, leader_epoch=LeaderEpoch(leader_epoch), delete=delete
            ),
        ),
    )


def fires(planted: Planted, match: str):
    """The next check finds this."""
    with pytest.raises(Violation, match=match):
        planted.check()


# --- silence --------------------------------------------------------------------------------------


def test_there_is_one_for_each_number():
    numbers = [int(each.name.removeprefix("I-")) for each in control_plane()]

    assert numbers == [*range(1, 7), *range(9, 18)]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
async def test_it_is_silent_whatever_happens_to_a_cluster(sim, kind):
    planted = await Planted.with_topic(sim, kind(), brokers=4)

    await adventures(planted)

    planted.check_in_the_end()
    assert planted.watched.steps > 100


@pytest.mark.parametrize("seed", [5064, 8689, *range(1, 7)])
@pytest.mark.parametrize("is_wide", [True, False])
def test_all_are_silent_in_chaos(seed, is_wide):
    run(lambda: disturbed(seed, *control_plane(), is_wide=is_wide))


async def test_states_are_silent_if_the_cluster_ran_before_they_looked(sim):
    planted = await Planted.with_topic(sim, brokers=4)
    kinds = (LeaderEpochsGrow, InSyncReplicasAreAssigned, ControllersBelieveZooKeeper)
    late = Planted(planted.drive, Watched(sim, planted.drive.cluster, [kind() for kind in kinds]))

    await adventures(late)

    late.check_in_the_end()


# --- I-1, I-2, I-3 --------------------------------------------------------------------------------


@pytest.mark.behaviour("I-1")
async def test_an_epoch_that_is_skipped_or_falls_is_found(sim):
    planted = await Planted.with_topic(sim, OneControllerAnEpoch())

    planted.commit("broker-2", Set("/controller_epoch", b"3"))

    fires(planted, "I-1: broker-2 writes epoch 3 after 1")


@pytest.mark.behaviour("I-1")
async def test_two_brokers_that_give_orders_in_one_epoch_are_found(sim):
    planted = await Planted.with_topic(sim, OneControllerAnEpoch())

    planted.send(2, 3, metadata(epoch=1))

    fires(planted, "I-1: broker-1 and broker-2 both act as controller of epoch 1")


@pytest.mark.behaviour("I-1")
async def test_a_broker_that_writes_under_the_epoch_of_another_is_found(sim):
    planted = await Planted.with_topic(sim, OneControllerAnEpoch())
    version = planted.drive.tree.get("/controller_epoch").stat.version

    planted.commit("broker-2", Check("/controller_epoch", version))

    fires(planted, "I-1: broker-2 writes under the epoch of broker-1")


@pytest.mark.behaviour("I-2")
async def test_a_broker_that_obeys_a_past_controller_is_found(sim):
    planted = await Planted.with_topic(sim, PastControllersChangeNothing())

    planted.obey(2, 3, metadata(epoch=5), UpdateMetadataResponse())
    refused = UpdateMetadataResponse(error_code=ErrorCode.STALE_CONTROLLER_EPOCH)
    planted.obey(1, 3, metadata(epoch=1), refused)
    planted.check()
    planted.obey(1, 3, metadata(epoch=1), UpdateMetadataResponse())

    fires(planted, "I-2: broker-3 obeyed a UpdateMetadata of epoch 1 after one of 5")


@pytest.mark.behaviour("I-2")
async def test_a_past_controller_that_decides_is_found(sim):
    planted = await Planted.with_topic(sim, PastControllersChangeNothing())

    planted.write_state("broker-2", isr=(1, 2))  # a leader may do that
    planted.check()
    planted.write_state("broker-2", leader_epoch=1)

    fires(planted, "I-2: broker-2 decides about orders-0 while broker-1 is the controller")


@pytest.mark.behaviour("I-2")
async def test_a_decision_under_an_epoch_that_is_over_is_found(sim):
    planted = await Planted.with_topic(sim, PastControllersChangeNothing())

    planted.write_state("broker-1", leader_epoch=1, controller_epoch=0)

    fires(planted, "I-2 orders-0: broker-1 decides with epoch 0 in epoch 1")


@pytest.mark.behaviour("I-2")
async def test_a_broken_fence_is_found(sim, monkeypatch):
    monkeypatch.setattr(Fence, "check", lambda self, request: None)
    planted = await Planted.with_topic(sim, PastControllersChangeNothing(), BrokersTakeNewsOnly())

    drive = planted.drive
    await drive.depose_unawares()
    await drive.create("other", [2, 3])
    old = metadata(epoch=1)
    await drive.settle()
    sim.heal()
    response = await drive.ask(3, old, UpdateMetadataResponse)
    assert response.error_code is ErrorCode.NONE
    # A client is no controller, but the broker does not know that: the answer is what counts.
    planted.obey(1, 3, old, response)

    fires(planted, "I-2: broker-3 obeyed")


@pytest.mark.behaviour("I-2")
async def test_a_past_controller_that_takes_away_requests_or_topics_is_found(sim):
    planted = await Planted.with_topic(sim, PastControllersChangeNothing())

    planted.commit("tool", Create("/admin/delete_topics/orders"))
    planted.commit("tool", Delete("/admin/delete_topics/orders"))
    planted.check()
    planted.commit("tool", Create("/admin/delete_topics/orders"))
    planted.commit("broker-3", Delete("/admin/delete_topics/orders"))

    fires(planted, "I-2: broker-3 removes /admin/delete_topics/orders")


@pytest.mark.behaviour("I-3")
async def test_a_controller_that_never_won_is_found(sim):
    planted = await Planted.with_topic(sim, ControllersHaveWon())

    planted.leave(2, ControllerElected(2, 1, 1))

    fires(planted, "I-3: broker-2 is active in epoch 1, won by broker-1")


@pytest.mark.behaviour("I-3")
async def test_a_controller_that_outlives_its_session_is_found(sim):
    planted = await Planted.with_topic(sim, ControllersHaveWon())

    planted.leave(2, MessageHandled("controller", "Expired", 0, 0, "ok"))
    planted.check()
    planted.leave(1, MessageHandled("controller", "Expired", 0, 0, "ok"))

    fires(planted, "I-3: broker-1 has lost its session and is active in 1")


@pytest.mark.behaviour("I-3")
async def test_a_controller_that_registers_in_another_session_before_it_resigned_is_found(sim):
    planted = await Planted.with_topic(sim, ControllersHaveWon())
    node = planted.drive.node(1)
    session = node.world.keeper.session

    planted.leave(1, BrokerRegistered(1, node.broker_epoch, session))  # once more in the same
    planted.check()
    planted.leave(1, BrokerRegistered(1, node.broker_epoch + 50, session + 1))

    fires(planted, "I-3: broker-1 has another session and is active in 1")


@pytest.mark.behaviour("I-3")
async def test_a_controller_that_takes_the_same_office_again_is_found(sim):
    planted = await Planted.with_topic(sim, ControllersHaveWon())

    planted.leave(1, ControllerResigned(1, 1, "by hand"))
    planted.check()
    planted.leave(1, ControllerElected(1, 1, 1))

    fires(planted, "I-3: broker-1 is active in epoch 1 once more")


@pytest.mark.behaviour("I-3")
async def test_a_controller_that_gives_orders_after_it_resigned_is_found(sim):
    planted = await Planted.with_topic(sim, ControllersHaveWon())

    planted.leave(1, ControllerResigned(1, 1, "by hand"))
    planted.send(1, 3, metadata(epoch=1))

    fires(planted, "I-3: broker-1 sends a UpdateMetadata after its reign 1 is over")


# --- I-4, I-5, I-10 -------------------------------------------------------------------------------


@pytest.mark.behaviour("I-4")
@pytest.mark.parametrize(
    ("changes", "what"),
    [
        ({"leader_epoch": 0, "leader": 2}, "one leader epoch has two leaders"),
        ({"controller_epoch": 0}, "the controller epoch fell"),
    ],
)
async def test_a_state_that_contradicts_the_one_before_is_found(sim, changes, what):
    planted = await Planted.with_topic(sim, LeaderEpochsGrow())

    planted.write_state("broker-1", **changes)

    fires(planted, f"I-4 orders-0: {what}")


@pytest.mark.behaviour("I-4")
async def test_a_leader_epoch_that_falls_is_found(sim):
    planted = await Planted.with_topic(sim, LeaderEpochsGrow())

    planted.write_state("broker-1", leader_epoch=4)
    planted.check()
    planted.write_state("broker-1", leader_epoch=3)

    fires(planted, "I-4 orders-0: the leader epoch fell")


async def test_a_topic_made_anew_begins_with_epoch_0_again(sim):
    planted = await Planted.with_topic(sim, LeaderEpochsGrow())

    planted.write_state("broker-1", leader_epoch=4)
    await planted.drive.delete("orders")
    await planted.drive.settle()
    await planted.drive.create("orders", [1, 2])

    assert planted.drive.state("orders").leader_epoch == 0
    planted.check()


@pytest.mark.behaviour("I-5")
@pytest.mark.parametrize(
    ("changes", "what"),
    [
        ({"isr": ()}, "the ISR is empty"),
        ({"isr": (1, 2, 2)}, "the ISR names somebody twice"),
        ({"isr": (2, 3)}, "the leader is not in the ISR"),
        ({"isr": (1, 9)}, "the ISR is not part of"),
        ({"isr": (9,), "leader": 9}, "the ISR is not part of"),
    ],
)
async def test_an_isr_that_cannot_be_is_found(sim, changes, what):
    planted = await Planted.with_topic(sim, InSyncReplicasAreAssigned())

    planted.write_state("broker-1", **changes)

    fires(planted, f"I-5 orders-0: {what}")


@pytest.mark.behaviour("I-5")
async def test_an_assignment_that_leaves_in_sync_replicas_out_is_found(sim):
    planted = await Planted.with_topic(sim, InSyncReplicasAreAssigned())

    planted.write_topic("broker-1", 1, 2)

    fires(planted, "I-5 orders-0: the ISR is not part of")


@pytest.mark.behaviour("I-10")
async def test_a_controller_that_tells_what_never_was_is_found(sim):
    planted = await Planted.with_topic(sim, ControllersBelieveZooKeeper())

    planted.send(1, 2, decision(epoch=0, version=0))
    planted.check()
    planted.send(1, 2, decision(epoch=1, version=1))

    fires(planted, "I-10 orders-0: broker-1 tells broker-2")


@pytest.mark.behaviour("I-10")
async def test_a_controller_that_believes_something_else_in_the_end_is_found(sim):
    planted = await Planted.with_topic(sim, ControllersBelieveZooKeeper())
    planted.check_in_the_end()

    planted.write_state("broker-1", isr=(1, 2))

    with pytest.raises(Violation, match="I-10 orders-0: the controller believes"):
        planted.check_in_the_end()


# --- I-6, I-16 ------------------------------------------------------------------------------------


def elect_anybody(replicas, isr, is_online, *, allow_unclean):
    live = [each for each in replicas if is_online(each)]
    return Elected(live[-1], (live[-1],))


@pytest.mark.behaviour("I-6")
async def test_an_election_of_somebody_who_was_not_in_sync_is_found(sim, monkeypatch):
    planted = await Planted.with_topic(sim, ElectionsAreClean())
    planted.drive.shrink(3, ORDERS)
    await sim.sleep(20)
    assert planted.drive.state("orders").isr == (1, 2)

    monkeypatch.setattr(partition_states, "elect_offline", elect_anybody)
    planted.drive.vanish(1)
    await sim.until(lambda: planted.watched.violation is not None, limit_ms=20_000)

    fires(planted, r"I-6 orders-0 on 3: .*elected 3, which was not in")


async def test_an_unclean_election_that_is_allowed_and_counted_is_none(sim):
    planted = await Planted.with_topic(
        sim, ElectionsAreClean(), unclean_leader_election_enable=True
    )
    drive = planted.drive
    await drive.kill(3)
    await drive.kill(2)
    sim.pause("broker-1")
    await drive.cluster.start_broker(3)
    drive.vanish(1)
    await drive.settle()

    assert any(each.is_unclean for each in drive.of(LeaderElected))
    planted.check()


@pytest.mark.behaviour("I-6")
async def test_an_unclean_election_that_is_said_to_be_clean_is_found(sim):
    planted = await Planted.with_topic(
        sim, ElectionsAreClean(), unclean_leader_election_enable=True
    )

    planted.write_state("broker-1", isr=(1,))
    planted.write_state("broker-1", leader=3, isr=(3,), leader_epoch=1)
    planted.check()
    elected = LeaderElected("orders", 0, 3, 1, "3", 2, "by hand", is_unclean=False)
    planted.leave(1, elected)

    fires(planted, "I-6 orders-0: broker-1 says of LeaderElected")


@pytest.mark.behaviour("I-6")
async def test_an_unclean_election_that_no_meter_counts_is_found(sim):
    planted = await Planted.with_topic(
        sim, ElectionsAreClean(), unclean_leader_election_enable=True
    )

    planted.write_state("broker-1", isr=(1,))
    planted.write_state("broker-1", leader=3, isr=(3,), leader_epoch=1)
    elected = LeaderElected("orders", 0, 3, 1, "3", 2, "by hand", is_unclean=True)
    planted.leave(1, elected)

    fires(planted, "I-6: broker-1 counts 0 unclean elections, not 1")


@pytest.mark.behaviour("I-16")
async def test_a_preferred_election_of_another_is_found(sim, monkeypatch):
    planted = await Planted.with_topic(sim, PreferredLeadersOnly())
    await planted.drive.kill(1)
    await planted.drive.restart(1)
    assert planted.drive.state("orders").leader == 2

    monkeypatch.setattr(
        partition_states, "elect_preferred", lambda replicas, isr, _: Elected(replicas[-1], isr)
    )
    await planted.drive.prefer(ORDERS)
    await planted.drive.settle()

    fires(planted, r"I-16 orders-0 on 3: .* is not the head of \(1, 2, 3\)")


@pytest.mark.behaviour("I-16")
@pytest.mark.parametrize(
    ("isr", "what"), [("1,2", "has the ISR 1,2, not 1,2,3"), ("1,2,3", "is not alive")]
)
async def test_a_preferred_election_that_changes_more_than_the_leader_is_found(sim, isr, what):
    planted = await Planted.with_topic(sim, PreferredLeadersOnly())
    planted.write_state("broker-1", leader_epoch=1)
    if "alive" in what:
        planted.drive.context.shutting_down.add(BrokerId(1))

    planted.leave(1, LeaderElected("orders", 0, 1, 1, isr, 1, PREFERRED, is_unclean=False))

    fires(planted, f"I-16 orders-0 on 1: .*which {what}")


# --- I-9 ------------------------------------------------------------------------------------------


@pytest.mark.behaviour("I-9")
async def test_a_change_that_is_no_row_of_its_table_is_found(sim):
    planted = await Planted.with_topic(sim, ChangesAreLegal())

    planted.leave(1, PartitionStateChanged("new", 0, "NonExistentPartition", "OnlinePartition"))

    fires(planted, "I-9 new-0: broker-1 moves it from NonExistentPartition to OnlinePartition")


@pytest.mark.behaviour("I-9")
@pytest.mark.parametrize("after", REPLICAS)
async def test_a_replica_goes_only_where_its_table_says(sim, after):
    planted = await Planted.with_topic(sim, ChangesAreLegal())

    planted.leave(1, ReplicaStateChanged("orders", 0, 2, "OnlineReplica", after))

    if "OnlineReplica" in REPLICAS[after]:
        planted.check()
    else:
        fires(
            planted, f"I-9 orders-0: broker-1 moves the replica of 2 from OnlineReplica to {after}"
        )


def test_the_tables_know_all_states():
    assert set(PARTITIONS) == {row for rows in PARTITIONS.values() for row in rows}
    assert set(REPLICAS) == {row for rows in REPLICAS.values() for row in rows}


@pytest.mark.behaviour("I-9")
async def test_a_refused_change_that_changed_something_is_found(sim):
    planted = await Planted.with_topic(sim, ChangesAreLegal())
    online, new = "OnlinePartition", "NewPartition"

    planted.leave(1, TransitionRefused("orders", 0, -1, online, new))
    planted.check()
    planted.leave(1, PartitionStateChanged("orders", 0, new, online))

    fires(planted, "I-9 orders-0: broker-1 finds it NewPartition, which was OnlinePartition")


# --- I-11, I-12 -----------------------------------------------------------------------------------


@pytest.mark.behaviour("I-11")
async def test_a_broker_that_takes_the_same_leader_epoch_again_is_found(sim):
    planted = await Planted.with_topic(sim, BrokersTakeNewsOnly())

    planted.leave(2, ReplicaRoleChanged("orders", 0, "stopped", 1, 0))
    planted.leave(2, ReplicaRoleChanged("orders", 0, "follower", 1, 0))
    planted.check()
    planted.leave(2, ReplicaRoleChanged("orders", 0, "follower", 1, 0))

    fires(planted, "I-11 orders-0: broker-2 took leader epoch 0 after 0")


@pytest.mark.behaviour("I-11")
async def test_a_broker_that_obeys_an_order_for_its_former_life_is_found(sim):
    planted = await Planted.with_topic(sim, BrokersTakeNewsOnly())
    old = planted.drive.node(2).broker_epoch
    early = planted.send(1, 2, request := metadata(broker_epoch=old))
    planted.arrive(1, 2, request, early)

    planted.leave(2, BrokerRegistered(2, old + 50, 2))
    planted.answer(1, 2, early, UpdateMetadataResponse())  # it was in the inbox
    planted.check()
    planted.obey(1, 2, request, UpdateMetadataResponse())

    fires(planted, f"I-11: broker-2, registered as {old + 50}, obeyed a UpdateMetadata for {old}")


@pytest.mark.behaviour("I-12")
async def test_a_request_that_overtakes_another_is_found(sim):
    planted = await Planted.with_topic(sim, OrdersKeepTheirOrder())

    planted.send(1, 2, stop())
    planted.send(1, 2, stop())  # once more
    planted.check()
    planted.send(1, 2, metadata())

    fires(planted, "I-12: broker-1 sends broker-2 a UpdateMetadata before a StopReplica was ans")


@pytest.mark.behaviour("I-12")
async def test_a_decision_without_its_metadata_is_found(sim):
    planted = await Planted.with_topic(sim, OrdersKeepTheirOrder())

    planted.obey(1, 2, decision(), LeaderAndIsrResponse())
    planted.obey(1, 2, stop(), StopReplicaResponse())

    fires(planted, "I-12: .* a StopReplica after a LeaderAndIsr whose metadata of orders-0 was due")


@pytest.mark.behaviour("I-12")
@pytest.mark.parametrize("request_", [stop(0), decision(0, 5)], ids=["stop", "decision"])
async def test_what_is_said_out_of_order_is_found(sim, request_):
    planted = await Planted.with_topic(sim, OrdersKeepTheirOrder())
    both = decision(3, 4)

    planted.obey(1, 2, both, LeaderAndIsrResponse())
    entry = both.partitions[0]
    told = metadata(partitions=(_told(entry),))
    planted.obey(1, 2, told, UpdateMetadataResponse())
    planted.obey(1, 2, metadata(), UpdateMetadataResponse())  # of a later batch
    planted.check()
    planted.send(1, 2, request_)

    fires(planted, "I-12 orders-0: broker-1 sends broker-2 a .* after")


@pytest.mark.behaviour("I-12")
async def test_a_stop_may_know_less_than_the_decision_of_its_batch_and_no_less_than_earlier_ones(
    sim,
):
    planted = await Planted.with_topic(sim, OrdersKeepTheirOrder())
    for epoch in (2, 3):
        decided = decision(epoch, epoch)
        planted.obey(1, 2, decided, LeaderAndIsrResponse())
        told = metadata(partitions=(_told(decided.partitions[0]),))
        planted.obey(1, 2, told, UpdateMetadataResponse())

    planted.obey(1, 2, stop(2), StopReplicaResponse())
    planted.check()
    planted.send(1, 2, stop(1))

    fires(planted, "I-12 orders-0: broker-1 sends broker-2 a StopReplica of epoch 1 after 2")


def _told(entry):
    return UpdateMetadataPartition(
        partition=entry.partition,
        controller_epoch=entry.controller_epoch,
        leader=entry.leader,
        leader_epoch=entry.leader_epoch,
        isr=entry.isr,
        partition_epoch=entry.partition_epoch,
        replicas=entry.replicas,
    )


@pytest.mark.behaviour("I-12")
async def test_an_outbox_that_sends_metadata_first_is_found(sim, monkeypatch):
    def send(self):
        self._send_metadata()
        self._send_leader_and_isr()
        self._send_stop_replica()
        self.clear()

    monkeypatch.setattr(Outbox, "send", send)
    planted = await Planted.start(sim, OrdersKeepTheirOrder())
    await planted.drive.write_topic("orders", {0: [1, 2, 3]})
    await planted.drive.settle()
    await planted.drive.kill(3)

    fires(planted, "I-12: broker-1 sends .* was due")


# --- I-13, I-14, I-15 -----------------------------------------------------------------------------


@pytest.mark.behaviour("I-13")
async def test_an_order_to_delete_what_is_assigned_is_found(sim):
    planted = await Planted.with_topic(sim, DataIsDeletedOnPurpose())

    planted.send(1, 3, stop())
    planted.check()
    planted.send(1, 3, stop(delete=True))

    fires(planted, "I-13 orders-0: broker-1 has a replica of 3 deleted")


async def test_an_order_to_delete_what_is_being_added_and_in_sync_is_found(sim):
    planted = await Planted.with_topic(sim, DataIsDeletedOnPurpose())
    planted.write_topic("broker-1", 1, 2, 3, adding_replicas=(BrokerId(3),))
    planted.send(1, 3, stop(delete=True))

    fires(planted, "I-13 orders-0: broker-1 has a replica of 3 deleted")  # it is in sync


async def test_an_order_to_delete_what_is_added_again_and_not_in_sync_is_none(sim):
    planted = await Planted.with_topic(sim, DataIsDeletedOnPurpose())
    planted.write_state("broker-1", isr=(1, 2))
    planted.write_topic("broker-1", 1, 2, 3, adding_replicas=(BrokerId(3),))

    planted.send(1, 3, stop(delete=True))

    planted.check()


async def test_an_order_to_delete_what_is_to_be_deleted_is_none(sim):
    planted = await Planted.with_topic(sim, DataIsDeletedOnPurpose())

    planted.write_topic("broker-1", 1, 2, 3, removing_replicas=(BrokerId(3),))
    planted.send(1, 3, stop(delete=True))
    planted.commit("tool", Create("/admin/delete_topics/orders"))
    planted.send(1, 2, stop(delete=True))

    planted.check()


@pytest.mark.behaviour("I-13")
async def test_a_broker_that_deletes_on_its_own_is_found(sim):
    planted = await Planted.with_topic(sim, DataIsDeletedOnPurpose())

    planted.leave(2, ReplicaRoleChanged("orders", 0, "deleted", 1, 0))

    fires(planted, "I-13 orders-0: broker-2 deleted a replica that nobody told it to")


@pytest.mark.behaviour("I-14")
async def test_a_move_that_ends_too_early_is_found(sim, monkeypatch):
    async def is_complete(self, partition, assignment):
        return True

    async def move_leader(self, partition, done):
        pass

    monkeypatch.setattr(Reassignments, "_is_complete", is_complete)
    monkeypatch.setattr(Reassignments, "_move_leader", move_leader)
    planted = await Planted.with_topic(sim, MovesKeepWhatTheyNeed(), brokers=4)
    await planted.drive.kill(4)
    await planted.drive.reassign({ORDERS: [4]})
    await planted.drive.settle()

    fires(planted, "I-14 orders-0: broker-1 moved")


@pytest.mark.behaviour("I-14")
async def test_a_leader_that_is_stopped_is_found(sim):
    planted = await Planted.with_topic(sim, MovesKeepWhatTheyNeed())

    planted.send(1, 2, stop())
    planted.check()
    planted.send(1, 1, stop())

    fires(planted, "I-14 orders-0: broker-1 stops the leader 1")


@pytest.mark.behaviour("I-14")
async def test_a_replica_that_is_dropped_without_a_move_is_found(sim):
    planted = await Planted.with_topic(sim, MovesKeepWhatTheyNeed())

    planted.write_topic("tool", 1, 2, 3, 4)  # a person may do that
    planted.check()
    planted.write_topic("broker-1", 1, 2)

    fires(planted, "I-14 orders-0: broker-1 moved")


@pytest.mark.behaviour("I-14")
async def test_a_partition_that_is_dropped_from_its_topic_is_found(sim):
    planted = await Planted.with_topic(sim, MovesKeepWhatTheyNeed())
    path = TopicZNode.path("orders")
    topic = TopicZNode.decode("orders", planted.drive.tree.get(path).data)
    grown = TopicAssignment(partitions={**topic.partitions, 1: topic.partitions[0]})

    planted.commit("tool", Set(path, TopicZNode.encode(grown)))
    planted.check()
    planted.commit("broker-1", Set(path, TopicZNode.encode(topic)))

    fires(planted, "I-14 orders-1: broker-1 dropped it from its topic")


@pytest.mark.behaviour("I-15")
async def test_a_topic_that_vanishes_before_its_replicas_is_found(sim):
    planted = await Planted.with_topic(sim, TopicsVanishWhole())

    answer = StopReplicaResponse(partitions=(PartitionResult(ORDERS, ErrorCode.NONE),))
    for broker in (1, 2):
        planted.obey(1, broker, stop(delete=True), answer)
    planted.remove_topic("broker-1")

    fires(planted, "I-15 orders-0 on 3: broker-1 removed what is left")


async def test_a_topic_whose_replicas_are_all_deleted_may_vanish(sim):
    planted = await Planted.with_topic(sim, TopicsVanishWhole())

    answer = StopReplicaResponse(partitions=(PartitionResult(ORDERS, ErrorCode.NONE),))
    for broker in (1, 2, 3):
        planted.obey(1, broker, stop(delete=True), answer)
    planted.remove_topic("broker-1")

    planted.check()


@pytest.mark.behaviour("I-15")
async def test_a_namesake_that_sees_old_records_is_found(sim):
    planted = await Planted.with_topic(sim, TopicsVanishWhole())
    replica = planted.drive.replica(1, "orders")
    batch = bytearray(encode_batch([Record(offset=Offset(0), timestamp_ms=1, value=b"old")]))
    assign(batch, base_offset=Offset(0), leader_epoch=LeaderEpoch(0))
    replica.opened().append_as_follower(batch, now_ms=0)
    identity = replica.hosted.topic_id

    planted.remove_topic("tool")
    planted.make_topic(1, 2, 3)
    planted.leave(1, ReplicaRoleChanged("orders", 0, "leader", 1, 0))  # it leads the former one
    planted.check()
    topic = planted.watched.invariants.all[0].ledger.topics["orders"]
    assert topic.topic_id is None
    planted.watched.invariants.all[0].ledger.topics["orders"] = type(topic)(
        partitions=topic.partitions, topic_id=identity
    )
    planted.leave(1, ReplicaRoleChanged("orders", 0, "leader", 1, 0))

    fires(planted, "I-15 orders-0 on 1 at 1: the leader of a topic made anew has records")


# --- I-17 -----------------------------------------------------------------------------------------


@pytest.mark.behaviour("I-17")
@pytest.mark.parametrize(("broker", "remaining"), [(1, ()), (2, (ORDERS,))])
async def test_a_goodbye_that_is_told_something_else_is_found(sim, broker, remaining):
    planted = await Planted.with_topic(sim, GoodbyesTellWhatRemains())
    goodbye = ControlledShutdown(broker_id=BrokerId(broker), broker_epoch=BrokerEpoch(-1))
    right = (ORDERS,) if broker == 1 else ()

    planted.obey(broker, 1, goodbye, ControlledShutdownResponse(remaining_partitions=right))
    planted.check()
    planted.obey(broker, 1, goodbye, ControlledShutdownResponse(remaining_partitions=remaining))

    fires(planted, f"I-17: broker {broker} was told that")
