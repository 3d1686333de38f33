"""Whoever breaks things by the vocabulary, on any kind of cluster.

Rule: what a fault names is looked up when the fault comes; what hits nobody is FaultRefused, and
nothing has changed. A fault that ends by itself is undone by a timer. What was injected can be
healed by its number, until somebody or something else has.
"""

import re
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, Final, NamedTuple

import msgspec

from actors.faults.hand import ZOOKEEPER, FaultRefused, Faults
from actors.faults.vocabulary import (
    INSTANT,
    AnyFault,
    Cut,
    ExpireSession,
    Fault,
    Heal,
    Kill,
    Pause,
    Restart,
    Resume,
    ShutDown,
    StartZooKeeper,
    StopZooKeeper,
    Who,
    ZombieController,
)
from actors.view import ClusterView, PartitionView
from runtime.tasks import Tasks
from wire.ids import NO_BROKER, NO_LEADER, TopicPartition

ROLE: Final = re.compile(r"(leader|follower) of (.+)-(\d+)")
PAST_SESSION: Final = 1.5
LINKS: Final = ("source", "to")
CLIENT: Final = re.compile(r"[\w.-]+-[\w.-]+")  # a client's name on the network, as producer-1


class Injected(NamedTuple):
    """A fault that was injected."""

    number: int
    fault: AnyFault  # whom it names is a number by now
    sentence: str

    @property
    def line(self) -> str:
        """With its number, by which it can be healed."""
        return f"#{self.number}: {self.sentence}" if self.number else self.sentence


class Injector:
    """Faults as values, done by a hand."""

    def __init__(self, hand: Faults) -> None:
        self._hand = hand
        self._tasks = Tasks(self._crashed)
        self._done: dict[int, Injected] = {}
        self._known: set[int] = set()  # brokers
        self.crashes: list[Exception] = []

    @property
    def active(self) -> dict[int, Injected]:
        """What was injected here and is not mended, by its number."""
        self._done = {number: self._done[number] for number in self._hand.open & self._done.keys()}
        return self._done

    async def inject(self, fault: AnyFault) -> Injected:
        """Do it now, or raise FaultRefused."""
        fault = await self.resolved(fault)
        if isinstance(fault, Heal):
            return await self._heal(fault)
        number = await self._do(fault)
        done = Injected(number, fault, spoken(fault))
        if not isinstance(fault, INSTANT):
            self._done[number] = done
        return done

    async def close(self) -> None:
        """End the timers."""
        await self._tasks.close()

    async def resolved(self, fault: AnyFault) -> AnyFault:
        """With numbers in place of roles."""
        fields = {
            name: getattr(fault, name)
            for name in ("broker", "other", *LINKS)
            if isinstance(getattr(fault, name, None), str)
        }
        if isinstance(fault, ZombieController):
            fields["broker"] = "controller"
        links = {getattr(fault, name, None) for name in LINKS}
        strange = {who for who in links if isinstance(who, int)} - self._known
        if not fields and not strange:
            return fault
        view = await self._hand.look()
        self._known |= view.brokers.keys()
        for who in sorted(strange - self._known):
            known = ", ".join(map(str, sorted(self._known)))
            raise FaultRefused(f"there is no broker {who}; there are {known}")
        found = {name: resolve(who, view, name) for name, who in fields.items()}
        if isinstance(fault, ZombieController):
            after_ms = fault.for_ms or self._hand.session_timeout_ms * PAST_SESSION
            return Pause(broker=found["broker"], for_ms=after_ms)
        changed: AnyFault = msgspec.structs.replace(fault, **found)
        return changed

    async def _do(self, fault: AnyFault) -> int:
        if fault.is_local:
            return await self._hand.apply(fault)
        number = await _HOW[type(fault)](self._hand, fault)
        if isinstance(fault, Pause) and fault.for_ms is not None:
            self._tasks.start(self._resume_later(number, fault, fault.for_ms))
        return number

    async def _resume_later(self, number: int, fault: Pause, after_ms: float) -> None:
        await self._hand.clock.sleep(after_ms)
        if number in self._hand.open:  # nobody else has, and it has not died meanwhile
            with suppress(FaultRefused):
                await self._hand.resume(_number(fault.broker))

    # --- healing ----------------------------------------------------------------------------------

    async def _heal(self, heal: Heal) -> Injected:
        if heal.number is None:
            await self.heal_all()
            return Injected(0, heal, "all is mended; whoever was stopped is still down")
        done = self.active.get(heal.number)
        if done is None:
            known = ", ".join(map(str, self.active)) or "none"
            raise FaultRefused(f"there is no fault {heal.number} to heal; there are: {known}")
        await self._undo(done)
        self._done.pop(heal.number, None)
        return Injected(heal.number, heal, f"healed: {spoken(done.fault)}")

    async def heal_all(self) -> None:
        """Undo all that can be undone without starting anybody."""
        for done in tuple(self.active.values()):
            if isinstance(done.fault, StopZooKeeper):
                with suppress(FaultRefused):  # somebody is about to
                    await self._hand.start_zookeeper()
        await self._hand.heal()

    async def _undo(self, done: Injected) -> None:
        fault, hand = done.fault, self._hand
        match fault:
            case Kill() | ShutDown():
                await hand.restart(_number(fault.broker))
            case Pause():
                await hand.resume(_number(fault.broker))
            case Cut():
                other = _number(fault.other)
                await hand.mend(_number(fault.broker), other, one_way=fault.one_way)
            case StopZooKeeper():
                await hand.start_zookeeper()
            case _:
                await hand.undo(done.number)

    def _crashed(self, error: Exception) -> None:
        self.crashes.append(error)


