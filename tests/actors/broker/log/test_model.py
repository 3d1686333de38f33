"""A log against a list of batches: whatever is done to it, it reads as the list does."""

from dataclasses import replace
from random import Random
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from actors.broker.log.log import Log
from runtime.simulation.disk import SimulatedDisk
from tests.actors.broker.log.logs import (
    NOW_MS,
    SMALL,
    a_batch,
    check_indexes,
    now,
    opened,
    read_all,
)
from wire.ids import LeaderEpoch, Offset
from wire.records import batches

CONFIG = replace(SMALL, retention_bytes=600, retention_ms=50)
COUNTS = st.lists(st.integers(1, 3), min_size=1, max_size=5)
STEPS = st.one_of(
    st.tuples(st.just("append"), COUNTS, st.integers(0, 40)),
    st.tuples(st.just("append"), COUNTS, st.integers(0, 40)),
    st.tuples(st.just("truncate"), st.integers(0, 12)),
    st.tuples(st.just("start_at"), st.integers(0, 99)),
    st.tuples(st.just("retain"), st.integers(0, 12)),
    st.tuples(st.just("flush"), st.integers(0, 12)),
    st.tuples(st.just("reopen")),
    st.tuples(st.just("crash")),
)


class Model:
    """The batches, and what a node's checkpoints say."""

    def __init__(self, seed: int) -> None:
        self.disk = SimulatedDisk(Random(seed))
        self.log = opened(self.disk, CONFIG)
        self.batches: list[tuple[int, int, bytes]] = []  # base, next, bytes
        self.epoch = 0
        self.now_ms = NOW_MS
        self.recovery_point = Offset(0)

    @property
    def end(self) -> int:
        return self.batches[-1][1] if self.batches else self.log.log_start_offset

    def step(self, name: str, *arguments: Any) -> None:
        getattr(self, f"_{name}")(*arguments)
        log = self.log
        assert log.log_end_offset == self.end
        kept = [each for each in self.batches if each[1] > log.log_start_offset]
        whole = b"".join(data for _, _, data in kept)
        assert read_all(log) == whole
        for base, following, data in kept:
            for offset in range(max(base, log.log_start_offset), following):
                assert log.read(Offset(offset), 1, Offset(following)) == data
                assert log.read(Offset(offset), 9999, Offset(following)).endswith(data)
        check_indexes(log, self.disk)
        first: dict[int, int] = {}
        for batch in batches(whole):
            first.setdefault(batch.header.partition_leader_epoch, batch.header.base_offset)
        assert {entry.epoch for entry in log.epochs.entries} >= set(first)

    def _append(self, counts: list[int], elapsed_ms: int) -> None:
        self.now_ms += elapsed_ms
        data = bytearray()
        for count in counts:
            data += a_batch(*[b"v"] * count, at_ms=self.now_ms)
        self.log.append_as_leader(data, LeaderEpoch(self.epoch), self.now_ms)
        for batch in batches(data):
            header = batch.header
            self.batches.append((header.base_offset, header.next_offset, bytes(batch.data)))

    def _truncate(self, back: int) -> None:
        offset = max(self.log.log_start_offset, self.end - back)
        self.log.truncate_to(Offset(offset))
        while self.batches and self.batches[-1][1] > offset:
            self.batches.pop()
        self._begin_again()

    def _start_at(self, offset: int) -> None:
        self.log.truncate_fully_and_start_at(Offset(offset))
        self.batches.clear()
        self._begin_again()

    def _begin_again(self) -> None:
        """What the contract of a truncation asks for."""
        self.epoch += 1
        now(self.log.flush())
        self.recovery_point = self.log.recovery_point

    def _retain(self, back: int) -> None:
        self.log.delete_old_segments(self.now_ms, Offset(max(0, self.end - back)))
        self.log.purge(self.now_ms + 60_000)

    def _flush(self, back: int) -> None:
        now(self.log.flush(Offset(max(0, self.end - back))))
        if back % 2:
            self.recovery_point = self.log.recovery_point

    def _reopen(self) -> None:
        now(self.log.close())
        self.recovery_point = self.log.recovery_point
        self._open(is_clean=True)

    def _crash(self) -> None:
        durable = self.log.recovery_point
        self.disk.crash()
        self._open(is_clean=False)
        assert self.log.log_end_offset >= durable
        while self.batches and self.batches[-1][1] > self.log.log_end_offset:
            self.batches.pop()
        self.epoch += 1

    def _open(self, *, is_clean: bool) -> None:
        start = self.log.log_start_offset
        self.log = Log.open(
            self.disk,
            self.log.folder,
            CONFIG,
            now_ms=self.now_ms,
            is_clean=is_clean,
            recovery_point=self.recovery_point,
            log_start_offset=start,
        )
        assert self.log.log_start_offset == start


@settings(deadline=None, max_examples=150)
@given(st.integers(0, 2**32), st.lists(STEPS, max_size=25))
def test_a_log_is_its_batches(seed: int, steps: list[tuple[Any, ...]]) -> None:
    model = Model(seed)
    for step in steps:
        model.step(*step)
