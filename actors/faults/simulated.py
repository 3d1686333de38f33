"""A scenario in the simulator, with every invariant looking on, and its verdict.

Rule: the same scenario gives the same run, whoever plays it. A verdict is a value: it can be sent
from one process to another.
"""

import hashlib
from collections.abc import Callable, Collection
from typing import Any, Final

import msgspec
from msgspec import Struct, field

from actors.cluster import SimulatedCluster
from actors.conditions import NotReached
from actors.coordinator.records import OFFSETS_TOPIC
from actors.faults.coverage import Coverage
from actors.faults.every import all_invariants
from actors.faults.invariant import Invariant
from actors.faults.moments import NeverCame
from actors.faults.narrator import Narrator
from actors.faults.nemesis import lasting_scenario, random_scenario
from actors.faults.node_hand import NodeHand
from actors.faults.play import Account, Play
from actors.faults.promises import Promises
from actors.faults.scenario import Scenario, Topic
from actors.faults.unanswered import Unanswered
from actors.faults.violation import Violation
from actors.faults.watched import Watched
from runtime.simulation.loop import Stalled
from runtime.simulation.simulator import NeverQuiet, Simulator, run
from wire.errors import ApiError
from wire.ids import TopicPartition
from wire.trace import ActorCrashed, MessageHandled, Stamp, TraceEvent

QUIET_MS: Final = 13_000  # in which all that is told now and then is told
CAUSES: Final = 8
Tell = Callable[[str], None]


class Verdict(Struct):
    """What came of a scenario."""

    name: str
    seed: int
    invariant: str = ""  # empty: all held
    expected: str = ""  # the invariant that must be violated, to show a bug of the past
    violation: str = ""
    causes: tuple[str, ...] = ()  # the first bad event, and what led to it
    account: Account = field(default_factory=Account)
    virtual_ms: float = 0
    digest: str = ""
    coverage: tuple[tuple[str, str], ...] = ()  # transition, fault

    @property
    def is_good(self) -> bool:
        """Whether all held, or what must not hold did not."""
        return self.invariant == self.expected


def judge(
    scenario: Scenario,
    *,
    tell: Tell | None = None,
    is_traced: bool = False,
    narrate: Callable[[SimulatedCluster], Narrator] | None = None,
    only: Collection[str] = (),
) -> Verdict:
    """Play it in a simulator of its own; with is_traced the verdict has causes and a digest.

    What is done is told by `tell`; or by whom `narrate` makes of the cluster, once it is up. With
    names of invariants only these look on: what they see is not hidden by what others saw before.
    """
    looking_on = tuple(each for each in all_invariants() if not only or each.name in only)
    return run(lambda: _judge(scenario, tell, narrate, is_traced, looking_on))


def scenario_of_seed(seed: int, **options: Any) -> Scenario:
    """The random scenario of a seed."""
    return random_scenario(seed, _dice(seed), **options)


def lasting_scenario_of_seed(seed: int, *, for_ms: float) -> Scenario:
    """The random scenario of a seed for a real cluster."""
    return lasting_scenario(seed, _dice(seed), for_ms=for_ms)


def _dice(seed: int) -> Any:
    from random import Random  # noqa: PLC0415, TID251 - the seed's own dice, outside any world

    return Random(f"{seed}/nemesis")


