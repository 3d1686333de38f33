"""Schedules for guards that random seeds would take too long to miss.

Rule: a schedule only disturbs, every invariant looks on, and in the end all is well again. What is
wrong is the invariants' to say: a schedule judges nothing itself.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, Final

from actors.cluster import SimulatedCluster
from actors.faults.control_plane import control_plane
from actors.faults.invariants import data_plane
from actors.faults.liveness import liveness
from actors.faults.violation import Violation
from actors.faults.watched import Watched
from actors.node import node_name
from runtime.keeper import Set
from runtime.network import NetworkError
from runtime.simulation.simulator import Simulator, run
from tests.support.data import produce
from tests.support.drive import Drive
from wire.codec import decode
from wire.control import ControlledShutdown, StopReplica
from wire.data import Fetch
from wire.frame import Frame, FrameKind
from wire.groups import (
    OffsetCommit,
    OffsetCommitPartition,
    OffsetCommitResponse,
    OffsetFetch,
    OffsetFetchResponse,
)
from wire.ids import BrokerId, Offset, TopicPartition
from wire.trace import ActorCrashed, ReassignmentStep, TraceEvent
from wire.znodes import ReplicaAssignment, TopicAssignment, TopicZNode

Plot = Callable[[Drive], Awaitable[None]]
QUIET_MS: Final = 70_000
LAG_MS: Final = 1_000  # short: while somebody lags, no session must end
CALM: Final = {"auto_leader_rebalance_enable": False, "replica_lag_time_max_ms": LAG_MS}
OFFSETS: Final = "__consumer_offsets"
ORDERS: Final = TopicPartition("orders", 0)


def enact(plot: Plot, brokers: int = 5) -> None:
    """One schedule; Violation says what went wrong."""
    run(lambda: _enact(plot, brokers))


async def _enact(plot: Plot, brokers: int) -> None:
    async with Simulator() as sim:
        drive = Drive(sim, SimulatedCluster(sim, brokers=brokers, overrides=CALM))
        invariants = (*control_plane(), *data_plane(), *liveness())
        watched = Watched(sim, drive.cluster, invariants)
        await drive.keeper.start()
        for broker in drive.cluster.brokers:  # the first is the controller
            await drive.cluster.start_broker(broker)
            await sim.settle()
        try:
            await plot(drive)
            sim.heal()
            for broker, node in drive.cluster.nodes.items():
                if not node.system.is_up:
                    await drive.cluster.start_broker(broker)
            await sim.sleep(QUIET_MS)
        finally:
            watched.raise_if_violated()
        watched.invariants.check_in_the_end()
        for crash in drive.of(ActorCrashed):
            raise Violation("crash", f"{crash.actor}: {crash.error}")


# --- who counts -----------------------------------------------------------------------------------


async def joins_and_falls_silent(drive: Drive) -> None:
    """A follower is let in; before its leader hears of that, it falls silent and others go on."""
    sim, orders = drive.sim, await drive.create("orders", [2, 3, 4])
    await produce(drive, orders, b"a", acks=-1)
    await _leave(drive, 4)

    def on_commit(node: str, operations: Any) -> None:
        if node == "broker-2" and _joins(operations, 4):
            sim.cut("broker-2", "zookeeper")
            sim.cut("broker-2", "broker-4")

    sim.zookeeper.on_commit.append(on_commit)
    sim.mend("broker-2", "broker-4")
    await sim.until(lambda: 4 in drive.state("orders").isr)
    sim.zookeeper.on_commit.remove(on_commit)
    await sim.sleep(2 * LAG_MS)  # nor is it one that had all a moment ago
    await produce(drive, orders, b"c", acks=-1, leader=2, timeout_ms=1_000)


async def _leave(drive: Drive, broker: int) -> None:
    """A follower is cut off its leader until it is not in sync."""
    leader = drive.state("orders").leader
    drive.sim.cut(node_name(leader), node_name(broker))
    await produce(drive, ORDERS, b"b", acks=1)
    await drive.sim.until(lambda: broker not in drive.state("orders").isr)


def _joins(operations: Any, broker: int) -> bool:
    sets = [each for each in operations if isinstance(each, Set) and each.path.endswith("/state")]
    return any(str(broker).encode() in each.data.partition(b'"isr"')[2] for each in sets)


# --- the past -------------------------------------------------------------------------------------


async def meets_its_namesake(drive: Drive) -> None:
    """A replica is moved away and its topic deleted and made anew while its broker is away."""
    orders = await drive.create("orders", [2, 3])
    for value in (b"old 0", b"old 1", b"old 2"):
        await produce(drive, orders, value, acks=-1)
    await drive.stop(3)
    await drive.alter({orders: [2, 4]})
    await drive.settle()
    await drive.delete("orders")
    await drive.settle()
    await drive.create("orders", [2, 4, 3])
    for value in (b"new 0", b"new 1", b"new 2", b"new 3"):
        await produce(drive, orders, value, acks=-1)
    await drive.restart(3)


async def deletes_what_was_made_anew(drive: Drive) -> None:
    """A topic is deleted and made anew; copies of the orders to delete it come only then."""
    late: list[Frame] = []
    transmit = drive.sim.network.transmit

    def keep(frame: Frame) -> None:
        if frame.kind is FrameKind.REQUEST and isinstance(decode(frame.payload), StopReplica):
            late.append(frame)
        transmit(frame)

    await drive.create("orders", [2, 3])
    drive.sim.network.transmit = keep  # type: ignore[method-assign]
    await drive.delete("orders")
    await drive.settle()
    drive.sim.network.transmit = transmit  # type: ignore[method-assign]
    orders = await drive.create("orders", [2, 3])
    await produce(drive, orders, b"committed", acks=-1)
    for frame in late:
        transmit(frame)
    await drive.settle()
    await drive.kill(2)


async def leads_what_was_moved_away(drive: Drive) -> None:
    """A leader has no session while its partition moves away; its process lives on."""
    orders = await drive.create("orders", [2, 3])
    await produce(drive, orders, b"committed", acks=-1)
    drive.sim.cut(node_name(2), "zookeeper")
    await drive.sim.sleep(QUIET_MS)
    await drive.alter({orders: [3, 4]})
    await drive.settle()


async def leads_a_namesake(drive: Drive) -> None:
    """The same, and the topic is deleted and made anew meanwhile."""
    await leads_what_was_moved_away(drive)
    await drive.delete("orders")
    await drive.settle()
    orders = await drive.create("orders", [3, 4])
    await produce(drive, orders, b"another", acks=-1)


async def comes_back_unnoticed(drive: Drive) -> None:
    """A broker loses power and its tail, comes back, and the controller dies that saw nothing."""
    orders = await drive.create("orders", [1, 2, 3])
    await produce(drive, orders, b"committed", acks=-1)
    await _bounce_unseen(drive, 2)


async def leads_again_without_its_tail(drive: Drive) -> None:
    """All in sync come back, and the leader has lost what its follower has kept."""
    orders = await drive.create("orders", [2, 3])
    for value in (b"a", b"b"):
        await produce(drive, orders, value, acks=-1)
    drive.sim.cut("broker-2", "broker-3")
    await _bounce_unseen(drive, 2, kept=(3,))
    for value in (b"other a", b"other b", b"other c"):
        await produce(drive, orders, value, acks=1, leader=2)


async def _bounce_unseen(drive: Drive, *lost: int, kept: tuple[int, ...] = ()) -> None:
    """Some lose power, and what they have not synced; of some only the process ends."""
    controller = drive.controller_id
    drive.sim.pause(node_name(controller))
    for broker in (*kept, *lost):
        if broker in lost:
            drive.sim.lose_unsynced(node_name(broker))
        drive.sim.expire_session(node_name(broker))
        drive.cluster.kill(broker, process_only=broker in kept)
    for broker in (*kept, *lost):
        await drive.cluster.start_broker(broker)
    drive.vanish(controller)
    await drive.settle()


async def stops_well_and_then_does_not(drive: Drive) -> None:
    """A broker stops in its own time, comes back, takes records in a new epoch, and is killed."""
    orders = await drive.create("orders", [2, 3])
    await produce(drive, orders, b"a", acks=-1)
    await drive.stop(3)
    await drive.restart(3)
    await drive.kill(2)
    await produce(drive, orders, b"b", acks=-1)
    drive.sim.expire_session("broker-3")
    drive.cluster.kill(3, process_only=True)
    await drive.cluster.start_broker(3)
    await drive.settle()


async def fetched_in_a_former_life(drive: Drive) -> None:
    """A follower's last word before it lost power comes when it is back, with less."""
    sim, orders = drive.sim, await drive.create("orders", [2, 3, 4])
    await produce(drive, orders, b"a", acks=-1)
    await _leave(drive, 4)
    late: list[Frame] = []
    transmit = sim.network.transmit

    def keep(frame: Frame) -> None:
        is_fetch = frame.kind is FrameKind.REQUEST and frame.source == "broker-4"
        if is_fetch and not late and drive.replica(4, "orders").log_end_offset == 2:
            request = decode(frame.payload)
            if isinstance(request, Fetch) and frame.destination == "broker-2":
                late.append(frame)
                return
        transmit(frame)

    sim.network.transmit = keep  # type: ignore[method-assign]
    sim.mend("broker-2", "broker-4")
    await sim.until(lambda: bool(late))
    sim.lose_unsynced("broker-4")
    drive.vanish(4)
    sim.cut("broker-2", "broker-4", one_way=True)
    await drive.cluster.start_broker(4)
    await sim.sleep(100)
    transmit(late[0])
    await sim.sleep(2 * LAG_MS)
    sim.heal()
    await drive.settle()


