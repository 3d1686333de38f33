"""How compacted segments take the place of those that they were made of.

Rule: by way of `.cleaned` (worth nothing yet) and `.swap` (whole and durable: it will be the
segment whatever happens), so a crash leaves the old segments or the new one.
"""

from collections.abc import Generator, Sequence
from contextlib import closing
from typing import Final

from actors.broker.log.config import MAX_INT32
from actors.broker.log.names import KINDS, LOG, SWAP, file_name, parse_name
from actors.broker.log.segment import Segment
from runtime.files import Disk, File
from wire.errors import CorruptRecordBatch
from wire.ids import Offset
from wire.records import RecordBatch, batches, decode_header, verify

_CHUNK: Final = 1 << 20

Chunks = Generator[list[RecordBatch], None, None]


async def finish_swaps(disk: Disk, folder: str) -> None:
    """At start, before the log is opened: end what a crash has interrupted (Log.loadSegments).

    A swap that cannot be read raises CorruptRecordBatch and stays where it is: the segments that it
    stands for may be gone, so it is not for us to choose.
    """
    files = [(name, found) for name in disk.list(folder) if (found := parse_name(name))]
    bases = [base for _, (base, *what) in files if what == [LOG, ""]]
    swaps = [base for _, (base, *what) in files if what == [LOG, SWAP]]
    leftovers = [name for name, (_, *what) in files if what[1] and what != [LOG, SWAP]]
    discard(disk, *(f"{folder}/{name}" for name in leftovers))
    for swap in swaps:
        next_offset = _next_offset(disk, path_of(folder, swap, LOG, SWAP), swap)
        put_in_place(disk, folder, [swap, *(each for each in bases if swap < each < next_offset)])
    if swaps or leftovers:
        await disk.sync_directory(folder)


def put_in_place(disk: Disk, folder: str, old: Sequence[Offset]) -> None:
    """Let the `.swap` of the first of the old segments take the place of all of them.

    The swap keeps its name until the old ones are gone: till then a start would do this again.
    They go in the order of offsets, so that no record outlives the later one that deletes it. An
    index is rebuilt when the segment is opened, and must not be there with another's entries.
    """
    for base_offset in old:
        kinds = set(KINDS) - ({LOG} if base_offset == old[0] else set())
        discard(disk, *(path_of(folder, base_offset, kind) for kind in sorted(kinds)))
    disk.rename(path_of(folder, old[0], LOG, SWAP), path_of(folder, old[0], LOG))


def discard(disk: Disk, *paths: str) -> None:
    """Remove those that are there."""
    for path in paths:
        if disk.exists(path):
            disk.remove(path)


def path_of(folder: str, base_offset: Offset, kind: str, suffix: str = "") -> str:
    """Of one file of a segment."""
    return f"{folder}/{file_name(base_offset, kind, suffix)}"


def chunks_of(disk: Disk, folder: str, segment: Segment) -> Chunks:
    """All batches of a segment whose size may not change meanwhile, some at a time."""
    with closing(disk.open(path_of(folder, segment.base_offset, LOG))) as file:
        yield from _verified(file, segment.size, segment.base_offset)


def _verified(file: File, end: int, base_offset: Offset) -> Chunks:
    position, length, next_offset = 0, _CHUNK, base_offset
    while position < end:
        data = file.read_at(position, min(length, end - position))
        found = list(batches(data))
        for batch in found:
            verify(batch)  # which is no proof of its offset
            if not next_offset <= batch.header.last_offset <= base_offset + MAX_INT32:
                raise CorruptRecordBatch(f"{file.path} has a batch with a wrong offset")
            next_offset = batch.header.next_offset
        if found:
            yield found
            position, length = position + found[-1].position + len(found[-1].data), _CHUNK
        else:
            length = decode_header(data).size_in_bytes  # longer than what was read
            if length > end - position:
                raise CorruptRecordBatch(f"{file.path} ends within a batch, at {position}")


def _next_offset(disk: Disk, path: str, base_offset: Offset) -> Offset:
    with closing(disk.open(path)) as file:
        for chunk in _verified(file, file.size, base_offset):
            base_offset = chunk[-1].header.next_offset
    return base_offset
