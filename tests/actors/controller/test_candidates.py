"""Who becomes the controller, who does not, and who gives it back."""

import pytest

from actors.controller.candidate import register
from actors.controller.events import (
    LeaderAndIsrAnswered,
    RebalanceDue,
    StopReplicaAnswered,
    UncleanElectionEnabled,
)
from runtime.keeper import Change, Check, Create, Delete, Set, WatchEvent
from tests.support.drive import Drive, controller_named
from wire.admin import (
    AlterPartitionReassignments,
    AlterPartitionReassignmentsResponse,
    ElectionType,
    ElectLeaders,
    ElectLeadersResponse,
    ListPartitionReassignments,
    ListPartitionReassignmentsResponse,
)
from wire.control import (
    ControlledShutdown,
    ControlledShutdownResponse,
    LeaderAndIsrResponse,
    StopReplicaResponse,
)
from wire.errors import ControllerMoved, ErrorCode
from wire.ids import BrokerId, ControllerEpoch
from wire.trace import (
    CallFinished,
    ControllerElected,
    ControllerEventFailed,
    ControllerResigned,
    KeeperOperation,
    ResignationStep,
)
from wire.znodes import ControllerEpochZNode, ControllerZNode

CONTROLLER, EPOCH = ControllerZNode.path(), ControllerEpochZNode.path()
CANDIDATE = BrokerId(7)


@pytest.fixture
async def drive(sim):
    return await Drive.start(sim)


@pytest.fixture
async def candidate(sim, drive):
    """A ZooKeeper session that stands for election by hand."""
    keeper = sim.world("candidate").keeper
    await keeper.start()
    return keeper


def elections(drive):
    """The transactions that would make a broker the controller, by broker."""
    return [
        (each.node, each.operations)
        for each in drive.transactions
        if any(isinstance(part, Create) and part.path == CONTROLLER for part in each.operations)
    ]


def epoch(drive):
    znode = drive.tree.get(EPOCH)
    return int(znode.data), znode.stat.version


# --- winning --------------------------------------------------------------------------------------


@pytest.mark.behaviour("B001")
async def test_the_first_broker_becomes_the_controller_and_the_others_only_note_it(drive):
    assert ControllerZNode.decode(drive.tree.get(CONTROLLER).data).broker == 1
    owner = drive.node(1).world.keeper.session_id
    assert drive.tree.stat(CONTROLLER).ephemeral_owner == owner
    assert [node.controller.active_id for node in drive.cluster.nodes.values()] == [1, 1, 1]
    assert [node for node, _ in elections(drive)] == ["broker-1"]


@pytest.mark.behaviour("B001")
async def test_a_broker_looks_before_it_tries(drive):
    drive.forget()

    await drive.restart(4)

    looks = [
        event.operation
        for stamp, event in drive.events
        if stamp.node == "broker-4"
        and isinstance(event, KeeperOperation)
        and event.path == CONTROLLER
    ]
    assert set(looks) == {"exists", "get"}
    assert elections(drive) == []
    assert drive.node(4).controller.active_id == 1


@pytest.mark.behaviour("B002")
async def test_each_election_raises_the_epoch_by_one_from_one(drive):
    assert epoch(drive) == (1, 1)
    assert drive.of(ControllerElected) == [ControllerElected(1, 1, 1)]

    for number in (2, 3, 4):
        await drive.keeper.delete(CONTROLLER)
        await drive.settle()

        assert epoch(drive) == (number, number)
        assert drive.of(ControllerElected)[-1].controller_epoch == number
        assert (drive.context.epoch, drive.context.epoch_version) == (number, number)

    assert len(drive.of(ControllerElected)) == 4


@pytest.mark.behaviour("B004")
async def test_the_controller_and_its_epoch_are_written_in_one_transaction(drive):
    (_, operations), *_ = elections(drive)

    assert operations == (
        Create(CONTROLLER, drive.tree.get(CONTROLLER).data, ephemeral=True),
        Set(EPOCH, b"1", 0),
    )


@pytest.mark.behaviour("B004")
async def test_who_finds_the_office_taken_leaves_the_epoch_alone(drive, candidate):
    with pytest.raises(ControllerMoved):
        await register(candidate, CANDIDATE, 0)

    assert epoch(drive) == (1, 1)