# --- clients --------------------------------------------------------------------------------------


async def writes_to_a_follower(drive: Drive) -> None:
    """A client has old metadata, and does not ask for safety."""
    orders = await drive.create("orders", [2, 3, 4])
    await produce(drive, orders, b"a", acks=1, leader=2)
    await drive.kill(2)
    await drive.restart(2)
    await produce(drive, orders, b"b", acks=1, leader=3)
    with suppress(AssertionError):
        await produce(drive, orders, b"c", acks=1, leader=2)


# --- groups ---------------------------------------------------------------------------------------


async def reads_from_a_deposed_coordinator(drive: Drive) -> None:
    """One that neither ZooKeeper nor the controller reaches, while another takes commits."""
    sim = drive.sim
    await _coordinate(drive)
    await _commit(drive, 2, 5)
    sim.cut("broker-2", "zookeeper")
    for broker in (1, 3, 4):
        sim.cut(node_name(broker), "broker-2")
    await sim.until(lambda: drive.state(OFFSETS).leader == 3)
    await sim.sleep(3 * LAG_MS)
    await _commit(drive, 3, 7)
    await _read_group(drive, 2)


async def reads_from_a_new_coordinator(drive: Drive) -> None:
    """One that does not know yet how much of its log is committed."""
    sim = drive.sim
    await _coordinate(drive)
    await _commit(drive, 2, 5)
    await drive.settle()
    sim.cut("broker-3", "broker-4")
    await _commit(drive, 2, 7)
    drive.vanish(2)
    await sim.until(lambda: drive.state(OFFSETS).leader == 3)
    await sim.sleep(LAG_MS / 2)
    await _read_group(drive, 3)


