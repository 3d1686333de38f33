"""What a log knows of those who write to it: Kafka's ProducerStateManager, without its files.

Rule: pure, and all of it follows from the batches of the log: a follower, a broker that comes back
and a leader that cut its log know the same. A batch that an idempotent producer sends again is
known by its first and last sequence, among the last five of its epoch (KIP-98).
"""

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from wire.errors import ErrorCode, exception_of
from wire.ids import NO_OFFSET, NO_SEQUENCE, Offset, ProducerEpoch, ProducerId
from wire.records import BatchHeader, sequence_after

OutOfOrderSequence: Final = exception_of(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
InvalidProducerEpoch: Final = exception_of(ErrorCode.INVALID_PRODUCER_EPOCH)
InvalidTxnState: Final = exception_of(ErrorCode.INVALID_TXN_STATE)
CoordinatorFenced: Final = exception_of(ErrorCode.TRANSACTION_COORDINATOR_FENCED)

BATCHES_KEPT: Final = 5  # as many as a producer may have in flight
MOST_PRODUCERS: Final = 50_000  # of one log; the one that was silent longest makes room
NO_COORDINATOR_EPOCH: Final = -1


class WrittenBatch(NamedTuple):
    """A batch in the log, by which it is known when it comes again."""

    last_sequence: int
    last_offset: Offset
    offset_delta: int  # from its first offset to its last
    timestamp_ms: int

    @property
    def base_sequence(self) -> int:
        """Of its first record."""
        return sequence_after(self.last_sequence, -self.offset_delta)

    @property
    def base_offset(self) -> Offset:
        """Of its first record."""
        return Offset(self.last_offset - self.offset_delta)


class KnownProducer(NamedTuple):
    """What is known of one producer."""

    producer_id: ProducerId
    epoch: ProducerEpoch
    batches: tuple[WrittenBatch, ...]  # the last few of its epoch
    heard_ms: int  # by this broker's clock
    timestamp_ms: int  # of its last batch
    coordinator_epoch: int = NO_COORDINATOR_EPOCH
    transaction_offset: Offset | None = None  # where its open transaction begins

    @property
    def last_sequence(self) -> int:
        """Of its last record, or NO_SEQUENCE."""
        return self.batches[-1].last_sequence if self.batches else NO_SEQUENCE

    @property
    def last_offset(self) -> Offset:
        """Of its last record, or NO_OFFSET."""
        return self.batches[-1].last_offset if self.batches else NO_OFFSET


class EndedTransaction(NamedTuple):
    """A transaction whose marker is in the log."""

    producer_id: ProducerId
    first_offset: Offset
    last_offset: Offset  # the marker's
    last_stable_offset: Offset  # when it had ended


class ProducerStates:
    """All producers of a log; who was heard last comes last."""

    __slots__ = ("_known", "open")

    def __init__(self, known: Iterable[KnownProducer] = ()) -> None:
        self._known = {each.producer_id: each for each in known}
        # Where each open transaction begins, the first one first.
        self.open = {
            each.producer_id: each.transaction_offset
            for each in sorted(self, key=lambda each: each.transaction_offset or 0)
            if each.transaction_offset is not None
        }

    def __len__(self) -> int:
        return len(self._known)

    def __iter__(self) -> Iterator[KnownProducer]:
        return iter(self._known.values())

    def get(self, producer: ProducerId) -> KnownProducer | None:
        """What is known of one."""
        return self._known.get(producer)

    def judge(self, header: BatchHeader) -> WrittenBatch | None:
        """The batch that is there already if this is the same; raises if it may not follow.

        As ProducerAppendInfo of 2.8: whoever is not known may begin with any sequence, for what it
        wrote before may have been deleted for its age.
        """
        known = self._known.get(header.producer_id)
        if known is None:
            return None
        who = f"producer {header.producer_id}"
        self.check_epoch(header)
        base = header.base_sequence
        if header.producer_epoch > known.epoch:
            if base != 0:
                raise OutOfOrderSequence(
                    f"{who} begins epoch {header.producer_epoch} with sequence {base}, not 0"
                )
            return None
        last = sequence_after(base, header.last_offset_delta)
        for batch in known.batches:
            if batch.last_sequence == last and batch.base_sequence == base:
                return batch
        if known.transaction_offset is not None and not header.is_transactional:
            raise InvalidTxnState(f"{who} has a transaction open, and this batch is not of it")
        # One that only ended transactions in this epoch has no last sequence: it begins with 0.
        due = 0 if known.last_sequence == NO_SEQUENCE else sequence_after(known.last_sequence, 1)
        if base != due:
            raise OutOfOrderSequence(f"{who} sends sequence {base}, and {due} is due")
        return None

    def check_epoch(self, header: BatchHeader) -> None:
        """Whoever is fenced writes nothing: not even a coordinator in its name."""
        known = self._known.get(header.producer_id)
        if known is not None and header.producer_epoch < known.epoch:
            raise InvalidProducerEpoch(
                f"producer {header.producer_id} is at epoch {known.epoch}; "
                f"this batch is of epoch {header.producer_epoch}"
            )

    def check_marker(self, header: BatchHeader, coordinator_epoch: int) -> None:
        """As ProducerAppendInfo.checkCoordinatorEpoch: of a deposed coordinator none is taken."""
        self.check_epoch(header)
        known = self._known.get(header.producer_id)
        if known is not None and coordinator_epoch < known.coordinator_epoch:
            raise CoordinatorFenced(
                f"producer {header.producer_id} was told of by a coordinator of epoch "
                f"{known.coordinator_epoch}; this marker is of {coordinator_epoch}"
            )

    def end_transaction(
        self, header: BatchHeader, coordinator_epoch: int, now_ms: int
    ) -> EndedTransaction | None:
        """A marker is in the log; None if the producer had written nothing."""
        known = self._known.pop(header.producer_id, None)
        is_same = known is not None and known.epoch == header.producer_epoch
        self._known[header.producer_id] = KnownProducer(
            header.producer_id,
            header.producer_epoch,
            known.batches if known is not None and is_same else (),
            now_ms,
            header.max_timestamp_ms,
            coordinator_epoch,
        )
        first = self.open.pop(header.producer_id, None)
        if first is None:
            return None
        stable = next(iter(self.open.values()), header.next_offset)
        return EndedTransaction(header.producer_id, first, header.last_offset, stable)

    def take(self, header: BatchHeader, now_ms: int) -> None:
        """A producer's batch is in the log: an earlier epoch's too, for a leader has taken it."""
        known = self._known.pop(header.producer_id, None)
        batch = WrittenBatch(
            sequence_after(header.base_sequence, header.last_offset_delta),
            header.last_offset,
            header.last_offset_delta,
            header.max_timestamp_ms,
        )
        batches: tuple[WrittenBatch, ...] = (batch,)
        if known is not None and known.epoch == header.producer_epoch:
            batches = (*known.batches[1 - BATCHES_KEPT :], batch)
        self._known[header.producer_id] = KnownProducer(
            header.producer_id,
            header.producer_epoch,
            batches,
            now_ms,
            header.max_timestamp_ms,
            NO_COORDINATOR_EPOCH if known is None else known.coordinator_epoch,
            self._begun(header, known),
        )
        if len(self._known) > MOST_PRODUCERS:
            self._make_room()

    def _begun(self, header: BatchHeader, known: KnownProducer | None) -> Offset | None:
        """Where the producer's open transaction begins: with this batch, if with none before."""
        if known is not None and known.transaction_offset is not None:
            return known.transaction_offset
        if not header.is_transactional:
            return None
        self.open[header.producer_id] = header.base_offset
        return header.base_offset

    def forget_silent(self, before_ms: int) -> int:
        """Forget those not heard since then, but for whoever has a transaction open; how many."""
        silent = [
            each.producer_id
            for each in self._known.values()
            if each.heard_ms <= before_ms and each.transaction_offset is None
        ]
        for producer in silent:
            del self._known[producer]
        return len(silent)

    def _make_room(self) -> None:
        for each in self._known.values():
            if each.transaction_offset is None:
                del self._known[each.producer_id]
                return
