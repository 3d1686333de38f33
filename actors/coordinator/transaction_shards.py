"""The partitions of __transaction_state that this broker leads.

Rule: as shards.py says of groups. A shard is of use once all of it is in memory, up to the end that
the log had when the load began; one that is led anew is another one, read anew.
"""

from dataclasses import dataclass, field
from typing import Final

from actors.administration.auto_topics import TRANSACTIONS_TOPIC
from actors.broker.local import LeadershipChanged, RecordsRead
from actors.coordinator.loading import FIRST_WAIT_MS, LONGEST_WAIT_MS, Next
from actors.coordinator.offsets import partition_for
from actors.coordinator.transaction_records import decode_transactions
from actors.coordinator.transaction_states import Transaction
from wire.errors import (
    CoordinatorLoadInProgress,
    ErrorCode,
    InvalidRecord,
    InvalidRequest,
    NotCoordinator,
    exception_of,
)
from wire.fields import fits
from wire.ids import NO_LEADER_EPOCH, LeaderEpoch, Offset, TopicPartition
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


class TransactionShards:
    """What is led here, by number."""

    def __init__(self) -> None:
        self.partitions: int | None = None  # how many the topic has, once that is known
        self._shards: dict[int, TransactionShard] = {}
        self._epochs: dict[int, LeaderEpoch] = {}  # of the last decision on each partition

    @property
    def is_empty(self) -> bool:
        """Whether nothing is led here."""
        return not self._shards

    def all(self) -> list[TransactionShard]:
        """In the order of their numbers."""
        return [self._shards[number] for number in sorted(self._shards)]

    def loaded(self) -> list[TransactionShard]:
        """Those of use."""
        return [shard for shard in self.all() if not shard.is_loading]

    def is_current(self, shard: TransactionShard) -> bool:
        """Whether a shard is led still, and has not been replaced by another one."""
        return self._shards.get(shard.partition.partition) is shard

    def drop(self, shard: TransactionShard) -> None:
        """Stop coordinating what it has."""
        if self.is_current(shard):
            del self._shards[shard.partition.partition]

    def change(self, change: LeadershipChanged) -> TransactionShard | None:
        """Lead, or lead no longer; the answer is a shard that is to be loaded."""
        number, epoch = change.partition.partition, change.leader_epoch
        is_deleted = epoch < 0
        if not is_deleted and epoch < self._epochs.get(number, NO_LEADER_EPOCH):
            return None
        self._epochs[number] = epoch
        former = self._shards.get(number)
        if not change.is_leader:
            self._shards.pop(number, None)
            if is_deleted and not self._shards:
                self.partitions = None
            return None
        if former is not None and former.leader_epoch == epoch:
            return None
        # Read anew even if nobody led in between: what was on its way is decided by the log.
        shard = self._shards[number] = TransactionShard(change.partition, epoch)
        return shard

    def of(self, transactional_id: str) -> TransactionShard:
        """The shard with a transactional id; raises if it is not here, or of no use yet."""
        check_transactional_id(transactional_id)
        if self.partitions is None:
            if self._shards:
                raise CoordinatorLoadInProgress("How many partitions there are is being read.")
            raise NotCoordinator(f"{TRANSACTIONS_TOPIC} is not here.")
        number = partition_for(transactional_id, self.partitions)
        shard = self._shards.get(number)
        if shard is None:
            raise NotCoordinator(f"{TRANSACTIONS_TOPIC}-{number} is not led here.")
        if shard.is_loading:
            raise CoordinatorLoadInProgress(f"{TRANSACTIONS_TOPIC}-{number} is being read.")
        return shard


def check_transactional_id(transactional_id: str) -> None:
    """Refuse what cannot be one."""
    if not transactional_id or not fits(transactional_id):
        raise InvalidRequest("A transactional id is empty, or too long.")
