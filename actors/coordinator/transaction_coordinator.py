"""Who producers are, and what becomes of their transactions: Kafka's TransactionCoordinator.

Rule: a transactional id is coordinated by the leader of its partition of __transaction_state, once
it has read that partition. What is decided is in the log before anybody is told, and is carried out
whoever coordinates by then. Every request is answered once.
"""

from collections.abc import Callable
from functools import partial
from typing import assert_never

from actors.administration.auto_topics import OFFSETS_TOPIC
from actors.asked import Asked, refusal
from actors.broker.local import LeadershipChanged
from actors.broker.metadata import AwaitMetadata, MetadataCache
from actors.config import BrokerConfig
from actors.coordinator import transaction_rules as rules
from actors.coordinator.finding import CountDue, Counted, Finding, Found
from actors.coordinator.naming import Naming
from actors.coordinator.offsets import partition_for
from actors.coordinator.transaction_aging import Aging
from actors.coordinator.transaction_ending import Ending
from actors.coordinator.transaction_events import (
    BlockTaken,
    IdExpiryDue,
    LeadersFound,
    MarkersDue,
    MarkersWritten,
    OffsetsTopicRead,
    PartitionsKnown,
    TimeoutsDue,
    TopicsRead,
    TransactionAppended,
    TransactionMessage,
    TransactionsRead,
    TransactionsReadDue,
)
from actors.coordinator.transaction_log import TransactionLog
from actors.coordinator.transaction_queries import describe_transactions, list_transactions
from actors.coordinator.transaction_shards import (
    TransactionShard,
    TransactionShards,
    check_transactional_id,
)
from actors.coordinator.transaction_states import (
    EMPTY,
    IS_ENDING,
    ONGOING,
    ConcurrentTransactions,
    Transaction,
)
from runtime.actor import Actor
from runtime.keeper import KeeperError, NoNode, ZNode
from runtime.ref import InboxFull, Outcome, Receiver
from runtime.world import World
from wire.errors import (
    ApiError,
    CoordinatorNotAvailable,
    ErrorCode,
    InvalidRequest,
    MalformedZNode,
    exception_of,
)
from wire.groups import FindCoordinator
from wire.ids import BrokerId, ProducerEpoch, ProducerId, TopicPartition
from wire.message import PartitionResult
from wire.transactions import (
    AddOffsetsToTxn,
    AddOffsetsToTxnResponse,
    AddPartitionsToTxn,
    AddPartitionsToTxnResponse,
    DescribeTransactions,
    EndTxn,
    EndTxnResponse,
    InitProducerId,
    InitProducerIdResponse,
    ListTransactions,
)
from wire.znodes import TopicZNode


