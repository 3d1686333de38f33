"""What becomes of transactions, and of transactional ids, with time.

Rule: a transaction that has had its time is aborted in an epoch that no producer has; an id that
nobody has used for long is forgotten. Looked for only while something is coordinated here.
"""

from collections.abc import Callable
from typing import Any

from actors.config import BrokerConfig
from actors.coordinator import transaction_rules as rules
from actors.coordinator.transaction_ending import Ending
from actors.coordinator.transaction_events import IdExpiryDue, TimeoutsDue
from actors.coordinator.transaction_log import TransactionLog
from actors.coordinator.transaction_shards import TransactionShard, TransactionShards
from actors.coordinator.transaction_states import (
    DEAD,
    MAY_EXPIRE,
    PREPARE_EPOCH_FENCE,
    Transaction,
)
from runtime.ref import Timer
from runtime.world import World


class Aging:
    """Looks for what is too old."""

    def __init__(
        self,
        world: World,
        config: BrokerConfig,
        shards: TransactionShards,
        log: TransactionLog,
        ending: Ending,
        after: Callable[[float, Any], Timer],
    ) -> None:
        self._world = world
        self._config = config
        self._shards = shards
        self._log = log
        self._ending = ending
        self._after = after
        self._is_looking_for_late = self._is_looking_for_old = False

    def begin(self) -> None:
        """Something is coordinated here now."""
        if not self._is_looking_for_late:
            self._await_late()
        if not self._is_looking_for_old:
            self._await_old()

    def fence(self, shard: TransactionShard, known: Transaction) -> None:
        """Abort, in an epoch that nobody has."""
        value = rules.fenced(known, self._world.clock.now_ms())
        self._log.write(
            shard, known, value, PREPARE_EPOCH_FENCE, lambda _: self._ending.go_on(shard, known)
        )

    def abort_late(self) -> None:
        """As abortTimedOutTransactions."""
        now_ms = self._world.clock.now_ms()
        for shard in self._shards.loaded():
            for known in list(shard.transactions.values()):
                if rules.is_timed_out(known, now_ms):
                    self.fence(shard, known)
        self._await_late()

    def forget_old(self) -> None:
        """As removeExpiredTransactionalIds."""
        oldest_ms = self._world.clock.now_ms() - self._config.transactional_id_expiration_ms
        for shard in self._shards.loaded():
            for known in list(shard.transactions.values()):
                is_old = known.value.update_ms <= oldest_ms and known.state in MAY_EXPIRE
                if is_old and known.pending is None:
                    self._log.write(shard, known, None, DEAD, lambda _: None)
        self._await_old()

    def _await_late(self) -> None:
        interval_ms = self._config.transaction_abort_timed_out_transaction_cleanup_interval_ms
        self._is_looking_for_late = not self._shards.is_empty
        if self._is_looking_for_late:
            self._after(interval_ms, TimeoutsDue())

    def _await_old(self) -> None:
        interval_ms = self._config.transaction_remove_expired_transaction_cleanup_interval_ms
        self._is_looking_for_old = not self._shards.is_empty
        if self._is_looking_for_old:
            self._after(interval_ms, IdExpiryDue())
