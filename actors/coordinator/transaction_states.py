"""A transactional id's life as its coordinator sees it.

Rule: every legal change is a row of LEGAL_FROM. A change is prepared, written to the log, and only
then so; while one is on its way no other is begun.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Final

from msgspec import Struct

from wire.errors import ErrorCode, exception_of
from wire.ids import NO_PRODUCER_EPOCH, NO_TIMESTAMP_MS, ProducerEpoch, ProducerId, TopicPartition

ConcurrentTransactions: Final = exception_of(ErrorCode.CONCURRENT_TRANSACTIONS)
InvalidTxnState: Final = exception_of(ErrorCode.INVALID_TXN_STATE)

MOST_EPOCH: Final = 2**15 - 2  # the last one is left for fencing


class TransactionState(IntEnum):
    """As it is written in __transaction_state; one that is dead, or being fenced, never is."""

    EMPTY = 0
    ONGOING = 1
    PREPARE_COMMIT = 2
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5
    DEAD = 6
    PREPARE_EPOCH_FENCE = 7

    @property
    def words(self) -> str:
        """As Kafka's tools print it."""
        return "".join(word.capitalize() for word in self.name.split("_"))


EMPTY, ONGOING = TransactionState.EMPTY, TransactionState.ONGOING
PREPARE_COMMIT, PREPARE_ABORT = TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT
COMPLETE_COMMIT, COMPLETE_ABORT = TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT
DEAD, PREPARE_EPOCH_FENCE = TransactionState.DEAD, TransactionState.PREPARE_EPOCH_FENCE

LEGAL_FROM: Final[Mapping[TransactionState, frozenset[TransactionState]]] = {
    EMPTY:               frozenset({EMPTY, COMPLETE_COMMIT, COMPLETE_ABORT}),
    ONGOING:             frozenset({ONGOING, EMPTY, COMPLETE_COMMIT, COMPLETE_ABORT}),
    PREPARE_COMMIT:      frozenset({ONGOING}),
    PREPARE_ABORT:       frozenset({ONGOING, PREPARE_EPOCH_FENCE}),
    COMPLETE_COMMIT:     frozenset({PREPARE_COMMIT}),
    COMPLETE_ABORT:      frozenset({PREPARE_ABORT}),
    DEAD:                frozenset({EMPTY, COMPLETE_COMMIT, COMPLETE_ABORT}),
    PREPARE_EPOCH_FENCE: frozenset({ONGOING}),
}  # fmt: skip
IS_ENDING: Final = frozenset({PREPARE_COMMIT, PREPARE_ABORT})
MAY_EXPIRE: Final = LEGAL_FROM[DEAD]


class TransactionValue(Struct, frozen=True, kw_only=True):
    """What is written of a transactional id."""

    producer_id: ProducerId
    producer_epoch: ProducerEpoch
    timeout_ms: int
    state: TransactionState
    partitions: frozenset[TopicPartition] = frozenset()
    update_ms: int = NO_TIMESTAMP_MS
    start_ms: int = NO_TIMESTAMP_MS


@dataclass(eq=False)
class Transaction:
    """A transactional id: what is so, and what is on its way."""

    transactional_id: str
    value: TransactionValue
    last_epoch: ProducerEpoch = NO_PRODUCER_EPOCH  # the one before: a retry may still name it
    pending: TransactionState | None = None
    unmarked: set[TopicPartition] = field(default_factory=set)  # they have no marker yet
    waiting: int = 0  # for so many answers before markers are sent again

    @property
    def state(self) -> TransactionState:
        """What is so."""
        return self.value.state

    def begin(self, to: TransactionState) -> None:
        """A change is on its way: ConcurrentTransactions if another is, InvalidTxnState if it may
        not be."""
        if self.pending is not None:
            raise ConcurrentTransactions(f"{self.transactional_id} becomes {self.pending.words}")
        if self.state not in LEGAL_FROM[to]:
            raise InvalidTxnState(f"{self.transactional_id} is {self.state.words}")
        self.pending = to

    def settle(self, value: TransactionValue | None) -> None:
        """It is so now; or with None, it is as it was."""
        self.pending = None
        if value is not None:
            assert self.state in LEGAL_FROM[value.state]
            self.value = value
            self.unmarked = set(value.partitions) if value.state in IS_ENDING else set()
            self.waiting = 0
