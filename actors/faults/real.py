"""A scenario on a real cluster, with real ZooKeeper, and its verdict.

Rule: while it is played the invariants that can be seen look on. Then all is healed, and what must
come about is given some time: it is asked again and again until it holds, or has not in time.
Whatever happens, also Ctrl-C, all is healed before the cluster stops.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final

from actors.cluster import Cluster, resolve
from actors.conditions import NotReached
from actors.faults.hand import FaultRefused, Faults
from actors.faults.ledger import Ledger
from actors.faults.moments import NeverCame
from actors.faults.narrator import Narrator
from actors.faults.node_hand import NodeHand
from actors.faults.overseer import Overseer
from actors.faults.play import Play, is_whole
from actors.faults.replica_files import compare_replicas
from actors.faults.scenario import BadScenario, Scenario
from actors.faults.simulated import Verdict
from actors.faults.snapshot import ledger_of, snapshot
from actors.faults.stage import RealStage
from actors.faults.violation import Violation
from actors.node_cluster import Announce, NodeCluster
from actors.process_cluster import ProcessCluster
from actors.view import ClusterView
from runtime.folder import Folder
from runtime.keeper import Keeper, KeeperError
from runtime.real import RealProcess
from runtime.simulation.tree import Tree
from runtime.world import World
from wire.errors import ApiError
from wire.trace import ActorCrashed, Stamp, TraceEvent
from wire.znodes import ControllerZNode

JUDGE: Final = "judge"
COMES_ABOUT_MS: Final = 60_000  # that what must come about may take, once the cluster is whole
LOOK_AGAIN_MS: Final = 500
Tell = Callable[[str], None]


async def judge_real(
    scenario: Scenario,
    *,
    processes: bool = False,
    announce: Announce | None = None,
    narrate: Callable[[RealStage], Narrator],
) -> Verdict:
    """Play it on a cluster of its own; it is told by whom `narrate` makes of it, once it is up."""
    options: dict[str, Any] = {
        "session_timeout_ms": scenario.session_timeout_ms,
        "overrides": scenario.overrides,
        "announce": announce,
        "first": scenario.controller,
    }
    kind = ProcessCluster if processes else Cluster
    async with kind(scenario.brokers, **options) as cluster:
        hand = cluster.faults if isinstance(cluster, ProcessCluster) else NodeHand(cluster)
        narrator = narrate(cluster)
        try:
            return await judge_on(scenario, cluster, hand, narrator.tell)
        finally:
            narrator.stop()


async def judge_on(
    scenario: Scenario, stage: RealStage, hand: Faults, tell: Tell, *, is_guest: bool = False
) -> Verdict:
    """Play it on a cluster that is up; a guest takes its topics away when it goes."""
    if not set(range(1, scenario.brokers + 1)) <= set(stage.brokers):
        raise BadScenario(
            f"it needs the brokers 1 to {scenario.brokers}, and there are "
            f"{', '.join(map(str, stage.brokers))}"
        )
    verdict = Verdict(scenario.name, scenario.seed, expected=scenario.violated)
    play = Play(scenario, stage, hand, tell=tell)
    begun_ms, is_over = stage.clock.elapsed_ms(), False
    with _watched(stage, play) as judges:
        try:
            await play.run()
            judges.raise_if_violated()
            await _come_about(stage, judges, tell)
            is_over = True
        except Violation as violation:
            found = judges.overseer and judges.overseer.violation
            _note(verdict, found or violation)
        except (ApiError, NeverCame, NotReached, TimeoutError) as error:
            _note(verdict, Violation("L-0", f"{error!r}"))
        except FaultRefused as error:  # a step waits for what cannot be seen here
            raise BadScenario(str(error)) from None
        finally:
            if not is_over:
                await play.heal()
            if is_guest:
                await play.take_away()
    verdict.account = play.account
    verdict.virtual_ms = stage.clock.elapsed_ms() - begun_ms
    return verdict


def _note(verdict: Verdict, violation: Violation) -> None:
    verdict.invariant, verdict.violation = violation.invariant, str(violation)


class _Judges:
    """All who look on."""

    def __init__(self, stage: RealStage) -> None:
        self._stage = stage
        self._crashes: list[str] = []
        self.overseer = Overseer(stage) if isinstance(stage, NodeCluster) else None
        self._stop = stage.watch([ActorCrashed], self._on_crash)

    def stop(self) -> None:
        """Look no more."""
        self._stop()
        if self.overseer is not None:
            self.overseer.stop()

    def raise_if_violated(self) -> None:
        """Raise what was seen."""
        if self.overseer is not None:
            self.overseer.raise_if_violated()
        if self._crashes:
            raise Violation("crash", self._crashes[0])

    def judge_in_the_end(self, view: ClusterView, tree: Tree) -> None:
        """Raise what has not come about."""
        self.raise_if_violated()
        if not is_whole(view):
            raise Violation("L-2", "the cluster is not whole any more")
        ledger = ledger_of(tree)
        _judge_controller(view, ledger)
        _judge_view(view, ledger)
        if self.overseer is not None:
            self.overseer.judge_in_the_end(tree)

    def _on_crash(self, stamp: Stamp, event: TraceEvent) -> None:
        """Not if it was killed: what it was doing then goes on to its next await, and may fail."""
        assert isinstance(event, ActorCrashed)
        stage = self._stage
        if isinstance(stage, NodeCluster):
            up = (node for node in stage.nodes.values() if node.system.is_up)
            if all(node.world.node != stamp.node for node in up):
                return
        self._crashes.append(f"{stamp.node}: {event.actor} crashed: {event.error}")


@contextmanager
def _watched(stage: RealStage, play: Play) -> Iterator[_Judges]:
    judges = _Judges(stage)
    if judges.overseer is not None:
        overseer = judges.overseer
        play.voided = lambda: overseer.voided
    try:
        yield judges
    finally:
        judges.stop()


async def _come_about(stage: RealStage, judges: _Judges, tell: Tell) -> None:
    """Ask until all holds, or its time is over."""
    tell("all is healed and whole: what must have come about is looked at")
    end_ms, last = stage.clock.elapsed_ms() + COMES_ABOUT_MS, ""
    folder = Folder.open(None)
    process = RealProcess(resolve=resolve, data=folder.path, zookeeper=stage.zookeeper)
    await process.start()
    world, _ = await process.open(JUDGE)
    await world.keeper.start()
    try:
        while True:
            try:
                await _judge_once(stage, judges, world.keeper)
                break
            except (Violation, KeeperError) as error:
                if str(error) != last:
                    last = str(error)
                    tell(f"not yet: {last}")
                if stage.clock.elapsed_ms() >= end_ms:
                    raise
                await stage.clock.sleep(LOOK_AGAIN_MS)
    finally:
        await _goodbye(process, world)
        folder.close()
    view = await stage.look()
    compared = compare_replicas(view.partitions, stage.log_folder)
    tell(f"the files of all replicas agree: {compared} batches were compared")


async def _goodbye(process: RealProcess, world: World) -> None:
    with suppress(KeeperError):
        await process.leave(world)
    await process.close()


async def _judge_once(stage: RealStage, judges: _Judges, keeper: Keeper) -> None:
    tree = await snapshot(keeper)
    judges.judge_in_the_end(await stage.look(), tree)


def _judge_controller(view: ClusterView, ledger: Ledger) -> None:
    """L-1: one owns `/controller`, and is who the brokers believe it is."""
    tree = ledger.tree
    assert tree is not None, "it was made of one"
    path = ControllerZNode.path()
    is_there = tree.stat(path) is not None
    owner = ControllerZNode.decode(tree.get(path).data).broker if is_there else None
    if owner is None or owner != view.controller or ledger.epoch != view.controller_epoch:
        raise Violation(
            "L-1",
            f"ZooKeeper holds controller {owner} and epoch {ledger.epoch}; "
            f"seen are {view.controller} and {view.controller_epoch}",
        )


def _judge_view(view: ClusterView, ledger: Ledger) -> None:
    """L-3: what brokers say of their partitions is what ZooKeeper holds."""
    if set(view.partitions) != set(ledger.states):
        differ = sorted(set(view.partitions) ^ set(ledger.states))
        raise Violation("L-3", f"only ZooKeeper or only brokers know {differ[:5]}")
    for partition, seen in sorted(view.partitions.items()):
        state, _ = ledger.states[partition]
        held = (state.leader, state.leader_epoch, set(state.isr))
        if (seen.leader, seen.leader_epoch, set(seen.isr)) != held:
            raise Violation("L-3", f"brokers say {seen}, ZooKeeper {state}", partition=partition)
