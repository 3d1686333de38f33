"""What nobody can read in ZooKeeper is reported, passed over, and harms nobody.

One table of all znodes that the controller or a broker reads, and of what makes somebody read them.
/controller and /controller_epoch cannot just be passed over: see below.
"""

from collections.abc import Awaitable, Callable
from typing import NamedTuple

import pytest

from actors.broker.replica_manager import ShrinkIsr
from tests.support.drive import Drive
from wire.admin import ElectionType, ElectLeaders, ElectLeadersResponse
from wire.errors import ErrorCode
from wire.ids import BrokerId, TopicPartition
from wire.trace import (
    ActorCrashed,
    ControllerElected,
    ControllerEventFailed,
    ControllerResigned,
    NodeStopped,
    ZNodeSkipped,
)
from wire.znodes import BrokerIdZNode, PartitionState, TopicZNode

ORDERS = TopicPartition("orders", 0)
STATE = "/brokers/topics/orders/partitions/0/state"
NONSENSE = {
    "nothing": b"",
    "not JSON": b"nonsense",
    "not UTF-8": b"\xff\xfe{}",
    "not an object": b"[1]",
    "no keys": b"{}",
    "only a version": b'{"version":1}',
    "too deep": b'{"a":' * 100_000,
}
Action = Callable[[Drive], Awaitable[None]]


async def nothing(_: Drive) -> None:
    """The znode's appearance is enough."""


async def leader_dies(drive: Drive) -> None:
    await drive.kill(2)


async def isr_shrinks(drive: Drive) -> None:
    """The leader finds that its version is no longer the znode's, and looks what is there."""
    drive.node(2).replica_manager.ref.tell(ShrinkIsr((ORDERS,), frozenset({BrokerId(3)})))


async def all_in_sync_die(drive: Drive) -> None:
    """Then the configuration says whether another one may lead."""
    drive.shrink(3, ORDERS)
    await drive.settle()
    await drive.kill(2)


async def move_waits(drive: Drive) -> None:
    """For a broker that is not there; the partition's state is watched meanwhile."""
    await drive.reassign({ORDERS: [2, 3, 7]})
    await drive.settle()


class Case(NamedTuple):
    path: str
    read: Action = nothing
    by: str = "broker-1"  # who reports it; 1 is the controller, 2 leads orders-0
    before: Action = nothing
    is_sequential: bool = False


CASES = {
    "a new topic": Case("/brokers/topics/broken"),
    "a known topic": Case("/brokers/topics/orders"),
    "a new broker": Case("/brokers/ids/9"),
    "a known broker": Case("/brokers/ids/3"),
    "a partition's state, at an election": Case(STATE, leader_dies),
    "a partition's state, on the move": Case(STATE, before=move_waits),
    "a partition's state, for its leader": Case(STATE, isr_shrinks, by="broker-2"),
    "a reassignment": Case("/admin/reassign_partitions"),
    "a preferred election": Case("/admin/preferred_replica_election"),
    "an ISR change": Case("/isr_change_notification/isr_change_", is_sequential=True),
    "a failed disk": Case("/log_dir_event_notification/log_dir_event_", is_sequential=True),
    "a topic's configuration": Case("/config/topics/orders", all_in_sync_die),
    "a broker's configuration": Case("/config/brokers/1", all_in_sync_die),
    "all brokers' configuration": Case("/config/brokers/<default>", all_in_sync_die),
    "a changed configuration": Case(
        "/config/changes/config_change_", is_sequential=True, by="broker-3"
    ),
}
# Names that a stranger's child may have: below a folder that somebody watches.
STRANGERS = {
    "/brokers/topics/not a topic": "broker-1",
    "/brokers/ids/stranger": "broker-1",
    "/brokers/ids/01": "broker-1",
    "/admin/delete_topics/not a topic": "broker-1",
    "/isr_change_notification/stranger": "broker-1",
    "/isr_change_notification/isr_change_1": "broker-1",
    "/log_dir_event_notification/stranger": "broker-1",
    "/config/changes/stranger": "broker-2",
}
WELL_FORMED_BUT_WRONG = {
    "/brokers/ids/9": (
        b'{"version":5,"host":null,"port":-1,"jmx_port":-1,"timestamp":"1","endpoints":[],'
        b'"listener_security_protocol_map":{}}'
    ),
    "/brokers/topics/broken": b'{"version":2,"partitions":{"0":[1]},"adding_replicas":{"1":[2]}}',
    "/brokers/topics/broke": b'{"version":2,"partitions":{"-1":[1]}}',
    "/admin/reassign_partitions": (
        b'{"version":1,"partitions":[{"topic":"orders","partition":0,"replicas":[1]},'
        b'{"topic":"orders","partition":0,"replicas":[2]}]}'
    ),
    "/admin/preferred_replica_election": b'{"version":1,"partitions":[{"topic":"a b"}]}',
}