# Before 2.1 a broker created /controller first, and might then fail to raise the epoch: it held an
# office that it could not exercise until its session ended. Here it never gets that far.
@pytest.mark.behaviour("B003", "B004")
async def test_who_cannot_raise_the_epoch_does_not_hold_the_office_either(sim, drive, candidate):
    await drive.stop(1)
    await drive.stop(2)
    await drive.stop(3)
    drive.at_first(
        KeeperOperation,
        lambda: drive.tree.commit([Set(EPOCH, b"41")], 0, 0),
        lambda event: event.operation == "get" and event.path == EPOCH,
    )

    with pytest.raises(ControllerMoved):
        await register(candidate, CANDIDATE, 0)

    assert not drive.exists(CONTROLLER)
    assert drive.tree.get(EPOCH).data == b"41"
    version = drive.tree.stat(EPOCH).version
    assert await register(candidate, CANDIDATE, 0) == (42, version + 1)


@pytest.mark.behaviour("B005")
async def test_a_candidate_whose_answer_is_lost_finds_that_it_has_won(sim, drive, candidate):
    for broker in (1, 2, 3):
        await drive.stop(broker)
    before = epoch(drive)
    drive.forget()
    sim.lose_reply("candidate")

    won = await register(candidate, CANDIDATE, 0)

    assert won == (before[0] + 1, before[1] + 1) == epoch(drive)
    assert drive.tree.stat(CONTROLLER).ephemeral_owner == candidate.session_id
    assert len(elections(drive)) == 2  # it was sent again, and refused


@pytest.mark.behaviour("B005")
@pytest.mark.parametrize(
    ("holder", "epoch_after"),
    [(9, b"6"), (CANDIDATE, b"7")],
    ids=["another broker, my epoch", "my id, another epoch"],
)
async def test_a_candidate_has_lost_unless_both_the_id_and_the_epoch_are_its_own(
    sim, drive, candidate, holder, epoch_after
):
    for broker in (1, 2, 3):
        await drive.stop(broker)
    await drive.keeper.set(EPOCH, b"5")
    others = [Create(CONTROLLER, controller_named(holder)), Set(EPOCH, epoch_after)]
    drive.at_first(
        KeeperOperation,
        lambda: drive.tree.commit(others, 0, 0),
        lambda event: event.operation == "get" and event.path == EPOCH,
    )

    with pytest.raises(ControllerMoved):
        await register(candidate, CANDIDATE, 0)  # tries to write 6

    assert drive.tree.get(EPOCH).data == epoch_after


@pytest.mark.behaviour("B005")
async def test_a_broker_whose_election_lost_its_answer_takes_office(sim, drive):
    sim.lose_reply("broker-2")
    sim.lose_reply("broker-3")

    await drive.kill(1)

    assert drive.controller_id in {2, 3}
    assert epoch(drive) == (2, 2)
    assert drive.of(ControllerElected)[1:] == [ControllerElected(drive.controller_id, 2, 2)]
    assert drive.context.epoch_version == 2


# --- losing ---------------------------------------------------------------------------------------


@pytest.mark.behaviour("B009")
async def test_every_broker_stands_when_the_office_falls_vacant_and_all_note_who_won(drive):
    for number in (2, 3):
        drive.forget()
        before = drive.controller_id

        await drive.keeper.delete(CONTROLLER)
        await drive.settle()

        assert epoch(drive) == (number, number)
        assert drive.of(ControllerResigned)[0].broker == before
        winner = drive.controller_id
        active = [node.controller.active_id for node in drive.cluster.nodes.values()]
        assert active == [winner] * 3
        assert ControllerZNode.decode(drive.tree.get(CONTROLLER).data).broker == winner


@pytest.mark.behaviour("B009")
async def test_who_is_no_longer_named_resigns_and_nobody_stands_while_the_office_is_held(drive):
    drive.forget()

    await drive.usurp(9)

    assert drive.cluster.controller is None
    assert drive.of(ControllerResigned) == [ControllerResigned(1, 1, "broker 9 is the controller")]
    assert [node.controller.active_id for node in drive.cluster.nodes.values()] == [9, 9, 9]
    assert elections(drive) == []

    await drive.keeper.delete(CONTROLLER)  # the watch was set again, on all of them
    await drive.settle()

    assert epoch(drive) == (2, 2)
    assert len({node.controller.active_id for node in drive.cluster.nodes.values()}) == 1


async def block_admin(drive):
    """Let nobody make the folder that each new controller watches, nor find it."""
    await drive.keeper.delete("/admin/delete_topics")
    await drive.keeper.delete("/admin")
    await drive.keeper.create("/admin", ephemeral=True)