def resolve(who: Who, view: ClusterView, field: str = "broker") -> Any:
    """A broker's number, by what it is now."""
    if isinstance(who, int):
        return who
    if who == "zookeeper" and field == "other":
        return ZOOKEEPER
    if who == "controller":
        if view.controller == NO_BROKER:
            raise FaultRefused("there is no controller now")
        return view.controller
    role = ROLE.fullmatch(who)
    if role is not None:
        found = view.partitions.get(TopicPartition(role[2], int(role[3])))
        if found is None:
            raise FaultRefused(f"there is no partition {role[2]}-{role[3]}")
        return _in_role(role[1], found)
    if field in LINKS and CLIENT.fullmatch(who):
        return who
    raise FaultRefused(
        f"{who!r:.60} is no broker: it is a number, controller, leader of TOPIC-PARTITION or "
        "follower of TOPIC-PARTITION"
    )


def _in_role(role: str, found: PartitionView) -> int:
    where = TopicPartition(found.topic, found.partition)
    if role == "leader":
        if found.leader == NO_LEADER:
            raise FaultRefused(f"{where} has no leader now")
        return found.leader
    others = [each for each in found.replicas if each != found.leader]
    in_sync = [each for each in others if each in found.isr]
    if not others:
        raise FaultRefused(f"{where} has no follower")
    return (in_sync or others)[0]


def spoken(fault: Fault) -> str:
    """A fault in words: what has come about, or else what was asked for."""
    broker = getattr(fault, "broker", None)
    if isinstance(fault, Cut):
        there = f"broker {fault.other}" if fault.other else "ZooKeeper"
        if fault.one_way:
            return f"nothing that broker {broker} sends comes to {there}"
        return f"the link between broker {broker} and {there} is cut"
    if fault.done:
        return fault.done.format(broker=broker) + _how(fault)
    whom = "" if broker is None else f" broker {broker}"
    return f"{fault.name}{whom} {fault.detail}".rstrip()


def _how(fault: Fault) -> str:
    if isinstance(fault, Pause) and fault.for_ms is not None:
        return f", for {fault.for_ms:g} ms"
    return " (its process only)" if isinstance(fault, Kill) and fault.process_only else ""


def _number(who: Who) -> int:
    assert isinstance(who, int), "it was resolved"
    return who


async def _cut(hand: Faults, fault: Cut) -> int:
    return await hand.cut(_number(fault.broker), _number(fault.other), one_way=fault.one_way)


_HOW: Final[dict[type[Fault], Callable[[Faults, Any], Awaitable[int]]]] = {
    Kill: lambda hand, fault: hand.kill(fault.broker, process_only=fault.process_only),
    Restart: lambda hand, fault: hand.restart(fault.broker),
    Pause: lambda hand, fault: hand.pause(fault.broker),
    Resume: lambda hand, fault: hand.resume(fault.broker),
    ShutDown: lambda hand, fault: hand.shut_down(fault.broker),
    ExpireSession: lambda hand, fault: hand.expire_session(fault.broker),
    Cut: _cut,
    StopZooKeeper: lambda hand, _: hand.stop_zookeeper(),
    StartZooKeeper: lambda hand, _: hand.start_zookeeper(),
}
