"""When a step is due: at a time, on an event of the trace, after so many messages, in a state.

Rule: whoever waits is woken by what it waits for, not by looking again and again; a moment that
never comes ends the wait when the scenario's time is over.
"""

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, Final

import msgspec

from actors.conditions import Condition
from actors.faults.addressed import Addressed
from actors.faults.injector import spoken
from actors.faults.scenario import KINDS_OF_EVENTS, Event, Sent, State, Step
from actors.faults.stage import Stage, world_of
from actors.faults.vocabulary import AnyFault, Drop
from actors.universe import Universe
from actors.view import ClusterView
from runtime.tasks import Promise
from wire.frame import Frame
from wire.ids import TopicPartition
from wire.trace import Stamp, TraceEvent

PATIENCE_MS: Final = 60_000


class NeverCame(AssertionError):
    """What a step waits for did not happen."""


def matches(wanted: Event, node: str, event: TraceEvent) -> bool:
    """Whether this event is one of those."""
    return type(event).__name__ == wanted.event and all(
        (node if name == "node" else getattr(event, name)) == value
        for name, value in wanted.where.items()
    )


def holds(wanted: State, view: ClusterView) -> bool:
    """Whether a partition is as wanted."""
    found = view.partitions.get(_partition(wanted))
    if found is None or not wanted.is_there:
        return (found is None) is not wanted.is_there
    return (
        wanted.leader in {None, found.leader}
        and (wanted.not_leader is None or found.leader not in {wanted.not_leader, -1})
        and (wanted.isr is None or set(wanted.isr) == set(found.isr))
    )


def wanted_of(state: State) -> str:
    """A state in words."""
    if not state.is_there:
        return f"{state.partition} is not there"
    said = [f"{state.partition} is there"]
    said += [] if state.leader is None else [f"leader {state.leader}"]
    said += [] if state.not_leader is None else [f"a leader other than {state.not_leader}"]
    said += [] if state.isr is None else [f"in sync {','.join(map(str, state.isr))}"]
    return ", ".join(said)


def found_of(state: State, view: ClusterView) -> str:
    """What is the case instead."""
    found = view.partitions.get(_partition(state))
    if found is None:
        return f"there is no {state.partition}"
    return f"leader {found.leader}, in sync {','.join(map(str, found.isr))}"


def _partition(state: State) -> TopicPartition:
    topic, _, number = state.partition.rpartition("-")
    return TopicPartition(topic, int(number))


class Moments:
    """Waits for moments in a cluster of this process."""

    def __init__(self, cluster: Stage, resolved: Callable[[AnyFault], Awaitable[Any]]) -> None:
        self._cluster = cluster
        self._resolved = resolved  # roles made numbers
        self._begun_ms = cluster.clock.elapsed_ms()

    async def until(self, step: Step) -> None:
        """Wait until the step is due."""
        clock = self._cluster.clock
        if step.at_ms is not None:
            left_ms = self._begun_ms + step.at_ms - clock.elapsed_ms()
            if left_ms > 0:
                await clock.sleep(left_ms)
        if step.after_ms is not None:
            await clock.sleep(step.after_ms)
        if step.on is not None:
            await self._event(step.on)
        if step.on_message is not None:
            await self._message(step.on_message)
        if step.after_messages is not None:
            await self._messages(step.after_messages)
        if step.when is not None:
            state = step.when
            wanted = Condition(partial(holds, state), wanted_of(state), partial(found_of, state))
            await self._cluster.until(wanted, timeout_ms=PATIENCE_MS)

    async def _event(self, wanted: Event) -> None:
        came = Promise[None]()
        left = wanted.nth

        def hear(stamp: Stamp, event: TraceEvent) -> None:
            nonlocal left
            if matches(wanted, stamp.node, event):
                left -= 1
                if left == 0:
                    came.keep(None)

        stop = self._cluster.watch([KINDS_OF_EVENTS[wanted.event]], hear)
        try:
            where = "".join(f" {name}={value}" for name, value in wanted.where.items())
            await self._await(came, f"no {wanted.event}{where}")
        finally:
            stop()

    async def _message(self, wanted: Sent) -> None:
        fault = Drop(**msgspec.structs.asdict(wanted))  # that drops nothing: it says which
        fault = await self._resolved(fault)
        wants = Addressed(fault, self._world.random("moments"))
        await self._frames(wants, 1, f"no {spoken(fault).removeprefix('drop ')}")

    async def _messages(self, count: int) -> None:
        await self._frames(lambda _: True, count, f"not {count} messages")

    async def _frames(self, wants: Callable[[Frame], bool], count: int, what: str) -> None:
        came = Promise[None]()
        left = count

        def see(frame: Frame) -> None:
            nonlocal left
            left -= wants(frame)
            if left <= 0:
                came.keep(None)

        onlookers = self._world.tamper.onlookers
        onlookers.append(see)
        try:
            await self._await(came, what)
        finally:
            onlookers.remove(see)

    @property
    def _world(self) -> Universe:
        return world_of(self._cluster, "nobody sees messages")

    async def _await(self, came: Promise[None], what: str) -> None:
        if not await came.settled(PATIENCE_MS):
            raise NeverCame(f"{what} within {PATIENCE_MS / 1000:g} s")