async def _judge(
    scenario: Scenario,
    tell: Tell | None,
    narrate: Callable[[SimulatedCluster], Narrator] | None,
    is_traced: bool,
    looking_on: tuple[Invariant, ...],
) -> Verdict:
    async with Simulator(
        seed=scenario.seed, session_timeout_ms=scenario.session_timeout_ms, recording=is_traced
    ) as sim:
        cluster = SimulatedCluster(sim, brokers=scenario.brokers, overrides=scenario.overrides)
        crashes: list[ActorCrashed] = []
        sim.trace.watch([ActorCrashed], _crash_listener(cluster, crashes))
        coverage = Coverage(sim.trace)
        watched = Watched(sim, cluster, looking_on)
        unanswered = Unanswered(sim)
        await _start(cluster, scenario.controller)
        verdict = Verdict(scenario.name, scenario.seed, expected=scenario.violated)
        narrator = None if narrate is None else narrate(cluster)
        tell = tell if narrator is None else narrator.tell
        play = Play(scenario, cluster, NodeHand(cluster), tell=tell)
        try:
            play.voided = lambda: void_partitions(scenario, looking_on)
            await play.run()
            await _be_quiet(sim, cluster, unanswered)
            watched.raise_if_violated()
            watched.invariants.check_in_the_end()
            if scenario.violated:
                raise Violation("expect", f"{scenario.violated} held, and must be violated")
            if crashes:
                raise Violation("crash", f"{crashes[0].actor} crashed: {crashes[0].error}")
        except Violation as violation:
            _note(verdict, watched.violation or violation)
        except (ApiError, NeverCame, NotReached, NeverQuiet, Stalled, TimeoutError) as error:
            _note(verdict, watched.violation or Violation("L-0", f"{error!r}"))
        if narrator is not None:
            narrator.stop()
        verdict.account = play.account
        verdict.virtual_ms = sim.now_ms
        verdict.coverage = coverage.reached
        if is_traced:
            events = _events(sim)
            verdict.causes = _causes(events, watched.stamp)
            verdict.digest = _digest(events)
        return verdict


async def _be_quiet(sim: Simulator, cluster: SimulatedCluster, unanswered: Unanswered) -> None:
    """Wait until all that is told now and then is told, and nothing happens any more."""
    await sim.sleep(QUIET_MS)
    reigning = cluster.controller
    if reigning and unanswered.of(reigning.world.node):  # it was lost, and will be sent again
        await sim.sleep(reigning.config.controller_socket_timeout_ms + QUIET_MS)
    await sim.settle()


async def _start(cluster: SimulatedCluster, first: int | None) -> None:
    for broker in sorted(cluster.brokers, key=lambda each: each != first):
        await cluster.start_broker(broker)


def _crash_listener(
    cluster: SimulatedCluster, crashes: list[ActorCrashed]
) -> Callable[[Stamp, TraceEvent], None]:
    def hear(stamp: Stamp, event: TraceEvent) -> None:
        """Not if it was killed: what it was doing then goes on to its next await, and may fail."""
        alive = (node for node in cluster.nodes.values() if node.system.is_up)
        if isinstance(event, ActorCrashed) and any(n.world.node == stamp.node for n in alive):
            crashes.append(event)

    return hear


def _note(verdict: Verdict, violation: Violation) -> None:
    verdict.invariant, verdict.violation = violation.invariant, str(violation)


def _events(sim: Simulator) -> list[tuple[Stamp, TraceEvent]]:
    drained = sim.trace.drain()
    events = [*sim.trace.handled(drained.messages), *drained.stamped()]
    return sorted(events, key=lambda pair: pair[0].id)


def _digest(events: list[tuple[Stamp, TraceEvent]]) -> str:
    whole = hashlib.sha256()
    for pair in events:
        whole.update(msgspec.msgpack.encode(pair))
    return whole.hexdigest()


def _causes(events: list[tuple[Stamp, TraceEvent]], bad: Stamp | None) -> tuple[str, ...]:
    if bad is None:
        return ()
    by_id = {stamp.id: (stamp, event) for stamp, event in events}
    chain: list[str] = []
    here = bad.id
    while here in by_id and len(chain) < CAUSES:
        stamp, event = by_id[here]
        chain.append(f"{stamp.time_us / 1000 % 1e7:.3f} ms {stamp.node}: {_shown(event)}")
        here = stamp.cause
    return tuple(chain)


def _shown(event: TraceEvent) -> str:
    if isinstance(event, MessageHandled):
        return f"{event.actor} handled {event.message} ({event.outcome})"
    fields = ", ".join(f"{name}={getattr(event, name)}" for name in event.__struct_fields__)
    return f"{type(event).__name__}({fields})"


def void_partitions(scenario: Scenario, looking_on: tuple[Invariant, ...]) -> set[TopicPartition]:
    """Partitions of which some promise became void; if nobody looks on, it may be any."""
    promises = [each for each in looking_on if isinstance(each, Promises)]
    if promises:
        return {partition for each in promises for partition in each.voided}
    topics = [*scenario.topics, Topic(name=OFFSETS_TOPIC, replicas=((1,),))]
    return {
        TopicPartition(each.name, number) for each in topics for number in range(len(each.replicas))
    }
