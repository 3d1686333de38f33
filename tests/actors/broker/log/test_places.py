"""A segment remembers where batches begin; what is cut off or put back is forgotten."""

from collections.abc import Iterator
from random import Random

import pytest

from actors.broker.log.config import LogConfig
from actors.broker.log.log import Log
from actors.broker.log.segment import Segment
from runtime.files import DiskFull
from runtime.simulation.disk import SimulatedDisk
from tests.actors.broker.log.logs import EPOCH, NOW_MS, a_batch, append, opened
from wire.errors import KafkaStorageError
from wire.ids import Offset
from wire.records import batches, verify


@pytest.fixture
def log() -> Iterator[Log]:
    log = opened(SimulatedDisk(Random(1)), LogConfig())
    yield log
    log.abandon()


def base_of(log: Log, offset: int) -> int:
    """Where the batch begins in which a reader finds an offset."""
    batch = next(batches(log.read(Offset(offset), 10_000)))
    verify(batch)
    return batch.header.base_offset


def test_a_reader_finds_the_next_batch_without_a_look_up(log: Log, monkeypatch) -> None:
    for value in (b"a", b"b", b"c"):
        append(log, value)
    assert base_of(log, 0) == 0
    monkeypatch.setattr(Segment, "offsets", None)

    assert [base_of(log, offset) for offset in (1, 2)] == [1, 2]


def test_after_a_truncation_another_batch_is_found_where_one_was(log: Log) -> None:
    for value in (b"a", b"b", b"c"):
        append(log, value)
    assert [base_of(log, offset) for offset in range(3)] == [0, 1, 2]

    log.truncate_to(Offset(1))
    log.append_as_leader(a_batch(b"longer than before", b"and", b"several"), EPOCH, NOW_MS)

    assert [base_of(log, offset) for offset in range(4)] == [0, 1, 1, 1]


def test_after_a_refused_append_another_batch_is_found_where_one_would_be(
    log: Log, monkeypatch
) -> None:
    append(log, b"a")
    count = 0

    def refuse_the_second(*_: object) -> None:
        nonlocal count
        count += 1
        if count > 1:
            raise DiskFull("index")

    with monkeypatch.context() as patched:
        patched.setattr(Segment, "_index", refuse_the_second)
        data = b"".join(bytes(a_batch(bytes(5_000))) for _ in range(3))
        with pytest.raises(KafkaStorageError):
            log.append_as_leader(data, EPOCH, NOW_MS)
    log.append_as_leader(a_batch(bytes(9_000), b"c", b"d"), EPOCH, NOW_MS)

    assert [base_of(log, offset) for offset in range(4)] == [0, 1, 1, 1]


def test_only_so_many_places_are_remembered(log: Log) -> None:
    for number in range(100):
        append(log, str(number).encode())

    assert len(log.segments[-1]._places) == 16
    assert [base_of(log, offset) for offset in (0, 50, 99)] == [0, 50, 99]
