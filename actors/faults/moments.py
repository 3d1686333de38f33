"""When a step is due: at a time, on an event of the trace, after so many messages, in a state.

Rule: whoever waits is woken by what it waits for, not by looking again and again; a moment that
never comes ends the wait when the scenario's time is over.
"""

from typing import Final

from actors.faults.scenario import KINDS_OF_EVENTS, Event, State, Step
from actors.node_cluster import NodeCluster
from actors.view import ClusterView
from runtime.tampering import Rule, Treatment
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
    topic, _, number = wanted.partition.rpartition("-")
    found = view.partitions.get(TopicPartition(topic, int(number)))
    if found is None:
        return False
    return (
        wanted.leader in {None, found.leader}
        and (wanted.not_leader is None or found.leader not in {wanted.not_leader, -1})
        and (wanted.isr is None or set(wanted.isr) == set(found.isr))
    )


class Moments:
    """Waits for moments in a cluster of this process."""

    def __init__(self, cluster: NodeCluster) -> None:
        self._cluster = cluster
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
        if step.after_messages is not None:
            await self._messages(step.after_messages)
        if step.when is not None:
            state = step.when
            await self._cluster.until(lambda view: holds(state, view), timeout_ms=PATIENCE_MS)

    async def _event(self, wanted: Event) -> None:
        came = Promise[None]()
        left = wanted.nth

        def hear(stamp: Stamp, event: TraceEvent) -> None:
            nonlocal left
            if matches(wanted, stamp.node, event):
                left -= 1
                if left == 0:
                    came.keep(None)

        stop = self._cluster.universe.trace.watch([KINDS_OF_EVENTS[wanted.event]], hear)
        try:
            await self._await(came, f"no {wanted.event} {wanted.where or ''}")
        finally:
            stop()

    async def _messages(self, count: int) -> None:
        came = Promise[None]()
        left = count

        def see(_: Frame) -> bool:
            nonlocal left
            left -= 1
            if left == 0:
                came.keep(None)
            return False  # it only counts

        rule = Rule(see, Treatment.HOLD)
        self._cluster.universe.tamper.add(rule)
        try:
            await self._await(came, f"not {count} messages")
        finally:
            self._cluster.universe.tamper.remove(rule)

    async def _await(self, came: Promise[None], what: str) -> None:
        if not await came.settled(PATIENCE_MS):
            raise NeverCame(f"{what} within {PATIENCE_MS / 1000:g} s")
