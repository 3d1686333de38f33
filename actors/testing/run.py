"""One test's cluster, as a person wants it told when the test has failed.

Rule: it listens and changes nothing: a simulated run is the same with and without it.
"""

import re
import shutil
import zlib
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from actors.node_cluster import NodeCluster
from actors.story import GATHER_MS, TELLERS, StoryEvent, Teller, condensed
from runtime.recorder import Recorder
from wire.trace import Stamp, TraceEvent

LINES: Final = 20
REMEMBERED: Final = 5_000  # many partitions may elect at once, and be told in one line
LONGEST_NAME: Final = 150  # of a folder; there is an end to what a file system takes


class Run:
    """What a test's cluster has gone through."""

    def __init__(
        self, cluster: NodeCluster, *, command: str, seed: int | None, trace: Path | None
    ) -> None:
        self._cluster = cluster
        self._command = command
        self._seed = seed
        self._trace = trace
        self._begun_ms = cluster.clock.now_ms()
        self._teller = Teller()
        self._told: deque[StoryEvent] = deque(maxlen=REMEMBERED)
        self._stop: Callable[[], None] = cluster.universe.trace.watch(TELLERS, self._hear)

    def close(self) -> None:
        """Hear no more: what comes now is the end of the test, and not its story."""
        self._stop()

    def write(self) -> None:
        """Leave a simulated run's trace; an earlier one of the same seed gives way to it."""
        if self._trace is None:
            return
        name = f"seed-{self._seed}"
        for earlier in self._trace.glob(f"*/run={name}"):
            shutil.rmtree(earlier)
        Recorder(self._cluster.universe.trace, self._trace, run=name).write()

    def report(self) -> str:
        """How to see it again, and what has happened last."""
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        if self._seed is None:
            yield "real brokers in real time: no two runs are the same, and no seed decides"
        else:
            yield f"seed {self._seed}: the same seed gives the same run"
        yield f"again: {self._command}"
        if self._trace is not None:
            yield f"trace: {self._trace}"
        told = [event for event in self._condensed() if not event.is_part]
        yield f"the last of {len(told)} events:" if len(told) > LINES else "what happened:"
        for event in told[-LINES:]:
            yield f"{(event.time_ms - self._begun_ms) / 1000:9.3f} s  {event.text}"

    def _hear(self, stamp: Stamp, event: TraceEvent) -> None:
        told = self._teller.tell(stamp, event)
        if told is not None:
            self._told.append(told)

    def _condensed(self) -> Iterator[StoryEvent]:
        """As a Story tells it, but without a clock: that would be a part of the run."""
        gathered: list[StoryEvent] = []
        for event in tuple(self._told):
            if gathered and event.time_ms - gathered[0].time_ms >= GATHER_MS:
                yield from condensed(gathered)
                gathered = []
            gathered.append(event)
        yield from condensed(gathered)


def folder_name(test: str) -> str:
    """A test's name as a folder's; two tests never share one."""
    plain = re.sub(r"[^\w.-]+", "-", test.replace("/", "-")).strip("-.")
    return f"{plain[-LONGEST_NAME:]}-{zlib.crc32(test.encode()):08x}"
