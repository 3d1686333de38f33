"""Which segments of a log have had their time (B174).

Rule: only the oldest go, one after the other, and none that holds an offset from the high watermark
on: what is not committed is never deleted for its age or size. Pure.
"""

from collections.abc import Callable, Sequence
from itertools import chain

from actors.broker.log.config import UNLIMITED, LogConfig
from actors.broker.log.segment import Segment
from wire.ids import Offset


def count_deletable(
    segments: Sequence[Segment],
    config: LogConfig,
    *,
    now_ms: int,
    high_watermark: Offset,
    log_start_offset: Offset,
    log_end_offset: Offset,
) -> int:
    """How many, from the oldest on. All of them means that the active one must roll first."""
    ends = [*(segment.base_offset for segment in segments[1:]), log_end_offset]
    count = _while(segments, lambda at: ends[at] <= log_start_offset)
    if config.is_deleted_by_age_or_size:
        count = max(count, _expired(segments, config, now_ms), _in_excess(segments, config))
    uncommitted = _while(segments, lambda at: ends[at] <= high_watermark)
    count = min(count, uncommitted)
    if count == len(segments) and count and not segments[-1].size:
        count -= 1  # to replace an empty active segment by an empty active segment is no use
    return count


def _expired(segments: Sequence[Segment], config: LogConfig, now_ms: int) -> int:
    if config.retention_ms == UNLIMITED:
        return 0
    oldest_ms = now_ms - config.retention_ms
    return _while(segments, lambda at: segments[at].largest_timestamp_ms < oldest_ms)


def _in_excess(segments: Sequence[Segment], config: LogConfig) -> int:
    """As Log.deleteRetentionSizeBreachedSegments: what is left is never below the limit."""
    if config.retention_bytes == UNLIMITED:
        return 0
    left = sum(segment.size for segment in segments) - config.retention_bytes
    count = 0
    for segment in segments:
        left -= segment.size
        if left < 0:
            break
        count += 1
    return count


def _while(segments: Sequence[Segment], holds: Callable[[int], bool]) -> int:
    """For how many, from the first on, it holds."""
    answers = (holds(at) for at in range(len(segments)))
    return next(at for at, holds_here in enumerate(chain(answers, [False])) if not holds_here)
