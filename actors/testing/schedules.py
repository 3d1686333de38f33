"""Fault schedules for Hypothesis: it finds one that breaks something, and makes it short.

Rule: whoever does not import this module needs no Hypothesis. A schedule is a Scenario, so what was
found can be judged, written as a file and replayed. What would make losing records legitimate is
left out, as the nemesis does: processes die, disks and bits do not, and nobody elects uncleanly.

    @given(fault_schedules(brokers=3, max_faults=8))
    def test_nothing_is_lost(scenario):
        assert judge(scenario).is_good
"""

from collections.abc import Callable, Collection, Mapping
from typing import Any, Final

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from actors.faults.nemesis import MESSAGES, OVERRIDES, PATHS, SESSION_MS
from actors.faults.scenario import Load, Scenario, Step, Topic
from actors.faults.simulated import Verdict, judge
from actors.faults.vocabulary import (
    KINDS,
    AnyFault,
    Cut,
    Delay,
    DelayWatch,
    Drop,
    Duplicate,
    ExpireSession,
    Heal,
    Hold,
    Kill,
    LoseReply,
    Pause,
    Reorder,
    Restart,
    Resume,
    ShutDown,
    SkewClock,
    SlowDisk,
    StartZooKeeper,
    StopZooKeeper,
    ZombieController,
)

GAPS_MS: Final = (0, 50, 400, 1_500)  # between two faults; the first is the simplest
TIMES: Final = (1, 2, 5, 20)
MOST_FAULTS: Final = 10
Faults = SearchStrategy[AnyFault]


def fault_schedules(
    brokers: int = 3,
    *,
    max_faults: int = MOST_FAULTS,
    kinds: Collection[str] | None = None,
    topics: tuple[Topic, ...] | None = None,
    records: int = 100,
    overrides: Mapping[str, Any] | None = None,
    seeds: SearchStrategy[int] | None = None,
) -> SearchStrategy[Scenario]:
    """Scenarios of a cluster under load to which faults of these kinds are done.

    Without `kinds` all that a sound cluster must bear; without `topics` one partition on all.
    """
    everybody = tuple(range(1, brokers + 1))
    made = topics or (Topic(name="orders", replicas=(everybody,)),)

    def scenario(steps: list[Step], seed: int) -> Scenario:
        over_ms = max(2_000, sum(step.after_ms or 0 for step in steps))
        return Scenario(
            name="found-by-hypothesis",
            brokers=brokers,
            seed=seed,
            session_timeout_ms=SESSION_MS,
            worlds=("simulated",),
            overrides=OVERRIDES | {"min.insync.replicas": 1} | dict(overrides or {}),
            topics=made,
            load=Load(records=records, over_ms=over_ms),
            steps=tuple(steps),
        )

    steps = st.lists(fault_steps(brokers, kinds=kinds), max_size=max_faults)
    return st.builds(scenario, steps, st.just(1) if seeds is None else seeds)


def fault_steps(brokers: int = 3, *, kinds: Collection[str] | None = None) -> SearchStrategy[Step]:
    """One fault, some time after the one before."""
    return st.builds(
        lambda after_ms, fault: Step(do=fault, after_ms=after_ms, is_awaited=False),
        st.sampled_from(GAPS_MS),
        faults(brokers, kinds=kinds),
    )


def faults(brokers: int = 3, *, kinds: Collection[str] | None = None) -> Faults:
    """One fault; of two that break a test the one earlier in the table is found."""
    table = _table(st.integers(1, brokers), brokers)
    chosen = list(table) if kinds is None else list(kinds)
    for kind in chosen:
        if kind not in table:
            why = (
                "is left out: it may lose records, or hits only Kafka's clients"
                if kind in KINDS
                else "is unknown"
            )
            raise ValueError(f"{kind!r} {why}; there are {', '.join(table)}")
    return st.one_of([table[kind] for kind in table if kind in chosen])


def verdict_of(scenario: Scenario) -> Verdict:
    """Play it in a simulator of its own, with every invariant looking on."""
    return judge(scenario)


def _table(broker: SearchStrategy[int], brokers: int) -> dict[str, Faults]:
    """The simplest first: Hypothesis shrinks towards them."""
    messages = {
        "message": st.sampled_from(MESSAGES),
        "to": st.none() | broker,
        "times": st.sampled_from(TIMES),
    }
    soon, late = st.integers(1, 500), st.integers(1, 3_000)
    pairs = st.sampled_from([(a, b) for a in range(1, brokers + 1) for b in range(a)])
    each: dict[type[Any], Faults] = {
        Kill: st.builds(Kill, broker=broker, process_only=st.just(True)),
        Restart: st.builds(Restart, broker=broker),
        ShutDown: st.builds(ShutDown, broker=broker),
        Pause: st.builds(Pause, broker=broker, for_ms=st.sampled_from((500, 2_000, None))),
        Resume: st.builds(Resume, broker=broker),
        ExpireSession: st.builds(ExpireSession, broker=broker),
        ZombieController: st.just(ZombieController()),
        Heal: st.just(Heal()),
        Cut: st.builds(_cut, pairs, st.booleans()),
        Drop: _on_link(Drop, messages),
        Hold: _on_link(Hold, messages),
        Delay: _on_link(Delay, messages | {"ms": late}),
        Duplicate: _on_link(Duplicate, messages),
        Reorder: _on_link(Reorder, messages),
        DelayWatch: st.builds(DelayWatch, broker=broker, path=st.sampled_from(PATHS), ms=late),
        LoseReply: st.builds(LoseReply, broker=broker),
        SlowDisk: st.builds(SlowDisk, broker=broker, ms=soon),
        SkewClock: st.builds(SkewClock, broker=broker, ms=st.sampled_from((5_000, -60_000))),
        StopZooKeeper: st.just(StopZooKeeper()),
        StartZooKeeper: st.just(StartZooKeeper()),
    }
    names = {kind: name for name, kind in KINDS.items()}
    return {names[kind]: strategy for kind, strategy in each.items()}


def _cut(pair: tuple[int, int], is_one_way: bool) -> AnyFault:
    broker, other = pair
    if other == 0:
        return Cut(broker=broker, other="zookeeper")
    return Cut(broker=broker, other=other, one_way=is_one_way)


def _on_link(kind: Callable[..., AnyFault], fields: Mapping[str, SearchStrategy[Any]]) -> Faults:
    return st.builds(kind, **fields)
