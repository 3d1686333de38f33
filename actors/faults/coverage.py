"""What a run has reached: which changes of state happened in the wake of which kinds of faults.

Rule: a change counts for every kind of fault that came in the last seconds before it. It is a
measure of what seeds try, not of what is right.
"""

from collections import deque
from collections.abc import Callable
from typing import Any, Final

from runtime.tracing import Trace
from wire.trace import (
    BrokerStateChanged,
    ControllerElected,
    ControllerResigned,
    FaultInjected,
    LeaderElected,
    LogTruncated,
    PartitionStateChanged,
    ReassignmentStep,
    ReplicaRoleChanged,
    ReplicaStateChanged,
    SessionChanged,
    Stamp,
    TopicDeletionStep,
    TraceEvent,
)

WAKE_US: Final = 3_000_000
NAMES: Final[dict[type[TraceEvent], Callable[[Any], str]]] = {
    PartitionStateChanged: lambda e: f"partition {e.before}→{e.after}",
    ReplicaStateChanged: lambda e: f"replica {e.before}→{e.after}",
    BrokerStateChanged: lambda e: f"broker →{e.state}",
    SessionChanged: lambda e: f"session →{e.state}",
    ReplicaRoleChanged: lambda e: f"role →{e.role}",
    ControllerElected: lambda _: "controller elected",
    ControllerResigned: lambda _: "controller resigned",
    LeaderElected: lambda e: "leader elected" if e.leader >= 0 else "leader lost",
    LogTruncated: lambda _: "log truncated",
    ReassignmentStep: lambda e: f"move {e.step}",
    TopicDeletionStep: lambda e: f"deletion {e.step}",
}


class Coverage:
    """Listens to a trace."""

    def __init__(self, trace: Trace) -> None:
        self._recent: deque[tuple[int, str]] = deque()
        self._reached: dict[tuple[str, str], None] = {}
        trace.watch([FaultInjected], self._on_fault)
        trace.watch(NAMES, self._on_change)

    @property
    def reached(self) -> tuple[tuple[str, str], ...]:
        """Every pair of a change and a kind of fault."""
        return tuple(sorted(self._reached))

    def _on_fault(self, stamp: Stamp, event: TraceEvent) -> None:
        assert isinstance(event, FaultInjected)
        self._recent.append((stamp.time_us, event.fault))

    def _on_change(self, stamp: Stamp, event: TraceEvent) -> None:
        while self._recent and self._recent[0][0] < stamp.time_us - WAKE_US:
            self._recent.popleft()
        name = NAMES[type(event)](event)
        for _, fault in self._recent:
            self._reached[name, fault] = None