@pytest.mark.behaviour("B010")
async def test_who_cannot_take_office_gives_it_back_until_somebody_can(sim, drive):
    drive.forget()
    drive.cluster.kill(1)
    await block_admin(drive)
    await sim.until(lambda: len(drive.of(ControllerResigned)) == 3)

    failed = drive.of(ControllerEventFailed)
    assert {each.event for each in failed} == {"failover"}
    assert all("NoChildrenForEphemerals" in each.error for each in failed)
    elected = drive.of(ControllerElected)
    assert [each.controller_epoch for each in elected] == list(range(2, 2 + len(elected)))
    removals = [
        each.operations for each in drive.transactions if Delete(CONTROLLER) in each.operations
    ]
    assert removals[:2] == [
        (Check(EPOCH, 2), Delete(CONTROLLER)),
        (Check(EPOCH, 3), Delete(CONTROLLER)),
    ]

    await drive.keeper.delete("/admin")
    await drive.settle()

    assert len(drive.of(ControllerElected)) == len(drive.of(ControllerResigned)) + 1
    assert drive.of(ControllerElected)[-1].broker == drive.controller_id


@pytest.mark.behaviour("B010")
async def test_who_gives_up_does_not_take_the_office_from_the_next(sim, drive):
    """The removal is fenced: between the look and the removal another one may have won."""
    others = [Delete(CONTROLLER), Create(CONTROLLER, controller_named(9)), Set(EPOCH, b"12")]
    drive.at_first(  # the last thing before the removal
        ResignationStep,
        lambda: drive.tree.commit(others, 0, 0),
        lambda event: event.step == "batch",
    )

    drive.cluster.kill(1)
    await block_admin(drive)
    await sim.until(lambda: bool(drive.of(ControllerResigned)))
    await drive.settle()

    assert ControllerZNode.decode(drive.tree.get(CONTROLLER).data).broker == 9
    assert drive.tree.get(EPOCH).data == b"12"


# --- not being one --------------------------------------------------------------------------------


@pytest.mark.behaviour("B013")
@pytest.mark.parametrize(
    ("request_", "response", "code"),
    [
        (
            ElectLeaders(election_type=ElectionType.PREFERRED, timeout_ms=1_000),
            ElectLeadersResponse,
            ErrorCode.NOT_CONTROLLER,
        ),
        (
            AlterPartitionReassignments(partitions=(), timeout_ms=1_000),
            AlterPartitionReassignmentsResponse,
            ErrorCode.NOT_CONTROLLER,
        ),
        (
            ListPartitionReassignments(timeout_ms=1_000),
            ListPartitionReassignmentsResponse,
            ErrorCode.NOT_CONTROLLER,
        ),
        (
            ControlledShutdown(broker_id=BrokerId(3), broker_epoch=-1),
            ControlledShutdownResponse,
            ErrorCode.STALE_CONTROLLER_EPOCH,  # as Kafka's ControllerMovedException
        ),
    ],
    ids=["elect", "alter", "list", "shutdown"],
)
async def test_only_the_active_controller_answers_for_the_cluster(drive, request_, response, code):
    assert (await drive.ask(2, request_, response)).error_code is code
    assert (await drive.ask(1, request_, response)).error_code is ErrorCode.NONE


@pytest.mark.behaviour("B013")
async def test_who_is_not_active_ignores_every_event(drive):
    await drive.create("orders", [1, 2, 3])
    drive.forget()
    idle = drive.node(2)
    session = idle.world.keeper.session

    for event in (
        WatchEvent(Change.CHILDREN, "/brokers/ids", session),
        WatchEvent(Change.CHILDREN, "/brokers/topics", session),
        WatchEvent(Change.CREATED, "/admin/reassign_partitions", session),
        RebalanceDue(ControllerEpoch(1)),
        UncleanElectionEnabled(None),
        LeaderAndIsrAnswered(
            BrokerId(1),
            ControllerEpoch(1),
            LeaderAndIsrResponse(error_code=ErrorCode.KAFKA_STORAGE_ERROR),
        ),
        StopReplicaAnswered(BrokerId(1), ControllerEpoch(1), StopReplicaResponse(), frozenset()),
    ):
        idle.controller.ref.tell(event)
    await drive.settle()

    events = [event for stamp, event in drive.events if stamp.node == "broker-2"]
    assert {each.request for each in events if isinstance(each, CallFinished)} == {"Fetch"}
    assert [each for each in events if not isinstance(each, CallFinished)] == []
    assert drive.transactions == []
    assert [each for each in drive.requests if each.source == "broker-2"] == []
