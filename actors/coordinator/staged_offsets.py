"""Offsets that count only if their transaction commits.

Rule: what a producer commits in a transaction is in the log at once, and is the group's when the
marker says so, at the place of its record: a later commit wins over it. Until then the group's
offset is not stable (KIP-447).
"""

from collections import Counter
from collections.abc import Iterable, Sequence

from actors.coordinator.records import Change, OffsetKey, OffsetValue, encode_key, encode_value
from wire.groups import OffsetCommit, OffsetCommitResponse
from wire.ids import Offset, ProducerId, TopicPartition
from wire.message import Message
from wire.records import Attributes, ProducerStamp, Record, encode_batch
from wire.transactions import TxnOffsetCommit, TxnOffsetCommitResponse

Staged = tuple[OffsetKey, OffsetValue | None, Offset]


class StagedOffsets:
    """By producer, what waits for a marker."""

    def __init__(self) -> None:
        self._of: dict[ProducerId, list[Staged]] = {}
        self._waiting = Counter[OffsetKey]()  # for a marker, or to be in the log first

    def is_unstable(self, group: str, partition: TopicPartition) -> bool:
        """Whether a transaction may yet change what the group has committed for a partition."""
        return OffsetKey(group, partition) in self._waiting

    def begin(self, changes: Sequence[Change]) -> None:
        """These are being appended."""
        self._waiting.update(key for key, _ in changes)

    def end(
        self, producer: ProducerId, changes: Sequence[Change], base_offset: Offset | None
    ) -> None:
        """They stand in the log from an offset on; or, with None, perhaps not at all."""
        self._forget(key for key, _ in changes)
        if base_offset is not None:
            for index, (key, value) in enumerate(changes):
                self.put(producer, key, value, Offset(base_offset + index))

    def put(
        self, producer: ProducerId, key: OffsetKey, value: OffsetValue | None, log_offset: Offset
    ) -> None:
        """The log says so at this offset, if the transaction commits."""
        self._of.setdefault(producer, []).append((key, value, log_offset))
        self._waiting[key] += 1

    def take(self, producer: ProducerId) -> list[Staged]:
        """All of a producer's, whose transaction has ended."""
        staged = self._of.pop(producer, [])
        self._forget(key for key, _, _ in staged)
        return staged

    def _forget(self, keys: Iterable[OffsetKey]) -> None:
        for key in keys:
            self._waiting[key] -= 1
            if not self._waiting[key]:
                del self._waiting[key]


def as_commit(request: TxnOffsetCommit) -> OffsetCommit:
    """What is committed, as without a transaction."""
    return OffsetCommit(
        group_id=request.group_id,
        generation_id=request.generation_id,
        member_id=request.member_id,
        group_instance_id=request.group_instance_id,
        partitions=request.partitions,
    )


def names_a_member(request: TxnOffsetCommit) -> bool:
    """Whether it says for which member it works; producers before KIP-447 do not."""
    return (
        request.generation_id >= 0
        or bool(request.member_id)
        or request.group_instance_id is not None
    )


def stamp_of(request: object) -> ProducerStamp | None:
    """By which producer an offset is committed, if in a transaction."""
    if not isinstance(request, TxnOffsetCommit):
        return None
    return ProducerStamp(
        producer_id=request.producer_id, producer_epoch=request.producer_epoch, base_sequence=0
    )


def as_answer(request: object, response: OffsetCommitResponse) -> Message:
    """The response, in the form of its request."""
    if isinstance(request, TxnOffsetCommit):
        return TxnOffsetCommitResponse(partitions=response.partitions)
    return response


def encode_staged(changes: Sequence[Change], now_ms: int, producer: ProducerStamp) -> bytearray:
    """One batch of a transaction, with a record for each change."""
    records = [
        Record(
            offset=Offset(index),
            timestamp_ms=now_ms,
            key=encode_key(key),
            value=None if value is None else encode_value(value),
        )
        for index, (key, value) in enumerate(changes)
    ]
    return encode_batch(records, attributes=Attributes.TRANSACTIONAL, producer=producer)