async def commits_what_nobody_else_has(drive: Drive) -> None:
    """A coordinator is cut off its followers, takes a commit, and dies."""
    sim = drive.sim
    await _coordinate(drive)
    await _commit(drive, 2, 5)
    await drive.settle()
    for broker in (3, 4):
        sim.cut("broker-2", node_name(broker))
    committing = asyncio.ensure_future(_commit(drive, 2, 7))
    await sim.sleep(LAG_MS / 5)
    drive.vanish(2)
    with suppress(NetworkError):
        await committing
    await sim.until(lambda: drive.state(OFFSETS).leader == 3)
    await sim.sleep(LAG_MS)
    await _read_group(drive, 3)


async def _coordinate(drive: Drive) -> None:
    await drive.create("orders", [1])
    await drive.create(OFFSETS, [2, 3, 4])
    await drive.settle()


async def _commit(drive: Drive, broker: int, offset: int) -> None:
    part = OffsetCommitPartition(partition=ORDERS, committed_offset=Offset(offset))
    await drive.ask(broker, OffsetCommit(group_id="g", partitions=(part,)), OffsetCommitResponse)


async def _read_group(drive: Drive, broker: int) -> None:
    read = OffsetFetch(group_id="g", partitions=(ORDERS,))
    await drive.ask(broker, read, OffsetFetchResponse)


