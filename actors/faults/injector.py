"""Whoever breaks things by the vocabulary, on any kind of cluster.

Rule: what a fault names is looked up when the fault comes; what hits nobody is FaultRefused, and
nothing has changed. A fault that ends by itself is undone by a timer. What was injected can be
healed by its number.
"""

import re
from collections.abc import Awaitable, Callable
from typing import Any, Final, NamedTuple

import msgspec

from actors.faults.hand import ZOOKEEPER, FaultRefused, Faults
from actors.faults.vocabulary import (
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
from actors.names import node_name
from actors.view import ClusterView, PartitionView
from runtime.tasks import Tasks
from wire.ids import NO_BROKER, NO_LEADER, TopicPartition

ROLE: Final = re.compile(r"(leader|follower) of (.+)-(\d+)")
PAST_SESSION: Final = 1.5
LINKS: Final = ("source", "to")


class Injected(NamedTuple):
    """A fault that was injected."""

    number: int
    fault: AnyFault  # whom it names is a number by now
    sentence: str


class Injector:
    """Faults as values, done by a hand."""

    def __init__(self, hand: Faults) -> None:
        self._hand = hand
        self._tasks = Tasks(self._crashed)
        self.active: dict[int, Injected] = {}
        self.crashes: list[Exception] = []

    async def inject(self, fault: AnyFault) -> Injected:
        """Do it now, or raise FaultRefused."""
        fault = await self.resolved(fault)
        if isinstance(fault, Heal):
            return await self._heal(fault)
        number = await self._do(fault)
        done = Injected(number, fault, f"#{number}: {spoken(fault)}")
        self.active[number] = done
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
        if not fields:
            return fault
        view = await self._hand.look()
        found = {name: resolve(who, view, name) for name, who in fields.items()}
        if isinstance(fault, ZombieController):
            after_ms = fault.for_ms or self._hand.session_timeout_ms * PAST_SESSION
            return Pause(broker=found["broker"], for_ms=after_ms)
        changed: AnyFault = msgspec.structs.replace(fault, **found)
        return changed

    async def _do(self, fault: AnyFault) -> int:
        if fault.is_local:
            return await self._hand.apply(fault)
        before = self._hand.last
        await _HOW[type(fault)](self._hand, fault)
        if isinstance(fault, Pause) and fault.for_ms is not None:
            self._tasks.start(self._resume_later(fault, fault.for_ms))
        if self._hand.last == before:  # a restart, or a goodbye: nothing was broken
            return 0
        return self._hand.last

    async def _resume_later(self, fault: Pause, after_ms: float) -> None:
        await self._hand.clock.sleep(after_ms)
        try:
            await self._hand.resume(_number(fault.broker))
        except FaultRefused:
            return  # somebody else has, or it has died meanwhile

    # --- healing ----------------------------------------------------------------------------------

    async def _heal(self, heal: Heal) -> Injected:
        if heal.number is None:
            await self.heal_all()
            return Injected(0, heal, "all is mended; whoever was killed is still down")
        done = self.active.pop(heal.number, None)
        if done is None:
            known = ", ".join(map(str, self.active)) or "none"
            raise FaultRefused(f"there is no fault {heal.number} to heal; there are: {known}")
        await self._undo(done)
        return Injected(heal.number, heal, f"#{heal.number} is healed: {spoken(done.fault)}")

    async def heal_all(self) -> None:
        """Undo all that can be undone without starting anybody."""
        for done in self.active.values():
            if isinstance(done.fault, StopZooKeeper):
                await self._hand.start_zookeeper()
        self.active.clear()
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
        target = getattr(fault, "broker", None)
        hand.healed(fault.name, "" if target is None else node_name(target), done.number)

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
    if field in LINKS:
        return who  # a client, by its name on the network
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
    """A fault in words."""
    broker = getattr(fault, "broker", None)
    whom = "" if broker is None else f" broker {broker}"
    rest = "".join(f" {part}" for part in fault.detail.split(" ") if part)
    return f"{fault.name}{whom}{rest.replace('other=0', 'from zookeeper')}"


def _number(who: Who) -> int:
    assert isinstance(who, int), "it was resolved"
    return who


async def _cut(hand: Faults, fault: Cut) -> None:
    await hand.cut(_number(fault.broker), _number(fault.other), one_way=fault.one_way)


_HOW: Final[dict[type[Fault], Callable[[Faults, Any], Awaitable[None]]]] = {
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
