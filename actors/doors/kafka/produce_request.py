"""A Produce request, read by hand.

Rule: records stay where they lie, and may be written to there. A frame of records may be very
large, and must not hold millions of topics instead: what it names is bounded.
"""

import struct
from typing import Final

from msgspec import Struct

from actors.doors.kafka.header import skip_tags
from wire.data import ProducePartition
from wire.errors import MalformedMessage
from wire.ids import TopicPartition

FLEXIBLE: Final = 9  # version
MOST_NAMED: Final = 100_000  # topics and partitions
_INT16: Final = struct.Struct(">h")
_INT32: Final = struct.Struct(">i")
_ACKS_AND_TIMEOUT: Final = struct.Struct(">hi")
_LAST_SHIFT: Final = 28
_MORE: Final = 0x80


class ProduceRequest(Struct, frozen=True, gc=False):
    """What all versions from 3 to 11 say."""

    transactional_id: str | None
    acks: int
    timeout_ms: int
    partitions: tuple[ProducePartition, ...]


def read_produce(frame: memoryview, position: int, version: int) -> ProduceRequest:
    """The request that begins there."""
    try:
        return _Reading(frame, position, version >= FLEXIBLE).request()
    except (struct.error, IndexError, UnicodeDecodeError) as error:
        raise MalformedMessage(f"a Produce request that is cut short: {error}") from error


class _Reading:
    """How far it is read."""

    def __init__(self, frame: memoryview, position: int, is_flexible: bool) -> None:
        self._frame = frame
        self._at = position
        self._is_flexible = is_flexible
        self._named = 0

    def request(self) -> ProduceRequest:
        transactional_id = self._text()
        acks, timeout_ms = _ACKS_AND_TIMEOUT.unpack_from(self._frame, self._at)
        self._at += _ACKS_AND_TIMEOUT.size
        partitions: list[ProducePartition] = []
        for _ in range(self._count()):
            topic = self._text()
            if topic is None:
                raise MalformedMessage("a topic without a name")
            partitions += [self._partition(topic) for _ in range(self._count())]
            self._tags()
        self._tags()
        return ProduceRequest(transactional_id, acks, timeout_ms, tuple(partitions))

    def _partition(self, topic: str) -> ProducePartition:
        number = self._int32()
        size = self._varint() - 1 if self._is_flexible else self._int32()
        records = self._bytes(max(size, 0))
        self._tags()
        return ProducePartition(TopicPartition(topic, number), records)

    def _count(self) -> int:
        count = self._varint() - 1 if self._is_flexible else self._int32()
        self._named += count
        if count < 0 or self._named > MOST_NAMED:
            raise MalformedMessage(f"a list of {count} topics or partitions")
        return count

    def _text(self) -> str | None:
        if self._is_flexible:
            size = self._varint() - 1
        else:
            (size,) = _INT16.unpack_from(self._frame, self._at)
            self._at += _INT16.size
        return None if size < 0 else str(self._bytes(size), "utf-8")

    def _bytes(self, size: int) -> memoryview:
        begun, self._at = self._at, self._at + size
        if self._at > len(self._frame):
            raise MalformedMessage(f"{size} bytes that are not there")
        return self._frame[begun : self._at]

    def _int32(self) -> int:
        (value,) = _INT32.unpack_from(self._frame, self._at)
        self._at += _INT32.size
        return int(value)

    def _varint(self) -> int:
        value = 0
        for shift in range(0, _LAST_SHIFT + 1, 7):
            byte = self._frame[self._at]
            self._at += 1
            value |= (byte & ~_MORE) << shift
            if byte < _MORE:
                return value
        raise MalformedMessage("a number that does not end")

    def _tags(self) -> None:
        if self._is_flexible:
            self._at = skip_tags(self._frame, self._at)
