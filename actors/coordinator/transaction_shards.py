"""A partition of __transaction_state that this broker leads.

Rule: it is of use once all of it is in memory, up to the end that the log had when the load began;
one that is led anew is another one, read anew.
"""

from dataclasses import dataclass, field
from typing import Final

from actors.administration.auto_topics import TRANSACTIONS_TOPIC
from actors.broker.local import RecordsRead
from actors.coordinator.led import Led
from actors.coordinator.loading import FIRST_WAIT_MS, LONGEST_WAIT_MS, Next
from actors.coordinator.transaction_records import decode_transactions
from actors.coordinator.transaction_states import Transaction
from wire.errors import (
    ErrorCode,
    InvalidRecord,
    InvalidRequest,
    exception_of,
)
from wire.fields import fits
from wire.ids import LeaderEpoch, Offset, TopicPartition
from wire.records import batches

_TOO_MANY: Final = 1_000_000
ZERO: Final = Offset(0)


@dataclass(eq=False)
class TransactionShard:
    """One partition, and the transactional ids in it."""

    partition: TopicPartition
    leader_epoch: LeaderEpoch
    is_loading: bool = True
    position: Offset = ZERO  # of what is read next
    transactions: dict[str, Transaction] = field(default_factory=dict)
    wait_ms: float = FIRST_WAIT_MS
    _end: Offset | None = None  # of the log when the load began

    def take(self, read: RecordsRead) -> Next:
        """Take in what was read; raises an ApiError if it cannot be."""
        if read.error_code is not ErrorCode.NONE:
            raise exception_of(read.error_code)("the log of transactions is not readable")
        if self._end is None:
            self._end = read.log_end_offset
        self.position = max(self.position, read.log_start_offset)
        for transactional_id, value in decode_transactions(read.records, self.position):
            self.transactions.pop(transactional_id, None)
            if value is not None:
                if len(self.transactions) > _TOO_MANY:
                    raise InvalidRecord("there are too many transactional ids")
                self.transactions[transactional_id] = Transaction(transactional_id, value)
        ends = [batch.header.next_offset for batch in batches(read.records)]
        # Without any, compaction took all that was in between.
        self.position = ends[-1] if ends else max(self.position, read.high_watermark)
        if self.position >= self._end:
            return Next.DONE
        return Next.READ if self.position < read.high_watermark else Next.WAIT

    def next_wait_ms(self) -> float:
        """How long to wait for the high watermark, longer each time."""
        wait_ms = self.wait_ms
        self.wait_ms = min(2 * wait_ms, LONGEST_WAIT_MS)
        return wait_ms


class TransactionShards(Led[TransactionShard]):
    """What is led here of __transaction_state."""

    def __init__(self) -> None:
        super().__init__(TRANSACTIONS_TOPIC, _following)

    def of(self, transactional_id: str) -> TransactionShard:
        """The shard with a transactional id; raises if it is not here, or of no use yet."""
        check_transactional_id(transactional_id)
        return super().of(transactional_id)


def _following(
    partition: TopicPartition, epoch: LeaderEpoch, _: TransactionShard | None
) -> TransactionShard:
    """Read anew even if nobody led in between: what was on its way is decided by the log."""
    return TransactionShard(partition, epoch)


def check_transactional_id(transactional_id: str) -> None:
    """Refuse what cannot be one."""
    if not transactional_id or not fits(transactional_id):
        raise InvalidRequest("A transactional id is empty, or too long.")
