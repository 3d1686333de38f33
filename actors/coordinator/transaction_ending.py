"""How a transaction ends once it is decided: each of its partitions gets a marker.

Rule: what is decided is carried out, whoever coordinates by then: markers are sent until each
leader has one, and that all have is written last. A partition whose topic is gone needs none.
"""

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, Final

from actors.broker.metadata import AwaitMetadata, MetadataCache
from actors.coordinator.transaction_events import (
    LeadersFound,
    MarkerRound,
    MarkersDue,
    MarkersWritten,
    TopicsRead,
)
from actors.coordinator.transaction_log import TransactionLog
from actors.coordinator.transaction_rules import completed
from actors.coordinator.transaction_shards import TransactionShard, TransactionShards
from actors.coordinator.transaction_states import (
    IS_ENDING,
    PREPARE_COMMIT,
    Transaction,
)
from runtime.keeper import KeeperError, NoNode
from runtime.network import NetworkError
from runtime.ref import InboxFull, Outcome, Receiver, Timer
from runtime.world import World
from wire.codec import encode
from wire.errors import ErrorCode, MalformedMessage
from wire.ids import BrokerId, TopicPartition
from wire.parted import unpack
from wire.transactions import TxnMarker, WriteTxnMarkers, WriteTxnMarkersResponse
from wire.znodes import TopicZNode

BACKOFF_MS: Final = 100
CALL_MS: Final = 30_000
# Another coordinator has ended it, or a later producer of this id has written there since.
_OVERTAKEN: Final = frozenset(
    {ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.TRANSACTION_COORDINATOR_FENCED}
)


class Ending:
    """The transactions that are decided, and not over."""

    def __init__(
        self,
        world: World,
        shards: TransactionShards,
        log: TransactionLog,
        replica_manager: Receiver,
        name_of: Callable[[BrokerId], str],
        *,
        tell: Callable[[Any], None],
        after: Callable[[float, Any], Timer],
        pipe: Callable[[Awaitable[Any], Callable[[Outcome], Any]], None],
    ) -> None:
        self._world = world
        self._shards = shards
        self._log = log
        self._replica_manager = replica_manager
        self._name_of = name_of
        self._tell = tell
        self._after = after
        self._pipe = pipe

    def go_on(self, shard: TransactionShard, transaction: Transaction) -> None:
        """Send what is missing, or write that nothing is; one round at a time."""
        round_ = MarkerRound(shard, transaction, transaction.value)
        is_busy = transaction.pending is not None or transaction.waiting > 0
        if is_busy or not self._is_current(round_):
            return
        if not transaction.unmarked:
            self._complete(round_)
            return
        missing = tuple(sorted(transaction.unmarked))
        leaders: dict[BrokerId, list[TopicPartition]] = {}
        unknown: list[TopicPartition] = []

        def look(cache: MetadataCache) -> bool:
            for each in missing:
                leader = cache.leader(each)
                if cache.partition(each) is None or leader is None or leader < 0:
                    unknown.append(each)
                else:
                    leaders.setdefault(leader, []).append(each)
            return True

        def done(_: bool) -> None:
            found = {leader: tuple(each) for leader, each in leaders.items()}
            self._tell(LeadersFound(round_, found, tuple(unknown)))

        try:
            self._replica_manager.tell(AwaitMetadata(look, 0, done))
            transaction.waiting = 1
        except InboxFull:
            self._again(round_)

    def on_leaders(self, found: LeadersFound) -> None:
        """Ask each leader; of partitions without one, whether their topics are there at all."""
        round_ = found.round
        if not self._is_current(round_):
            return
        round_.transaction.waiting = len(found.leaders) + bool(found.unknown)
        for leader, partitions in sorted(found.leaders.items()):
            call = self._world.network.call(
                self._name_of(leader),
                encode(WriteTxnMarkers(markers=(_marker_of(round_, partitions),))),
                timeout_ms=CALL_MS,
                label="WriteTxnMarkers",
            )
            self._pipe(call, partial(MarkersWritten, round_, partitions))
        if found.unknown:
            topics = tuple(sorted({each.topic for each in found.unknown}))
            reading = self._world.keeper.read([TopicZNode.path(each) for each in topics])
            self._pipe(reading, partial(TopicsRead, round_, topics))

    def on_written(self, written: MarkersWritten) -> None:
        """Some have their marker now."""
        if self._is_current(written.round):
            codes = _codes_of(written)
            for partition in written.asked_for:
                code = codes.get(partition, ErrorCode.UNKNOWN_SERVER_ERROR)
                if code is ErrorCode.NONE or code in _OVERTAKEN:
                    written.round.transaction.unmarked.discard(partition)
            self._on_answer(written.round)

    def on_topics(self, read: TopicsRead) -> None:
        """What was deleted needs no marker; the rest is asked for again."""
        if not self._is_current(read.round):
            return
        if not isinstance(read.outcome.error, KeeperError):
            answers = zip(read.topics, read.outcome.get(), strict=True)
            gone = {topic for topic, answer in answers if isinstance(answer, NoNode)}
            transaction = read.round.transaction
            transaction.unmarked = {each for each in transaction.unmarked if each.topic not in gone}
        self._on_answer(read.round)

    def _on_answer(self, round_: MarkerRound) -> None:
        transaction = round_.transaction
        transaction.waiting -= 1
        if transaction.waiting == 0:
            if transaction.unmarked:
                self._again(round_)
            else:
                self._complete(round_)

    def _complete(self, round_: MarkerRound) -> None:
        value = completed(round_.transaction, self._world.clock.now_ms())

        def finish(code: ErrorCode) -> None:
            if code is not ErrorCode.NONE:
                self._again(round_)

        self._log.write(round_.shard, round_.transaction, value, value.state, finish)

    def _again(self, round_: MarkerRound) -> None:
        self._after(BACKOFF_MS, MarkersDue(round_.shard, round_.transaction))

    def _is_current(self, round_: MarkerRound) -> bool:
        """Another may coordinate by now, and a late answer may be of a transaction before."""
        is_led = self._shards.is_current(round_.shard)
        transaction = round_.transaction
        return is_led and transaction.state in IS_ENDING and transaction.value is round_.value


def _marker_of(round_: MarkerRound, partitions: tuple[TopicPartition, ...]) -> TxnMarker:
    value = round_.value
    return TxnMarker(
        producer_id=value.producer_id,
        producer_epoch=value.producer_epoch,
        is_committed=value.state is PREPARE_COMMIT,
        coordinator_epoch=round_.shard.leader_epoch,
        partitions=partitions,
    )


def _codes_of(written: MarkersWritten) -> dict[TopicPartition, ErrorCode]:
    """What a leader answered; nothing, if it did not."""
    if isinstance(written.outcome.error, NetworkError):
        return {}
    try:
        response = unpack(written.outcome.get())
    except MalformedMessage:
        return {}
    markers = response.markers if isinstance(response, WriteTxnMarkersResponse) else ()
    return {each.partition: each.error_code for marker in markers for each in marker.partitions}