@pytest.fixture
async def drive(sim):
    drive = await Drive.start(sim)
    await drive.create("orders", [2, 3])
    return drive


async def put(drive: Drive, path: str, data: bytes, *, is_sequential: bool = False) -> str:
    """Write what nobody asked for; the path, with its number."""
    if drive.exists(path):
        await drive.keeper.set(path, data)
        return path
    return (await drive.keeper.create(path, data, sequential=is_sequential)).path


def skipped(drive: Drive) -> set[tuple[str, str]]:
    """Who reported which path."""
    return {
        (stamp.node, event.path) for stamp, event in drive.events if isinstance(event, ZNodeSkipped)
    }


async def assert_all_is_well(drive: Drive, controller: int = 1) -> None:
    """Nobody fell, and the controller does its work: for topics, brokers and elections."""
    assert drive.of(ActorCrashed) == []
    down = [stamp.node for stamp, event in drive.events if isinstance(event, NodeStopped)]
    assert set(down) <= {"broker-1" if controller != 1 else "", "broker-2"}  # those we killed
    assert drive.controller_id == controller
    await drive.create("proof", [controller, 3])
    assert drive.state("proof").leader == controller
    assert drive.cached(controller, "proof").leader == controller


@pytest.mark.parametrize("data", NONSENSE.values(), ids=NONSENSE)
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
async def test_a_malformed_znode_is_reported_and_passed_over(drive, case, data):
    await case.before(drive)
    drive.forget()

    path = await put(drive, case.path, data, is_sequential=case.is_sequential)
    await case.read(drive)
    await drive.settle()

    assert (case.by, path) in skipped(drive)
    await assert_all_is_well(drive)


@pytest.mark.parametrize(("path", "by"), STRANGERS.items(), ids=STRANGERS)
async def test_a_strangers_child_is_reported_and_passed_over(drive, path, by):
    drive.forget()

    await drive.keeper.create(path, b"whatever")
    await drive.settle()

    assert (by, path) in skipped(drive)
    await assert_all_is_well(drive)


@pytest.mark.parametrize(("path", "data"), WELL_FORMED_BUT_WRONG.items(), ids=WELL_FORMED_BUT_WRONG)
async def test_what_is_json_but_makes_no_sense_is_reported_too(drive, path, data):
    await put(drive, path, data)
    await drive.settle()

    assert ("broker-1", path) in skipped(drive)
    await assert_all_is_well(drive)


async def test_requests_and_notes_that_nobody_can_read_are_removed(drive):
    requests = ("/admin/reassign_partitions", "/admin/preferred_replica_election")
    folders = ("/isr_change_notification", "/log_dir_event_notification")
    for path in (*requests, *(f"{folder}/stranger" for folder in folders)):
        await put(drive, path, b"nonsense")
    await drive.settle()

    assert [path for path in requests if drive.exists(path)] == []
    assert [drive.tree.children(folder) for folder in folders] == [(), ()]

    await drive.reassign({ORDERS: [3, 1]})  # the next request is heeded
    await drive.settle()
    assert drive.assignment("orders").replicas == (3, 1)
    await drive.prefer(ORDERS)
    await drive.settle()
    assert drive.state("orders").leader == 3


