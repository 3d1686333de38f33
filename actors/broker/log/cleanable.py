"""What of a log may be compacted, and what of it is worth it. Kafka's LogCleanerManager.

Rule: nothing from the high watermark on, nothing of the active segment, nothing too young. Pure.
"""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Final

from actors.broker.log.config import MAX_INT32, LogConfig
from actors.broker.log.segment import Segment
from wire.ids import NO_OFFSET, Offset

_INDEX_ENTRY: Final = 12  # of time; one of offsets has 8 bytes


def first_uncleanable_offset(
    segments: Sequence[Segment],
    first_dirty: Offset,
    *,
    high_watermark: Offset,
    now_ms: int,
    min_compaction_lag_ms: int = 0,
) -> Offset:
    """Where compaction must end: the high watermark, the active segment, or what is too young."""
    limit = min(high_watermark, segments[-1].base_offset)
    if min_compaction_lag_ms > 0:
        for segment in segments[:-1]:
            age_ms = now_ms - segment.largest_timestamp_ms
            if age_ms < min_compaction_lag_ms and segment.base_offset >= first_dirty:
                return min(limit, segment.base_offset)
    return limit


def cleanable_segments(
    segments: Sequence[Segment], first_uncleanable: Offset, first_dirty: Offset = NO_OFFSET
) -> list[Segment]:
    """Those that lie wholly below one offset, and not wholly below the other; never the active."""
    return [
        segment
        for segment, following in pairwise(segments)
        if first_dirty < following.base_offset <= first_uncleanable
    ]


def dirty_ratio(
    segments: Sequence[Segment], first_dirty: Offset, first_uncleanable: Offset
) -> float:
    """How much of what may be cleaned is dirty: 0 if nothing may be."""
    total = sum(each.size for each in cleanable_segments(segments, first_uncleanable))
    dirty = cleanable_segments(segments, first_uncleanable, first_dirty)
    return sum(segment.size for segment in dirty) / total if total else 0.0


def group_by_size(
    segments: Sequence[Segment], end: Offset, most_bytes: int
) -> Iterator[tuple[Segment, ...]]:
    """Neighbours that fit in one segment, by the sizes that they have before they are cleaned.

    `end` is where the last of them ends. Offsets in an index are relative and of 32 bits.
    """
    group: list[Segment] = []
    ends = [*(segment.base_offset for segment in segments[1:]), end]
    for segment, segment_end in zip(segments, ends, strict=True):
        size = sum(each.size for each in group) + segment.size
        if group and (size > most_bytes or segment_end - 1 - group[0].base_offset > MAX_INT32):
            yield tuple(group)
            group = []
        group.append(segment)
    if group:
        yield tuple(group)


def most_bytes(config: LogConfig) -> int:
    """So that neither the file nor an index of it grows larger than it may."""
    entries = config.segment_index_bytes // _INDEX_ENTRY - 1
    return min(config.segment_bytes, entries * config.index_interval_bytes)


def delete_horizon_ms(cleanable: Sequence[Segment], first_dirty: Offset, config: LogConfig) -> int:
    """Tombstones in segments up to this old go: As Cleaner.doClean, by the last clean segment.

    Kafka asks the file when it was modified. A disk here does not know, so the newest record says.
    """
    clean_ones = [each for each in cleanable if each.base_offset < first_dirty]
    return clean_ones[-1].largest_timestamp_ms - config.delete_retention_ms if clean_ones else 0
