"""What a node notes about its logs: four checkpoints, a row a partition.

Rule: a note never vouches for more than is so. Whoever writes holds the turn, and looks at the logs
after that: what it saw before may no longer be true.
"""

from collections.abc import Container, Iterable, Mapping
from typing import Final

from msgspec import Struct

from actors.broker.log.checkpoints import (
    CLEANER_OFFSETS,
    HIGH_WATERMARKS,
    LOG_START_OFFSETS,
    RECOVERY_POINTS,
    MalformedCheckpoint,
    read_offsets,
    write_offsets,
)
from runtime.files import Disk, DiskError
from runtime.turn import Turn
from wire.errors import KafkaStorageError
from wire.ids import Offset, TopicPartition

NOTES: Final = (RECOVERY_POINTS, LOG_START_OFFSETS, HIGH_WATERMARKS, CLEANER_OFFSETS)

Offsets = Mapping[TopicPartition, Offset]


class Stranger(Struct, frozen=True):
    """What a start met on the disk and left alone."""

    name: str
    reason: str


class Notes:
    """The rows of each file, as they were read or written since."""

    def __init__(self, disk: Disk) -> None:
        self.turn = Turn()
        self.is_abandoned = False  # the node is gone: nothing more is written
        self._disk = disk
        self._rows: dict[str, Offsets] = {file: {} for file in NOTES}
        self._uncertain: set[str] = set()  # a write failed: the file says this, or what it said

    def read(self) -> list[Stranger]:
        """As LogManager.loadLogs: what cannot be read is as if it were not there."""
        strangers = []
        for file in NOTES:
            try:
                self._rows[file] = read_offsets(self._disk, file)
            except MalformedCheckpoint as error:
                strangers.append(Stranger(file, str(error)))
        return strangers

    def rows(self, file: str) -> Offsets:
        """All of a file."""
        return self._rows[file]

    async def write(self, file: str, rows: Offsets) -> None:
        """Make these the rows of a file, if they are not; KafkaStorageError if it cannot be."""
        assert self.turn.is_taken, f"{file} is to be written out of turn"
        if rows == self._rows[file] and file not in self._uncertain:
            return
        if self.is_abandoned:
            raise KafkaStorageError(f"{file} is to be written after the end of its node")
        self._uncertain.add(file)
        try:
            await write_offsets(self._disk, file, rows)
        except DiskError as error:
            raise KafkaStorageError(f"{file} cannot be written: {error}") from error
        self._uncertain.discard(file)
        self._rows[file] = rows

    async def lower(self, offsets: Offsets) -> None:
        """Note nothing beyond these."""
        for file in NOTES:
            rows = self._rows[file]
            lower = {at: offset for at, offset in offsets.items() if rows.get(at, offset) > offset}
            await self.write(file, {**rows, **lower})

    async def forget(self, partitions: Iterable[TopicPartition]) -> None:
        """Have no row of these."""
        gone = set(partitions)
        for file in NOTES:
            rows = self._rows[file]
            await self.write(file, {at: row for at, row in rows.items() if at not in gone})

    async def forget_all_but(self, partitions: Container[TopicPartition]) -> None:
        """Have rows of these alone: another log may come that has the name of one that went."""
        for file in NOTES:
            rows = self._rows[file]
            await self.write(file, {at: row for at, row in rows.items() if at in partitions})
