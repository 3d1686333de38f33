"""How fast throttled replicas may be copied (KIP-73).

Rule: as Kafka's ReplicationQuotaManager, the present rate is what eleven samples of a second hold,
over the time since the oldest of them began and at least one second. Nothing is held back here:
whoever finds the quota exceeded leaves the throttled replicas out until it no longer is (B167).
"""

from typing import Final

NO_LIMIT: Final = 2**63 - 1
SAMPLES: Final = 11  # replication.quota.window.num
WINDOW_MS: Final = 1_000  # replication.quota.window.size.seconds


class _Sample:
    """What was copied in one window."""

    __slots__ = ("begin_ms", "size")

    def __init__(self, begin_ms: float) -> None:
        self.begin_ms = begin_ms
        self.size = 0

    def reset(self, begin_ms: float) -> None:
        self.begin_ms = begin_ms
        self.size = 0


class ReplicationQuota:
    """One for what a broker sends as leader, one for what it takes as follower."""

    def __init__(self, rate: int = NO_LIMIT) -> None:
        self.rate = rate  # bytes a second; changed at run time, what was recorded stays
        self._samples: list[_Sample] = []  # a ring, once there are enough
        self._newest = 0

    def record(self, size: int, now_ms: float) -> None:
        """So many bytes of throttled replicas were copied."""
        self._begin(now_ms)
        if now_ms - self._samples[self._newest].begin_ms >= WINDOW_MS:
            self._advance(now_ms)
        self._samples[self._newest].size += size

    def is_exceeded(self, now_ms: float) -> bool:
        """Whether throttled replicas have to wait."""
        return self.bytes_per_second(now_ms) > self.rate

    def bytes_per_second(self, now_ms: float) -> float:
        """The present rate."""
        self._begin(now_ms)
        for sample in self._samples:
            if now_ms - sample.begin_ms >= SAMPLES * WINDOW_MS:
                sample.reset(now_ms)
        oldest_ms = min(sample.begin_ms for sample in self._samples)
        total = sum(sample.size for sample in self._samples)
        return total * 1_000 / max(now_ms - oldest_ms, WINDOW_MS)

    def _begin(self, now_ms: float) -> None:
        if not self._samples:
            self._samples.append(_Sample(now_ms))

    def _advance(self, now_ms: float) -> None:
        """Begin a sample, in the place of the oldest one if there are enough."""
        self._newest = (self._newest + 1) % SAMPLES
        if self._newest == len(self._samples):
            self._samples.append(_Sample(now_ms))
        else:
            self._samples[self._newest].reset(now_ms)
