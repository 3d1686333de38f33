"""A random scenario of one seed: which faults and which administration come when.

Rule: a seed is a scenario before it is a run, so that what it did can be written down, cut shorter
and replayed. What would make losing records legitimate is left out: a power cut takes one broker at
a time (all else that dies is a process, whose bytes the operating system keeps), no bit rots, and
nothing allows unclean elections.
"""

from collections.abc import Callable
from typing import Any, Final

from actors.faults.scenario import (
    AddPartitions,
    CreateTopic,
    DeleteTopic,
    ElectLeaders,
    Load,
    Reassign,
    Scenario,
    Step,
    Topic,
)
from actors.faults.vocabulary import (
    AnyFault,
    Cut,
    Delay,
    DelayWatch,
    Drop,
    Duplicate,
    ExpireSession,
    FailDisk,
    FillDisk,
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
from runtime.world import Dice

BROKERS: Final = (1, 2, 3)
FAULTS: Final = 30
RECORDS: Final = 500
SESSION_MS: Final = 1_000
GAPS_MS: Final = (0, 5, 50, 400, 1_500)  # between two faults, at most
MESSAGES: Final = (
    "LeaderAndIsr",
    "LeaderAndIsrResponse",
    "UpdateMetadata",
    "StopReplica",
    "Fetch",
    "FetchResponse",
    "Produce",
    "ProduceResponse",
    "OffsetForLeaderEpoch",
    "OffsetForLeaderEpochResponse",
    "AlterIsr",
    "ControlledShutdown",
    "ControlledShutdownResponse",
)
PATHS: Final = ("/controller", "/brokers/ids", "/brokers/topics", "/isr_change", "/admin")
OVERRIDES: Final[dict[str, Any]] = {
    "min.insync.replicas": 2,
    "replica.lag.time.max.ms": 2_000,
    "replica.socket.timeout.ms": 1_500,
    "replica.fetch.backoff.ms": 100,
    "controlled.shutdown.max.retries": 1,
    "controlled.shutdown.retry.backoff.ms": 200,
    "leader.imbalance.check.interval.seconds": 10,
    "offsets.topic.num.partitions": 1,
    "log.index.interval.bytes": 0,
}


def random_scenario(
    seed: int,
    chance: Dice,
    *,
    faults: int = FAULTS,
    records: int = RECORDS,
    members: int = 0,
    overrides: dict[str, Any] | None = None,
    idempotence: bool = False,
) -> Scenario:
    """The scenario of a seed; the dice are that seed's."""
    topics = (
        Topic(name="orders", replicas=((1, 2, 3), (2, 3, 1))),
        Topic(name="pairs", replicas=((1, 2),), config={"min.insync.replicas": "1"}),
    )
    dice = _Nemesis(chance)
    steps = tuple(dice.step() for _ in range(faults))
    total_ms = sum(step.after_ms or 0 for step in steps)
    return Scenario(
        name=f"seed-{seed}",
        about="A random schedule of faults and administration.",
        brokers=len(BROKERS),
        seed=seed,
        session_timeout_ms=SESSION_MS,
        worlds=("simulated",),
        overrides=OVERRIDES | (overrides or {}),
        topics=topics,
        load=Load(
            records=records,
            over_ms=max(2_000, total_ms),
            groups=True,
            members=members,
            idempotence=idempotence,
        ),
        steps=steps,
    )


class _Nemesis:
    """Chooses."""

    def __init__(self, chance: Dice) -> None:
        self._chance = chance
        self._topics = 0
        self._down: set[int] = set()  # as far as can be told beforehand
        self._paused: set[int] = set()
        self._kinds: list[tuple[Callable[[], Any], int]] = [
            (self._kill, 10),
            (self._power_cut, 2),
            (self._restart, 12),
            (self._pause, 6),
            (self._resume, 3),
            (self._shut_down, 4),
            (lambda: ExpireSession(broker=self._who()), 5),
            (ZombieController, 2),
            (self._cut, 7),
            (self._on_link, 14),
            (self._watch, 4),
            (lambda: LoseReply(broker=self._who()), 4),
            (self._disk, 3),
            (lambda: SkewClock(broker=self._broker(), ms=self._pick(-60_000, 5_000)), 1),
            (self._zookeeper, 2),
            (self._heal, 8),
            (self._administer, 10),
        ]

    def step(self) -> Step:
        """One of them, some time after the last."""
        after_ms = round(self._chance.choice(GAPS_MS) * self._chance.random(), 3)
        make = self._chance.choices(
            [kind for kind, _ in self._kinds], [weight for _, weight in self._kinds]
        )[0]
        return Step(do=make(), after_ms=after_ms, is_awaited=False)

    def _pick(self, *some: Any) -> Any:
        return self._chance.choice(some)

    def _broker(self) -> int:
        """One that is up, if any should be."""
        return self._chance.choice([each for each in BROKERS if each not in self._down] or BROKERS)

    def _who(self) -> int | str:
        roles = ("controller", "leader of orders-0", "follower of orders-0", "leader of pairs-0")
        who: int | str = self._pick(self._broker(), self._chance.choice(roles))
        return who

    def _kill(self) -> AnyFault:
        return Kill(broker=self._falling(), process_only=True)

    def _power_cut(self) -> AnyFault:
        return Kill(broker=self._falling())

    def _shut_down(self) -> AnyFault:
        return ShutDown(broker=self._falling())

    def _falling(self) -> int | str:
        who = self._who()
        if isinstance(who, int):
            self._down.add(who)
            self._paused.discard(who)
        return who

    def _restart(self) -> AnyFault:
        broker = self._chance.choice(sorted(self._down) or BROKERS)
        self._down.discard(broker)
        return Restart(broker=broker)

    def _pause(self) -> AnyFault:
        duration = round(SESSION_MS * 2 * self._chance.random(), 3)
        broker, for_ms = self._broker(), self._pick(None, duration, duration)
        if for_ms is None:
            self._paused.add(broker)
        return Pause(broker=broker, for_ms=for_ms)

    def _resume(self) -> AnyFault:
        if not self._paused:
            return self._heal()
        broker = self._chance.choice(sorted(self._paused))
        self._paused.discard(broker)
        return Resume(broker=broker)

    def _heal(self) -> AnyFault:
        self._paused.clear()
        return Heal()

    def _cut(self) -> AnyFault:
        one, other = self._chance.sample((*BROKERS, 0), 2)
        if one == 0:
            one, other = other, one
        is_one_way = other != 0 and self._pick(True, False)
        return Cut(broker=one, other="zookeeper" if other == 0 else other, one_way=is_one_way)

    def _on_link(self) -> AnyFault:
        to = self._pick(None, self._broker())
        which = {"message": self._chance.choice(MESSAGES), "to": to}
        times = self._pick(1, 2, 5, 20)
        match self._chance.randrange(5):
            case 0:
                return Drop(**which, times=times)
            case 1:
                return Duplicate(**which, times=times)
            case 2:
                ms = round(self._pick(10, 300, 3_000) * self._chance.random(), 3)
                return Delay(**which, times=times, ms=ms)
            case 3:
                return Hold(**which, times=times)
            case _:
                return Reorder(**which, times=times)

    def _watch(self) -> AnyFault:
        path, broker = self._chance.choice(PATHS), self._who()
        ms = round(self._pick(10, 300, 2_000) * self._chance.random(), 3)
        return DelayWatch(broker=broker, path=path, ms=ms, times=self._pick(1, 3))

    def _disk(self) -> AnyFault:
        broker = self._broker()
        match self._chance.randrange(3):
            case 0:
                return SlowDisk(broker=broker, ms=round(200 * self._chance.random(), 3))
            case 1:
                return FillDisk(broker=broker)
            case _:
                return FailDisk(broker=broker)

    def _zookeeper(self) -> AnyFault:
        fault: AnyFault = self._pick(StopZooKeeper(), StartZooKeeper(), StartZooKeeper())
        return fault

    def _administer(self) -> Any:
        replicas = tuple(self._chance.sample(BROKERS, self._pick(2, 3)))
        match self._chance.randrange(6):
            case 0:
                self._topics += 1
                return CreateTopic(topic=f"extra-{self._topics}", replicas=(replicas,))
            case 1:
                return DeleteTopic(topic=f"extra-{self._pick(1, 2)}")
            case 2:
                return AddPartitions(topic="extra-1", count=self._pick(2, 3))
            case 3 | 4:
                topic = self._pick("orders", "pairs")
                target = self._pick(None, replicas, replicas, replicas)
                return Reassign(topic=topic, partition=0, replicas=target)
            case _:
                return ElectLeaders(topic="orders", partition=self._pick(0, 1))