@pytest.mark.parametrize(
    "path",
    [
        "/isr_change_notification/stranger",
        "/log_dir_event_notification/stranger",
        "/admin/delete_topics/ghost",
        "/admin/reassign_partitions",
        "/admin/preferred_replica_election",
    ],
)
@pytest.mark.parametrize("is_failover", [False, True])
async def test_what_is_to_be_removed_goes_with_all_that_is_below_it(drive, path, is_failover):
    drive.sim.pause("broker-1")
    await put(drive, path, b"nonsense")
    await put(drive, f"{path}/child", b"")
    if is_failover:
        drive.vanish(1)
    else:
        drive.sim.resume("broker-1")
    await drive.settle()

    assert not drive.exists(path)
    assert len(drive.of(ControllerElected)) == 1 + is_failover
    assert drive.of(ControllerEventFailed) == []


@pytest.mark.parametrize(
    "folder",
    ["/isr_change_notification", "/log_dir_event_notification", "/admin/delete_topics"],
)
async def test_a_folder_that_somebody_removed_is_made_again(drive, folder):
    await drive.keeper.delete(folder)
    await drive.settle()
    assert drive.exists(folder)

    drive.sim.pause("broker-1")
    await drive.keeper.delete(folder)
    drive.vanish(1)
    await drive.settle()

    assert drive.exists(folder)
    assert [each.controller_epoch for each in drive.of(ControllerElected)] == [1, 2]
    assert drive.of(ControllerEventFailed) == []


async def test_a_broker_whose_registration_is_mended_is_known_again(drive):
    path = BrokerIdZNode.path(BrokerId(3))
    data = drive.tree.get(path).data
    await drive.keeper.set(path, b"nonsense")
    await drive.kill(2)  # the controller looks at all brokers
    assert sorted(drive.context.brokers) == [1]

    await drive.keeper.set(path, data)
    await drive.settle()

    assert sorted(drive.context.brokers) == [1, 3]
    assert drive.state("orders").leader == 3


async def test_a_topic_that_cannot_be_read_hinders_no_other_move_of_the_request(drive):
    users = await drive.create("users", [2])
    await drive.keeper.set(TopicZNode.path("orders"), b"nonsense")

    await drive.reassign({ORDERS: [1], users: [3]})
    await drive.settle()

    assert drive.assignment("users").replicas == (3,)
    assert not drive.exists("/admin/reassign_partitions")


async def test_a_topic_that_is_mended_is_created(drive):
    await put(drive, "/brokers/topics/broken", b"nonsense")
    await drive.settle()
    assert "broken" not in drive.context.topics

    await drive.write_topic("broken", {0: [3, 1]})
    await drive.settle()

    assert drive.state("broken").leader == 3


async def test_a_topic_without_replicas_can_be_asked_for_and_does_no_harm(drive):
    await put(drive, "/brokers/topics/empty", b'{"version":2,"partitions":{"0":[]}}')
    await drive.settle()
    empty = TopicPartition("empty", 0)
    request = ElectLeaders(
        election_type=ElectionType.PREFERRED, partitions=(empty, ORDERS), timeout_ms=1_000
    )

    answer = await drive.ask(1, request, ElectLeadersResponse)
    await drive.sim.sleep(300_000)  # the balance is looked at, too

    assert {each.partition: each.error_code for each in answer.partitions} == {
        empty: ErrorCode.UNKNOWN_SERVER_ERROR,
        ORDERS: ErrorCode.ELECTION_NOT_NEEDED,
    }
    await assert_all_is_well(drive)