# --- at another moment each time ------------------------------------------------------------------


async def gives_a_move_up_and_dies(drive: Drive, number: int) -> None:
    """The controller dies at one of the steps in which it takes a move back (H15)."""
    orders = await drive.create("orders", [2, 3])
    await produce(drive, orders, b"a", acks=-1)
    drive.sim.cut("broker-2", "broker-5")
    await drive.alter({orders: [4, 5]})
    await drive.sim.until(lambda: 4 in drive.state("orders").isr)
    _die_at(drive, ReassignmentStep, number)
    giving_up = asyncio.ensure_future(drive.alter({orders: None}))
    await drive.sim.sleep(500)
    giving_up.cancel()
    drive.sim.heal()
    await drive.settle()


async def deletes_and_dies(drive: Drive, number: int) -> None:
    """The controller dies after one of the writes with which it deletes a topic."""
    orders = await drive.create("orders", {0: [2, 3], 1: [3, 4]})
    await produce(drive, orders, b"a", acks=-1)
    _die_after_write(drive, number)
    await drive.delete("orders")
    await drive.settle()


async def makes_a_topic_and_hears_nothing(drive: Drive, number: int) -> None:
    """The answer to one of the writes with which a controller makes a topic is lost."""
    _after_write(drive, number, lambda: drive.sim.lose_reply("broker-1"))
    await drive.write_topic("orders", {0: [2, 3], 1: [3, 4]})
    await drive.settle()


async def deletes_on_a_failed_disk(drive: Drive) -> None:
    """A disk fails just when it is to delete a replica."""
    orders = await drive.create("orders", [2, 3])
    await produce(drive, orders, b"a", acks=-1)
    drive.sim.fail_disk("broker-3", "")
    await drive.delete("orders")
    await drive.settle()
    drive.cluster.kill(3, process_only=True)
    drive.sim.heal_disk("broker-3")


async def grows_while_it_moves(drive: Drive, number: int) -> None:
    """Somebody adds a partition to a topic just when another one of it moves."""
    orders = await drive.create("orders", [2, 3])

    def grow() -> None:
        znode = drive.tree.get(TopicZNode.path("orders"))
        old = TopicZNode.decode("orders", znode.data)
        more = {**old.partitions, 1: ReplicaAssignment(replicas=(BrokerId(3), BrokerId(2)))}
        grown = TopicAssignment(partitions=more, topic_id=old.topic_id)
        path, data, version = (
            TopicZNode.path("orders"),
            TopicZNode.encode(grown),
            znode.stat.version,
        )
        growing.append(asyncio.ensure_future(drive.keeper.set(path, data, version=version)))

    growing: list[asyncio.Future[Any]] = []
    drive.sim.loop.call_later(number / 5_000, grow)
    await drive.alter({orders: [3, 4]})
    await drive.settle()


async def stands_too_late(drive: Drive, number: int) -> None:
    """One of those who stand for office is cut off just then; whoever wins dies meanwhile."""
    sim = drive.sim
    await drive.create("orders", [2, 3, 4])
    drive.vanish(1)
    await sim.sleep(number / 20)
    sim.cut("broker-2", "zookeeper")
    await sim.until(lambda: drive.exists("/controller"))
    drive.vanish(int(drive.tree.get("/controller").data.partition(b'"brokerid":')[2][:1]))
    if drive.node(2).system.is_up:
        sim.mend("broker-2", "zookeeper")
    await drive.settle()


# --- between a look and a write -------------------------------------------------------------------


async def shrinks_between_look_and_write(drive: Drive) -> None:
    """A leader takes somebody out of the ISR while the controller decides with that one in it."""
    sim, orders = drive.sim, await drive.create("orders", [2, 3, 4])
    await produce(drive, orders, b"a", acks=-1)

    async def shrink() -> None:
        drive.shrink(4, orders)
        await sim.until(lambda: 4 not in drive.state("orders").isr)
        await produce(drive, orders, b"b", acks=-1, timeout_ms=3 * LAG_MS)

    sim.cut("broker-2", "broker-4")
    drive.before_state_writes(shrink)
    await drive.alter({orders: [2, 3, 4, 1]})
    await produce(drive, orders, b"c", acks=1)
    await sim.sleep(2 * LAG_MS)


