"""What a producer may do with its transactional id: pure.

Rule: as TransactionCoordinator of 2.8. Whoever is not the last to have been given the id is fenced;
who asks while a transaction ends is told to come back. The answer is what to write, or None if all
is as it should be already.
"""

from collections.abc import Collection
from typing import Final

from msgspec.structs import replace

from actors.coordinator.transaction_states import (
    COMPLETE_ABORT,
    COMPLETE_COMMIT,
    EMPTY,
    IS_ENDING,
    MOST_EPOCH,
    ONGOING,
    PREPARE_ABORT,
    PREPARE_COMMIT,
    PREPARE_EPOCH_FENCE,
    ConcurrentTransactions,
    InvalidTxnState,
    Transaction,
    TransactionValue,
)
from wire.errors import ErrorCode, exception_of
from wire.ids import (
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_TIMESTAMP_MS,
    ProducerEpoch,
    ProducerId,
    TopicPartition,
)

InvalidProducerIdMapping: Final = exception_of(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
ProducerFenced: Final = exception_of(ErrorCode.PRODUCER_FENCED)


def new_value(producer: ProducerId, timeout_ms: int, now_ms: int) -> TransactionValue:
    """Of an id that nobody has used yet."""
    return TransactionValue(
        producer_id=producer,
        producer_epoch=NO_PRODUCER_EPOCH,
        timeout_ms=timeout_ms,
        state=EMPTY,
        update_ms=now_ms,
    )


def check_expected(known: Transaction, producer: ProducerId, epoch: ProducerEpoch) -> None:
    """A producer that says who it was must be the last one, or its retry (KIP-360)."""
    if producer == NO_PRODUCER_ID:
        return
    value = known.value
    is_last = producer == value.producer_id and epoch in {value.producer_epoch, known.last_epoch}
    if value.producer_epoch != NO_PRODUCER_EPOCH and not is_last:
        raise ProducerFenced(f"{known.transactional_id} has been given to another producer")


def is_retry(known: Transaction, epoch: ProducerEpoch) -> bool:
    """Whether it was answered already, and the answer was lost."""
    return epoch != NO_PRODUCER_EPOCH and epoch == known.last_epoch != known.value.producer_epoch


def needs_new_id(known: Transaction) -> bool:
    """Whether there is no epoch left for a producer of this id."""
    return known.value.producer_epoch >= MOST_EPOCH


def initialised(
    known: Transaction, timeout_ms: int, now_ms: int, new_id: ProducerId | None
) -> TransactionValue:
    """The next epoch, or the first of a new producer id."""
    value = known.value
    epoch = ProducerEpoch(0 if new_id is not None else value.producer_epoch + 1)
    return TransactionValue(
        producer_id=value.producer_id if new_id is None else new_id,
        producer_epoch=epoch,
        timeout_ms=timeout_ms,
        state=EMPTY,
        update_ms=now_ms,
    )


def check_producer(known: Transaction | None, producer: ProducerId, epoch: ProducerEpoch) -> None:
    """Who asks must be who was last given the id."""
    if known is None or known.value.producer_id != producer:
        raise InvalidProducerIdMapping(f"producer {producer} does not have this transactional id")
    if known.value.producer_epoch != epoch:
        raise ProducerFenced(f"{known.transactional_id} is at epoch {known.value.producer_epoch}")


def added(
    known: Transaction, partitions: Collection[TopicPartition], now_ms: int
) -> TransactionValue | None:
    """The transaction with these, begun if there is none."""
    if known.pending is not None or known.state in IS_ENDING:
        raise ConcurrentTransactions(f"{known.transactional_id} is {known.state.words}")
    value = known.value
    is_open = known.state is ONGOING
    if is_open and value.partitions >= set(partitions):
        return None
    return replace(
        value,
        state=ONGOING,
        partitions=(value.partitions if is_open else frozenset()) | set(partitions),
        update_ms=now_ms,
        start_ms=value.start_ms if is_open else now_ms,
    )


def ended(known: Transaction, is_committed: bool, now_ms: int) -> TransactionValue | None:
    """The decision; None if it was made, and carried out, before."""
    name = known.transactional_id
    if known.pending is not None and known.pending is not PREPARE_EPOCH_FENCE:
        raise ConcurrentTransactions(f"{name} becomes {known.pending.words}")
    prepared, complete = (
        (PREPARE_COMMIT, COMPLETE_COMMIT) if is_committed else (PREPARE_ABORT, COMPLETE_ABORT)
    )
    if known.state is complete:
        return None
    if known.state is prepared:
        raise ConcurrentTransactions(f"{name} is {known.state.words}")
    if known.state is not ONGOING:
        raise InvalidTxnState(f"{name} is {known.state.words}")
    return replace(known.value, state=prepared, update_ms=now_ms)


def completed(known: Transaction, now_ms: int) -> TransactionValue:
    """All markers are written."""
    state = COMPLETE_COMMIT if known.state is PREPARE_COMMIT else COMPLETE_ABORT
    return replace(known.value, state=state, partitions=frozenset(), update_ms=now_ms)


def fenced(known: Transaction, now_ms: int) -> TransactionValue:
    """Aborted, in an epoch that no producer has: whoever had the last one writes no more."""
    epoch = ProducerEpoch(known.value.producer_epoch + 1)
    return replace(known.value, state=PREPARE_ABORT, producer_epoch=epoch, update_ms=now_ms)


def is_timed_out(known: Transaction, now_ms: int) -> bool:
    """Whether its producer has had its time."""
    value = known.value
    is_open = known.state is ONGOING and known.pending is None
    return is_open and NO_TIMESTAMP_MS < value.start_ms <= now_ms - value.timeout_ms
