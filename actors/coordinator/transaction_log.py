"""How a transaction coordinator reads and writes __transaction_state.

Rule: a change is so once all in-sync replicas have it, and one that may not be there is not. A
shard that cannot be read is dropped: better no answer than one from half of what was decided.
"""

from collections.abc import Callable
from typing import Any, Final

from actors.broker.local import AppendRecords, ReadRecords
from actors.config import BrokerConfig
from actors.coordinator.loading import Next
from actors.coordinator.transaction_events import (
    Finish,
    TransactionAppended,
    TransactionsRead,
    TransactionsReadDue,
)
from actors.coordinator.transaction_records import encode_transaction
from actors.coordinator.transaction_shards import TransactionShard, TransactionShards
from actors.coordinator.transaction_states import Transaction, TransactionState, TransactionValue
from runtime.ref import InboxFull, Receiver, Timer
from runtime.world import World
from wire.data import ProduceResult
from wire.errors import ApiError, ErrorCode
from wire.trace import TransactionsLoaded, TransactionStateChanged, TransactionsUnloaded

RETRY_MS: Final = 1_000
TIMEOUT_MS: Final = 5_000
MOST_BYTES_READ: Final = 256 * 1024

_NOT_AVAILABLE: Final = ErrorCode.COORDINATOR_NOT_AVAILABLE
_APPEND_ERRORS: Final = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: _NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS: _NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND: _NOT_AVAILABLE,
    ErrorCode.REQUEST_TIMED_OUT: _NOT_AVAILABLE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorCode.NOT_COORDINATOR,
    ErrorCode.KAFKA_STORAGE_ERROR: ErrorCode.NOT_COORDINATOR,
    ErrorCode.MESSAGE_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.RECORD_LIST_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
}


class TransactionLog:
    """What is written, and what is on its way."""

    def __init__(
        self,
        world: World,
        config: BrokerConfig,
        shards: TransactionShards,
        replica_manager: Receiver,
        *,
        tell: Callable[[Any], None],
        after: Callable[[float, Any], Timer],
    ) -> None:
        self._world = world
        self._config = config
        self._shards = shards
        self._replica_manager = replica_manager
        self._tell = tell
        self._after = after

    # --- loading ----------------------------------------------------------------------------------

    def read(self, shard: TransactionShard) -> None:
        """Read on."""
        if not shard.is_loading or not self._shards.is_current(shard):
            return
        read = ReadRecords(
            partition=shard.partition,
            leader_epoch=shard.leader_epoch,
            offset=shard.position,
            max_bytes=MOST_BYTES_READ,
            done=lambda read: self._tell(TransactionsRead(shard, read)),
        )
        try:
            self._replica_manager.tell(read)
        except InboxFull:
            self._after(RETRY_MS, TransactionsReadDue(shard))

    def on_read(self, message: TransactionsRead) -> bool:
        """Whether the shard is of use now."""
        shard = message.shard
        if not shard.is_loading or not self._shards.is_current(shard):
            return False
        number, epoch = shard.partition.partition, shard.leader_epoch
        try:
            following = shard.take(message.read)
        except ApiError as error:
            self._shards.drop(shard)
            self._world.trace(TransactionsUnloaded(number, epoch, str(error)))
            return False
        match following:
            case Next.READ:
                self.read(shard)
            case Next.WAIT:
                self._after(shard.next_wait_ms(), TransactionsReadDue(shard))
            case Next.DONE:
                shard.is_loading = False
                self._world.trace(TransactionsLoaded(number, epoch, len(shard.transactions)))
        return not shard.is_loading

    # --- writing ----------------------------------------------------------------------------------

    def write(
        self,
        shard: TransactionShard,
        transaction: Transaction,
        value: TransactionValue | None,
        pending: TransactionState,
        finish: Finish,
    ) -> None:
        """Append a change, or with None that the id is forgotten; raises if it may not be begun."""
        transaction.begin(pending)
        now_ms = self._world.clock.now_ms()

        def done(result: ProduceResult) -> None:
            self._tell(TransactionAppended(shard, transaction, value, result, finish))

        append = AppendRecords(
            partition=shard.partition,
            leader_epoch=shard.leader_epoch,
            records=encode_transaction((transaction.transactional_id, value), now_ms),
            acks=-1,
            timeout_ms=TIMEOUT_MS,
            done=done,
        )
        try:
            self._replica_manager.tell(append)
        except InboxFull:
            code = ErrorCode.REQUEST_TIMED_OUT
            done(ProduceResult(partition=shard.partition, error_code=code))

    def on_appended(self, appended: TransactionAppended) -> None:
        """Whoever leads by now: a shard that was unloaded nobody reads."""
        shard, transaction, value = appended.shard, appended.transaction, appended.value
        code = appended.result.error_code
        if code is not ErrorCode.NONE:
            transaction.settle(None)
            appended.finish(_APPEND_ERRORS.get(code, code))
            return
        before = transaction.state
        if value is None:
            shard.transactions.pop(transaction.transactional_id, None)
        else:
            transaction.settle(value)
            self._world.trace(
                TransactionStateChanged(
                    transaction.transactional_id,
                    before.words,
                    value.state.words,
                    value.producer_id,
                    value.producer_epoch,
                )
            )
        is_current = self._shards.is_current(shard)
        appended.finish(ErrorCode.NONE if is_current else ErrorCode.NOT_COORDINATOR)
