"""How long the controller's events wait, and how long they take.

Rule: times are kept by type of event, the newest ones of each. The time in the queue is also kept
for all events together, and forgotten after five minutes without any: an old burst says nothing
about a queue that stands empty (B026).
"""

from collections import defaultdict, deque
from collections.abc import Callable, Sequence
from math import ceil
from typing import Final

FORGOTTEN_MS: Final = 300_000  # as ControllerEventManager: no event for that long
SAMPLES: Final = 1_028  # as a histogram of Kafka's


class Histogram:
    """The newest values of something."""

    def __init__(self) -> None:
        self._values: deque[float] = deque(maxlen=SAMPLES)
        self.count = 0

    def update(self, value: float) -> None:
        """One more."""
        self._values.append(value)
        self.count += 1

    def percentile(self, part: float) -> float:
        """The least value that so many per cent of all are not above; 0 if there is none."""
        return self.percentiles((part,))[0]

    def percentiles(self, parts: Sequence[float]) -> tuple[float, ...]:
        """Several at once, for the price of one."""
        ranked = sorted(self._values)
        if not ranked:
            return (0.0,) * len(parts)
        return tuple(ranked[max(ceil(part / 100 * len(ranked)), 1) - 1] for part in parts)

    def clear(self) -> None:
        """Forget all values."""
        self._values.clear()
        self.count = 0


class EventTimes:
    """Of the events of one broker's controller."""

    def __init__(self) -> None:
        self.queue_ms: defaultdict[str, Histogram] = defaultdict(Histogram)
        self.processing_ms: defaultdict[str, Histogram] = defaultdict(Histogram)
        self._all_queue_ms = Histogram()
        self._last_ms = 0.0

    def record(self, event: str, queue_ms: float, processing_ms: float, now_ms: float) -> None:
        """An event was handled just now."""
        self.event_queue_ms(now_ms).update(queue_ms)
        self.queue_ms[event].update(queue_ms)
        self.processing_ms[event].update(processing_ms)
        self._last_ms = now_ms

    def event_queue_ms(self, now_ms: float) -> Histogram:
        """As the metric EventQueueTimeMs."""
        if now_ms - self._last_ms >= FORGOTTEN_MS:
            self._all_queue_ms.clear()
        return self._all_queue_ms


class ElectionTimes:
    """Of the elections in all reigns of one broker: what Kafka calls ControllerStats."""

    def __init__(self, elapsed_ms: Callable[[], float] = lambda: 0.0) -> None:
        self.elapsed_ms = elapsed_ms
        self.election_ms = Histogram()  # of partitions that were elected for together
        self.unclean_elections = 0