async def may_have_let_somebody_in(drive: Drive) -> None:
    """A leader does not hear that a join was written, nor of what the controller made of it."""
    sim, orders = drive.sim, await drive.create("orders", [2, 3, 4])
    await produce(drive, orders, b"a", acks=-1)
    await _leave(drive, 4)

    def on_commit(node: str, operations: Any) -> None:
        if node == "broker-2" and _joins(operations, 4):
            sim.lose_reply("broker-2")  # this one's
            sim.cut("broker-2", "zookeeper")
            sim.cut("broker-2", "broker-4")
            for broker in (2, 3):
                sim.cut("broker-1", node_name(broker), one_way=True)

    sim.zookeeper.on_commit.append(on_commit)
    sim.mend("broker-2", "broker-4")
    await sim.until(lambda: 4 in drive.state("orders").isr)
    sim.zookeeper.on_commit.remove(on_commit)
    moving = asyncio.ensure_future(drive.alter({orders: [2, 3, 4, 1]}))
    await sim.until(lambda: drive.state("orders").leader_epoch == 1)
    sim.mend("broker-2", "zookeeper")
    await sim.sleep(3 * LAG_MS)
    await produce(drive, orders, b"c", acks=-1, leader=2, timeout_ms=LAG_MS)
    sim.heal()
    await moving


async def says_goodbye_in_a_former_life(drive: Drive) -> None:
    """A broker's goodbye comes when it is back."""
    sim = drive.sim
    await drive.create("orders", [2, 3])
    late: list[Frame] = []
    transmit = sim.network.transmit

    def keep(frame: Frame) -> None:
        is_asked = frame.kind is FrameKind.REQUEST and frame.source == "broker-2"
        if is_asked and not late and isinstance(decode(frame.payload), ControlledShutdown):
            late.append(frame)
        transmit(frame)

    sim.network.transmit = keep  # type: ignore[method-assign]
    await drive.stop(2)
    await drive.restart(2)
    transmit(late[0])
    await drive.settle()


def _die_at(drive: Drive, kind: type[TraceEvent], number: int) -> None:
    """The controller dies when it leaves its n-th event of a kind from now on."""
    left = [number]

    def hear(_: Any, event: TraceEvent) -> None:
        left[0] -= isinstance(event, kind)
        if isinstance(event, kind) and left[0] == 0:
            drive.cluster.kill(1)

    drive.sim.trace.listeners.append(hear)


def _after_write(drive: Drive, number: int, act: Callable[[], object]) -> None:
    left = [number]

    def on_commit(node: str, _: Any) -> None:
        left[0] -= node == "broker-1"
        if node == "broker-1" and left[0] == 0:
            act()

    drive.sim.zookeeper.on_commit.append(on_commit)


def _die_after_write(drive: Drive, number: int) -> None:
    """The controller dies when its n-th transaction from now on is applied."""
    _after_write(drive, number, lambda: drive.cluster.kill(1))


ONE: Final[tuple[Plot, ...]] = (
    joins_and_falls_silent,
    meets_its_namesake,
    deletes_what_was_made_anew,
    leads_what_was_moved_away,
    leads_a_namesake,
    comes_back_unnoticed,
    leads_again_without_its_tail,
    stops_well_and_then_does_not,
    fetched_in_a_former_life,
    writes_to_a_follower,
    shrinks_between_look_and_write,
    may_have_let_somebody_in,
    says_goodbye_in_a_former_life,
    deletes_on_a_failed_disk,
    reads_from_a_deposed_coordinator,
    reads_from_a_new_coordinator,
    commits_what_nobody_else_has,
)
MANY: Final = {  # and how many moments there are
    gives_a_move_up_and_dies: 8,
    deletes_and_dies: 12,
    makes_a_topic_and_hears_nothing: 8,
    grows_while_it_moves: 40,
    stands_too_late: 60,
}


def _name(plot: Callable[..., Any]) -> str:
    return plot.__name__.replace("_", " ")


PLOTS: Final[dict[str, Callable[[int], Plot]]] = {
    **{_name(each): lambda _, each=each: each for each in ONE},
    **{_name(each): lambda number, each=each: lambda drive: each(drive, number) for each in MANY},
}
MOMENTS: Final = {_name(each): count for each, count in MANY.items()}
