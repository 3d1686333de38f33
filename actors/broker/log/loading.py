"""From the files of a folder to the segments of a log.

Rule: after a clean stop nothing but the end of the last segment is read. After any other, all from
the recovery point on is scanned, and what is left is a prefix of what was appended: the first batch
that is bad, or missing, ends the log (B171).
"""

from typing import NamedTuple

from actors.broker.log import names
from actors.broker.log.aborted import index_base
from actors.broker.log.checkpoints import LEADER_EPOCHS, MalformedCheckpoint
from actors.broker.log.config import LogConfig
from actors.broker.log.epochs import LeaderEpochCache, load_epochs
from actors.broker.log.memory import ProducerMemory
from actors.broker.log.segment import Segment
from actors.broker.log.snapshots import snapshot_offset
from runtime.files import Disk, DiskError
from wire.errors import CorruptRecordBatch
from wire.ids import Offset


class Loaded(NamedTuple):
    """What was found of a log."""

    segments: list[Segment]
    epochs: LeaderEpochCache
    log_start_offset: Offset
    log_end_offset: Offset
    recovery_point: Offset
    producers: ProducerMemory | None  # None: none ever wrote here


def load(
    disk: Disk,
    folder: str,
    config: LogConfig,
    *,
    now_ms: int,
    is_clean: bool,
    recovery_point: Offset,
    log_start_offset: Offset,
) -> Loaded:
    """The log in a folder, which may be missing. DiskError or CorruptRecordBatch: all is let go."""
    try:
        epochs = load_epochs(disk, f"{folder}/{LEADER_EPOCHS}")
    except MalformedCheckpoint:  # the log itself knows better
        epochs, is_clean, recovery_point = LeaderEpochCache(), False, Offset(0)
    found = Found(disk, folder, config, now_ms)
    try:
        segments = found.as_closed() if is_clean else found.recovered(recovery_point, epochs)
        end = segments[-1].next_offset if segments else log_start_offset
        if end < log_start_offset:  # As Log: what is left is what was deleted.
            remove_newest_first(segments, 0)
            epochs.clear()
            end = log_start_offset
        start = max(log_start_offset, segments[0].base_offset) if segments else log_start_offset
        point = end if is_clean else min(recovery_point, end)
        producers = found.producers(segments, start, end, trusted=point)
    except (DiskError, CorruptRecordBatch):
        found.close()
        raise
    epochs.truncate_from_end(end)
    epochs.truncate_from_start(start)
    return Loaded(segments, epochs, start, end, point, producers)


class Found:
    """The segments whose .log file is there; what is left of others is removed."""

    def __init__(self, disk: Disk, folder: str, config: LogConfig, now_ms: int) -> None:
        listed = {}
        self._snapshots: list[Offset] = []
        self._indexes: list[Offset] = []  # of aborted transactions
        for name in disk.list(folder) if disk.is_directory(folder) else ():
            if (offset := snapshot_offset(name)) is not None:
                self._snapshots.append(offset)
            elif (base := index_base(name)) is not None:
                self._indexes.append(base)
            parsed = names.parse_name(name)
            if parsed is not None:
                listed[name] = parsed
        bases = {base for base, kind, suffix in listed.values() if kind == names.LOG and not suffix}
        for name, (base, _, suffix) in listed.items():
            is_orphan = not suffix and base not in bases
            if is_orphan or suffix in {names.DELETED, names.CLEANED}:
                disk.remove(f"{folder}/{name}")
        self._disk, self._folder, self._now_ms = disk, folder, now_ms
        self._config = config
        self._segments = [Segment(disk, folder, base, config, now_ms) for base in sorted(bases)]
        self._without_index = {
            base
            for base in bases
            if not all(names.file_name(base, kind) in listed for kind in names.KINDS)
        }

    def as_closed(self) -> list[Segment]:
        """After a clean stop."""
        self._index(self._segments)
        if self._segments and not self._segments[-1].has_sound_indexes:
            self._segments[-1].recover(None, epochs=None, gaps=True)
        return self._segments

    def recovered(self, recovery_point: Offset, epochs: LeaderEpochCache) -> list[Segment]:
        """After any other: of the segments, and in them, what is sound."""
        segments = self._segments
        # The one that ends at the recovery point, too: its last entry may be younger than that.
        first = max(0, sum(segment.base_offset < recovery_point for segment in segments) - 1)
        self._index(segments[:first])
        for at in range(first, len(segments)):
            segment, gaps = segments[at], self._config.is_compacted
            start = recovery_point if at == first else None
            is_sound = segment.recover(start, epochs=epochs, gaps=gaps)
            if at + 1 < len(segments):
                following = segments[at + 1].base_offset
                # Compaction may take a segment's last records, but only below the recovery point.
                is_compacted = segment.next_offset < following <= recovery_point
                if not is_sound or not (segment.next_offset == following or is_compacted):
                    remove_newest_first(segments, at + 1)
                    break
        return segments

    def producers(
        self, segments: list[Segment], start: Offset, end: Offset, *, trusted: Offset
    ) -> ProducerMemory | None:
        """What is known of producers at the log's end; None if none ever wrote here."""
        if not self._snapshots and not any(each.has_producers for each in segments):
            return None
        memory = ProducerMemory(self._disk, self._now_ms, self._snapshots, self._indexes)
        folder = self._folder
        memory.forget_from(folder, trusted)
        memory.keep_only(folder, [each.base_offset for each in segments])
        if not self._snapshots:  # then nothing before the recovery point is a producer's
            start = max(start, trusted)
        memory.rebuild(folder, segments, start, end)
        return memory

    def close(self) -> None:
        """Let go of all files."""
        for segment in self._segments:
            segment.close()

    def _index(self, segments: list[Segment]) -> None:
        """Whoever lost an index gets a new one: that takes a scan."""
        for segment in segments:
            if segment.base_offset in self._without_index:
                segment.recover(None, epochs=None, gaps=True)


def remove_newest_first(segments: list[Segment], keep: int) -> None:
    """In this order whatever is left after a crash is still a prefix."""
    while len(segments) > keep:
        segments[-1].remove()
        segments.pop()