async def test_a_new_controller_takes_office_over_all_of_it(drive):
    await drive.create("bills", [3, 2])
    paths = ["/brokers/ids/9", "/brokers/topics/broken", STATE, "/config/topics/bills"]
    paths += [f"/{folder}" for folder in ("brokers/ids/x", "brokers/topics/a b")]
    paths += ["/admin/delete_topics/a b", "/admin/reassign_partitions"]
    paths += ["/admin/preferred_replica_election", "/isr_change_notification/x"]
    drive.cluster.kill(1)
    for path in paths:
        await put(drive, path, b"nonsense")
    drive.forget()
    await drive.settle()

    winner = drive.controller_id
    reported = {path for node, path in skipped(drive) if node == f"broker-{winner}"}
    quiet = {"/config/topics/bills", "/isr_change_notification/x"}  # not asked for, or thrown away
    assert reported == set(paths) - quiet
    assert drive.of(ControllerResigned) == []
    assert drive.context.topics.keys() == {"orders", "bills"}
    assert drive.state("bills").leader == 3
    await assert_all_is_well(drive, controller=winner)


# --- /controller and /controller_epoch ------------------------------------------------------------


@pytest.mark.parametrize("data", NONSENSE.values(), ids=NONSENSE)
async def test_where_nobody_can_read_who_reigns_nobody_does_until_the_znode_goes(drive, data):
    """Whoever held it cannot be sure any more; the others must not take what is held."""
    drive.forget()
    await put(drive, "/controller", data)
    await drive.settle()

    assert {(f"broker-{each}", "/controller") for each in (1, 2, 3)} <= skipped(drive)
    assert [each.broker for each in drive.of(ControllerResigned)] == [1]
    assert drive.of(ControllerElected) == []
    assert drive.cluster.controller is None
    assert drive.hosted(2, "orders").is_leader  # brokers go on without a controller

    await drive.keeper.delete("/controller")
    await drive.settle()

    (elected,) = drive.of(ControllerElected)
    assert elected.controller_epoch == 2
    await assert_all_is_well(drive, controller=drive.controller_id)


@pytest.mark.parametrize("data", [b"", b"nonsense", b"-1", b"1.0", b"\xff", b"99999999999"])
async def test_nobody_is_elected_under_an_epoch_that_cannot_be_read(drive, data):
    """A guess might be an epoch that was used before: then nothing would fence the former one."""
    drive.forget()
    await put(drive, "/controller_epoch", data)
    await drive.kill(1)

    assert {(f"broker-{each}", "/controller_epoch") for each in (2, 3)} <= skipped(drive)
    assert drive.of(ControllerElected) == []
    assert drive.tree.get("/controller_epoch").data == data
    assert not drive.exists("/controller")
    assert drive.of(ActorCrashed) == []

    await drive.keeper.set("/controller_epoch", b"1")  # an administrator mends it
    await drive.settle()

    assert [each.controller_epoch for each in drive.of(ControllerElected)] == [2]
    assert drive.state("orders").leader == 2


@pytest.mark.behaviour("B006")
@pytest.mark.parametrize("data", [b"nonsense", b"41"], ids=["nonsense", "another epoch"])
async def test_a_controller_whose_epoch_a_stranger_wrote_resigns_at_its_next_write(drive, data):
    """Its check fails for ever: it must not sit in an office in which nothing can be done."""
    drive.forget()
    await put(drive, "/controller_epoch", data)
    await drive.settle()
    assert drive.controller_id == 1  # it has not noticed, as nobody watches the epoch

    await drive.write_topic("proof", {0: [3]})
    await drive.settle()

    assert [each.broker for each in drive.of(ControllerResigned)] == [1]
    if data == b"nonsense":
        assert drive.of(ControllerElected) == []
        assert not drive.exists("/brokers/topics/proof/partitions")
        await drive.keeper.set("/controller_epoch", b"41")
        await drive.settle()

    assert [each.controller_epoch for each in drive.of(ControllerElected)] == [42]
    assert drive.state("proof") == PartitionState(
        controller_epoch=42, leader=3, leader_epoch=0, isr=(3,)
    )
