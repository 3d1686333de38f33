"""The small text files beside the logs: offsets by partition, epochs of a log, and two notes.

Rule: a checkpoint is Kafka's (B172): the version, the number of rows, the rows. It is replaced
whole, so it is old or new and never between; whatever else is found in it is a MalformedCheckpoint
that names the line.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, NoReturn

from msgspec import Struct

from actors.administration.names import check_topic_name
from runtime.files import Disk
from wire.errors import InvalidTopic
from wire.ids import BrokerId, LeaderEpoch, Offset, TopicPartition

HIGH_WATERMARKS: Final = "replication-offset-checkpoint"
RECOVERY_POINTS: Final = "recovery-point-offset-checkpoint"
LOG_START_OFFSETS: Final = "log-start-offset-checkpoint"
CLEANER_OFFSETS: Final = "cleaner-offset-checkpoint"  # up to where a compacted log is clean
LEADER_EPOCHS: Final = "leader-epoch-checkpoint"  # in the folder of each log
CLEAN_SHUTDOWN: Final = ".kafka_cleanshutdown"  # all was flushed: no log needs recovery
META_PROPERTIES: Final = "meta.properties"  # whose folder this is

_VERSION: Final = "0"
_NUMBER: Final = re.compile(r"[0-9]{1,19}")  # a longer one fits no field
_INT32: Final = 2**31 - 1
_INT64: Final = 2**63 - 1


class MalformedCheckpoint(ValueError):
    """A checkpoint holds what nobody writes there: its disk, or somebody's editor, is at fault."""

    def __init__(self, path: str, line: int, reason: str) -> None:
        super().__init__(f"{path}, line {line}: {reason}")
        self.path = path
        self.line = line


class MetaProperties(Struct, frozen=True):
    """Whose folder this is, as Kafka notes it."""

    broker_id: BrokerId
    cluster_id: str


def encode_offsets(offsets: Mapping[TopicPartition, Offset]) -> bytes:
    """Rows of topic, partition and offset, sorted: the same offsets give the same file."""
    return _encode(f"{at.topic} {at.partition} {offset}" for at, offset in sorted(offsets.items()))


def decode_offsets(data: bytes, path: str) -> dict[TopicPartition, Offset]:
    """The offset of each partition."""
    offsets: dict[TopicPartition, Offset] = {}
    for line, (topic, partition, offset) in _rows(data, path, fields=3):
        try:
            check_topic_name(topic)
        except InvalidTopic as error:
            _refuse(path, line, str(error))
        at = TopicPartition(topic, _number(partition, _INT32, path, line))
        if at in offsets:
            _refuse(path, line, f"{at} has a row already")
        offsets[at] = Offset(_number(offset, _INT64, path, line))
    return offsets


def encode_epochs(entries: Sequence[tuple[LeaderEpoch, Offset]]) -> bytes:
    """Rows of epoch and start offset, in the order given."""
    return _encode(f"{epoch} {start_offset}" for epoch, start_offset in entries)


def decode_epochs(data: bytes, path: str) -> list[tuple[LeaderEpoch, Offset]]:
    """Each row's epoch and start offset, in the file's order."""
    return [
        (
            LeaderEpoch(_number(epoch, _INT32, path, line)),
            Offset(_number(start_offset, _INT64, path, line)),
        )
        for line, (epoch, start_offset) in _rows(data, path, fields=2)
    ]


def read_whole(disk: Disk, path: str) -> bytes | None:
    """What a small file holds, or None if there is none."""
    if not disk.exists(path):
        return None
    file = disk.open(path)
    try:
        return file.read_at(0, file.size)
    finally:
        file.close()


def read_offsets(disk: Disk, path: str) -> dict[TopicPartition, Offset]:
    """The offset of each partition; none if there is no such file."""
    return decode_offsets(read_whole(disk, path) or b"", path)


async def write_offsets(disk: Disk, path: str, offsets: Mapping[TopicPartition, Offset]) -> None:
    """Durable when this returns; after a crash meanwhile the file is the old one or this one."""
    await disk.replace(path, encode_offsets(offsets))