class TransactionCoordinator(Actor):
    """Owns this broker's producer ids, and the transactional ids that it coordinates."""

    def __init__(
        self,
        world: World,
        config: BrokerConfig,
        replica_manager: Receiver,
        create_topic: Callable[[], None],
        name_of: Callable[[BrokerId], str],
    ) -> None:
        super().__init__()
        self._world = world
        self._config = config
        self._replica_manager = replica_manager
        self._naming = Naming(world, BrokerId(config.broker_id), self.pipe)
        self._shards = TransactionShards()
        tell, after = self.ref.tell, self.after
        self._finding = Finding(
            world,
            self._shards,
            replica_manager,
            create_topic,
            tell=tell,
            after=after,
            pipe=self.pipe,
        )
        self._log = TransactionLog(
            world, config, self._shards, replica_manager, tell=tell, after=after
        )
        self._ending = Ending(
            world,
            self._shards,
            self._log,
            replica_manager,
            name_of,
            tell=tell,
            after=after,
            pipe=self.pipe,
        )

        self._aging = Aging(world, config, self._shards, self._log, self._ending, after)

    async def on_receive(self, message: TransactionMessage) -> None:  # noqa: C901, PLR0912 - a table
        """One message at a time."""
        match message:
            case Asked():
                self._on_asked(message)
            case BlockTaken():
                self._naming.on_block_taken(message.outcome)
            case LeadershipChanged():
                self._on_leadership_changed(message)
            case Counted():
                self._finding.on_counted(message)
            case CountDue():
                self._finding.count()
            case Found():
                self._finding.on_found(message)
            case TransactionsRead():
                if self._log.on_read(message):
                    self._on_loaded(message.shard)
            case TransactionsReadDue():
                self._log.read(message.shard)
            case TransactionAppended():
                self._log.on_appended(message)
            case OffsetsTopicRead():
                self._on_offsets_topic_read(message)
            case PartitionsKnown():
                self._on_partitions_known(message)
            case LeadersFound():
                self._ending.on_leaders(message)
            case MarkersWritten():
                self._ending.on_written(message)
            case TopicsRead():
                self._ending.on_topics(message)
            case MarkersDue():
                self._ending.go_on(message.shard, message.transaction)
            case TimeoutsDue():
                self._aging.abort_late()
            case IdExpiryDue():
                self._aging.forget_old()
            case _:
                assert_never(message)

    def _on_asked(self, asked: Asked) -> None:
        """Nothing is raised after a request has been passed on."""
        request = asked.request
        try:
            match request:
                case InitProducerId(transactional_id=None):
                    self._naming.give(asked, partial(_answer_named, asked, ProducerEpoch(0)))
                case InitProducerId():
                    self._init(asked, request)
                case FindCoordinator():
                    check_transactional_id(request.key)
                    self._finding.find(asked, request.key)
                case AddPartitionsToTxn():
                    self._look_for_partitions(asked, request)
                case AddOffsetsToTxn():
                    self._add_offsets(asked, request)
                case EndTxn():
                    self._end(asked, request)
                case DescribeTransactions():
                    asked.answer(describe_transactions(self._shards, request))
                case ListTransactions():
                    asked.answer(list_transactions(self._shards, request))
                case _:
                    raise InvalidRequest(f"{type(request).__name__} is not for a coordinator.")
        except ApiError as error:
            asked.answer(refusal(request, error))

    # --- InitProducerId ---------------------------------------------------------------------------

    def _init(self, asked: Asked, request: InitProducerId) -> None:
        name, timeout_ms = request.transactional_id or "", request.transaction_timeout_ms
        shard = self._shards.of(name)
        if not 0 < timeout_ms <= self._config.transaction_max_timeout_ms:
            code = ErrorCode.INVALID_TRANSACTION_TIMEOUT
            raise exception_of(code)(f"a transaction may not take {timeout_ms} ms")
        known = shard.transactions.get(name)
        if known is None:
            self._naming.give(asked, partial(self._begin_id, asked, request))
            return
        rules.check_expected(known, request.producer_id, request.producer_epoch)
        if known.pending is not None or known.state in IS_ENDING:
            raise ConcurrentTransactions(f"{name} is {known.state.words}")
        if known.state is ONGOING:
            self._aging.fence(shard, known)
            raise ConcurrentTransactions(f"{name} had a transaction open, which is aborted")
        if known.state is EMPTY and rules.is_retry(known, request.producer_epoch):
            _answer_named(asked, known.value.producer_epoch, known.value.producer_id)
        elif rules.needs_new_id(known):
            self._naming.give(asked, partial(self._write_init, asked, request, shard, known))
        else:
            self._write_init(asked, request, shard, known, None)

    def _begin_id(self, asked: Asked, request: InitProducerId, producer: ProducerId) -> None:
        """Nobody has used this id so far; or somebody has begun to, meanwhile."""
        name, now_ms = request.transactional_id or "", self._world.clock.now_ms()
        shard = self._shards.of(name)
        if name in shard.transactions:
            self._init(asked, request)
            return
        value = rules.new_value(producer, request.transaction_timeout_ms, now_ms)
        known = shard.transactions[name] = Transaction(name, value)
        self._write_init(asked, request, shard, known, None)

    def _write_init(
        self,
        asked: Asked,
        request: InitProducerId,
        shard: TransactionShard,
        known: Transaction,
        new_id: ProducerId | None,
    ) -> None:
        now_ms, timeout_ms = self._world.clock.now_ms(), request.transaction_timeout_ms
        value = rules.initialised(known, timeout_ms, now_ms, new_id)

        def finish(code: ErrorCode) -> None:
            if code is ErrorCode.NONE:
                known.last_epoch = request.producer_epoch
                _answer_named(asked, value.producer_epoch, value.producer_id)
            else:
                asked.answer(InitProducerIdResponse(error_code=code))

        self._log.write(shard, known, value, EMPTY, finish)

    # --- what is in a transaction -----------------------------------------------------------------

    def _look_for_partitions(self, asked: Asked, request: AddPartitionsToTxn) -> None:
        """As KafkaApis: ask first whether there are such partitions."""
        self._shards.of(request.transactional_id)
        unknown: set[TopicPartition] = set()

        def look(cache: MetadataCache) -> bool:
            unknown.update(each for each in request.partitions if cache.partition(each) is None)
            return True

        def done(_: bool) -> None:
            self.ref.tell(PartitionsKnown(asked, frozenset(unknown)))

        try:
            self._replica_manager.tell(AwaitMetadata(look, 0, done))
        except InboxFull:
            raise CoordinatorNotAvailable("This broker has too much to do.") from None

    def _on_partitions_known(self, known: PartitionsKnown) -> None:
        """All of them are added, or none."""
        asked, request = known.asked, known.asked.request
        assert isinstance(request, AddPartitionsToTxn)

        def answer(code: ErrorCode) -> None:
            results = tuple(PartitionResult(each, code) for each in request.partitions)
            asked.answer(AddPartitionsToTxnResponse(partitions=results))

        if known.unknown:
            not_known, untried = (
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                ErrorCode.OPERATION_NOT_ATTEMPTED,
            )
            codes = dict.fromkeys(known.unknown, not_known)
            results = tuple(
                PartitionResult(each, codes.get(each, untried)) for each in request.partitions
            )
            asked.answer(AddPartitionsToTxnResponse(partitions=results))
            return
        try:
            self._add(request, request.partitions, answer)
        except ApiError as error:
            asked.answer(refusal(request, error))

    def _add_offsets(self, asked: Asked, request: AddOffsetsToTxn) -> None:
        """Which partition the group is in, its topic's znode says."""
        self._shards.of(request.transactional_id)
        if not request.group_id:
            raise exception_of(ErrorCode.INVALID_GROUP_ID)("The group's name is empty.")
        reading = self._world.keeper.get(TopicZNode.path(OFFSETS_TOPIC))
        self.pipe(reading, partial(OffsetsTopicRead, asked))

    def _on_offsets_topic_read(self, read: OffsetsTopicRead) -> None:
        asked, request = read.asked, read.asked.request
        assert isinstance(request, AddOffsetsToTxn)
        try:
            count = self._config.offsets_topic_num_partitions
            partition = _partition_of(request.group_id, read.outcome, count)
            answer = asked.answer
            self._add(
                request,
                (partition,),
                lambda code: answer(AddOffsetsToTxnResponse(error_code=code)),
            )
        except ApiError as error:
            asked.answer(refusal(request, error))

    def _add(
        self,
        request: AddPartitionsToTxn | AddOffsetsToTxn,
        partitions: tuple[TopicPartition, ...],
        answer: Callable[[ErrorCode], None],
    ) -> None:
        shard = self._shards.of(request.transactional_id)
        known = shard.transactions.get(request.transactional_id)
        rules.check_producer(known, request.producer_id, request.producer_epoch)
        assert known is not None
        value = rules.added(known, partitions, self._world.clock.now_ms())
        if value is None:
            answer(ErrorCode.NONE)
        else:
            self._log.write(shard, known, value, ONGOING, answer)

    # --- its end ----------------------------------------------------------------------------------

    def _end(self, asked: Asked, request: EndTxn) -> None:
        shard = self._shards.of(request.transactional_id)
        known = shard.transactions.get(request.transactional_id)
        rules.check_producer(known, request.producer_id, request.producer_epoch)
        assert known is not None
        value = rules.ended(known, request.is_committed, self._world.clock.now_ms())
        if value is None:
            asked.answer(EndTxnResponse())
            return

        def finish(code: ErrorCode) -> None:
            asked.answer(EndTxnResponse(error_code=code))
            self._ending.go_on(shard, known)

        self._log.write(shard, known, value, value.state, finish)

    # --- who coordinates --------------------------------------------------------------------------

    def _on_leadership_changed(self, change: LeadershipChanged) -> None:
        shard = self._shards.change(change)
        if shard is not None:
            self._finding.count()
            self._log.read(shard)
            self._aging.begin()

    def _on_loaded(self, shard: TransactionShard) -> None:
        """What was decided before is carried out."""
        for known in shard.transactions.values():
            if known.state in IS_ENDING:
                known.unmarked = set(known.value.partitions)
                self._ending.go_on(shard, known)


def _answer_named(asked: Asked, epoch: ProducerEpoch, producer: ProducerId) -> None:
    asked.answer(InitProducerIdResponse(producer_id=producer, producer_epoch=epoch))


def _partition_of(group: str, outcome: Outcome, count: int) -> TopicPartition:
    """The group's partition of __consumer_offsets; as it will be, if there is none yet."""
    try:
        znode: ZNode = outcome.get()
        count = len(TopicZNode.decode(OFFSETS_TOPIC, znode.data).partitions) or count
    except NoNode:
        pass  # as GroupMetadataManager: whoever looks for the group's coordinator makes it
    except (KeeperError, MalformedZNode) as error:
        raise CoordinatorNotAvailable(f"{OFFSETS_TOPIC} cannot be looked up: {error}") from error
    return TopicPartition(OFFSETS_TOPIC, partition_for(group, count))