def was_clean_shutdown(disk: Disk) -> bool:
    """Whether the last stop flushed everything and said so."""
    return disk.exists(CLEAN_SHUTDOWN)


async def mark_clean_shutdown(disk: Disk) -> None:
    """The last thing that a stop does: all that it vouches for is durable before."""
    await disk.replace(CLEAN_SHUTDOWN, b"")


async def unmark_clean_shutdown(disk: Disk) -> None:
    """Durable before the first append: a marker that came back would vouch for what is not so."""
    if disk.exists(CLEAN_SHUTDOWN):
        disk.remove(CLEAN_SHUTDOWN)
    await disk.sync_directory("")


def read_meta_properties(disk: Disk) -> MetaProperties | None:
    """Whose folder this is, or None if nobody has written that yet."""
    data = read_whole(disk, META_PROPERTIES)
    if data is None:
        return None
    found: dict[str, tuple[int, str]] = {}
    for line, text in enumerate(_lines(data, META_PROPERTIES), start=1):
        if text.strip() and not text.startswith("#"):  # a comment, as Java's Properties write one
            key, equals, value = text.partition("=")
            if not equals:
                _refuse(META_PROPERTIES, line, f"{text!r} has no '='")
            found[key.strip()] = line, value.strip()
    for key in ("version", "broker.id", "cluster.id"):
        if key not in found:
            _refuse(META_PROPERTIES, 1, f"nowhere is {key}")
    if found["version"][1] != _VERSION:
        _refuse(META_PROPERTIES, found["version"][0], f"version is not {_VERSION}")
    line, broker_id = found["broker.id"]
    number = _number(broker_id, _INT32, META_PROPERTIES, line)
    return MetaProperties(BrokerId(number), found["cluster.id"][1])


async def write_meta_properties(disk: Disk, properties: MetaProperties) -> None:
    """Durable when this returns."""
    lines = (
        f"broker.id={properties.broker_id}",
        f"version={_VERSION}",
        f"cluster.id={properties.cluster_id}",
        "",
    )
    await disk.replace(META_PROPERTIES, "\n".join(lines).encode())


def _encode(rows: Iterable[str]) -> bytes:
    lines = list(rows)
    return "".join(f"{line}\n" for line in (_VERSION, str(len(lines)), *lines)).encode()


def _rows(data: bytes, path: str, *, fields: int) -> Iterator[tuple[int, list[str]]]:
    """Each row's number in the file and its fields."""
    lines = _lines(data, path)
    if lines and lines[0] != _VERSION:
        _refuse(path, 1, f"the version is {lines[0][:20]!r}, not {_VERSION}")
    if len(lines) <= 1:
        return  # As CheckpointFile.read: Kafka makes the file before it has anything to say.
    expected = _number(lines[1], _INT32, path, 2)
    for line, text in enumerate(lines[2:], start=3):
        row = text.split()
        if len(row) != fields:
            _refuse(path, line, f"{text[:80]!r} has {len(row)} fields, not {fields}")
        yield line, row
    if len(lines) - 2 != expected:
        _refuse(path, 2, f"{expected} rows are announced and {len(lines) - 2} are there")


def _lines(data: bytes, path: str) -> list[str]:
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        _refuse(path, data.count(b"\n", 0, error.start) + 1, "it is not UTF-8")
    lines = text.split("\n")  # not splitlines, to which many a character is the end of a line
    if not lines[-1]:
        lines.pop()
    return [line.removesuffix("\r") for line in lines]


def _number(text: str, most: int, path: str, line: int) -> int:
    if not _NUMBER.fullmatch(text) or (number := int(text)) > most:
        _refuse(path, line, f"{text[:20]!r} is not a number from 0 to {most}")
    return number


def _refuse(path: str, line: int, reason: str) -> NoReturn:
    raise MalformedCheckpoint(path, line, reason)
