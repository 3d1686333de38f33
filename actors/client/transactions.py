"""A producer's transactions: what is in one, and how it ends.

Rule: a partition is told to the coordinator before a record of the transaction goes there. Once
something failed the transaction can only be aborted, and the producer goes on in a new epoch, for
nobody knows what became of the batch; once another producer has the id, nothing can be done at all.
"""

from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from enum import Enum
from typing import Final, TypeVar

from actors.client.answers import by_partition, error_of
from actors.client.config import ProducerConfig
from actors.client.connection import Connection
from actors.client.deadline import Deadline
from actors.client.errors import may_pass
from actors.client.sequences import Sequences
from runtime.tasks import Bell, Tasks
from runtime.world import Clock
from wire.errors import (
    ApiError,
    CoordinatorLoadInProgress,
    ErrorCode,
    MalformedMessage,
    exception_of,
)
from wire.groups import CoordinatorType, FindCoordinator, OffsetCommitPartition
from wire.ids import (
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    BrokerId,
    Offset,
    ProducerEpoch,
    ProducerId,
    TopicPartition,
)
from wire.message import Message, PartitionResult, Request
from wire.transactions import (
    AddOffsetsToTxn,
    AddPartitionsToTxn,
    EndTxn,
    InitProducerId,
    InitProducerIdResponse,
    TxnOffsetCommit,
)

Response = TypeVar("Response", bound=Message)
InvalidTxnState: Final = exception_of(ErrorCode.INVALID_TXN_STATE)
_FATAL: Final = frozenset(
    {
        ErrorCode.PRODUCER_FENCED,
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    }
)


class _State(Enum):
    NEW = "init_transactions was not called"
    READY = "no transaction is open"
    OPEN = "a transaction is open"
    ENDING = "a transaction is ending"


class Transactions:
    """Those of one producer."""

    def __init__(
        self,
        config: ProducerConfig,
        clock: Clock,
        connection: Connection,
        sequences: Sequences,
        tasks: Tasks,
        bell: Bell,
    ) -> None:
        assert config.transactional_id is not None
        self._name = config.transactional_id
        self._config = config
        self._clock = clock
        self._connection = connection
        self._sequences = sequences
        self._tasks = tasks
        self._bell = bell
        self._state = _State.NEW
        self._producer: ProducerId = NO_PRODUCER_ID
        self._epoch: ProducerEpoch = NO_PRODUCER_EPOCH
        self._partitions: set[TopicPartition] = set()  # that the coordinator knows of
        self._is_adding = False
        self._retry_at_ms = 0.0
        self._has_offsets = False
        self._coordinators: dict[tuple[CoordinatorType, str], BrokerId] = {}
        self.failure: Exception | None = None  # why the open transaction can only be aborted
        self.end: ApiError | None = None  # why there will be none any more

    # --- what a program asks for ------------------------------------------------------------------

    async def init(self, deadline: Deadline) -> None:
        """Take the transactional id over: whoever had it before is fenced."""
        self._check(_State.NEW)
        await self._be_named(deadline)
        self._state = _State.READY

    def begin(self) -> None:
        """From now on records belong to a transaction."""
        self._check(_State.READY)
        self._state = _State.OPEN

    def check_begun(self) -> None:
        """There must be something to end."""
        self._check(_State.OPEN)

    def check_open(self) -> None:
        """Records are taken in a transaction only."""
        self._check(_State.OPEN)
        if self.failure is not None:
            raise InvalidTxnState(f"the transaction must be aborted: {self.failure}")

    async def send_offsets(
        self, offsets: Mapping[TopicPartition, int], group: str, deadline: Deadline
    ) -> None:
        """Commit a group's offsets if the transaction commits."""
        self.check_open()
        self._has_offsets = True
        key = (CoordinatorType.TRANSACTION, self._name)
        await self._told(
            key,
            AddOffsetsToTxn(
                transactional_id=self._name,
                producer_id=self._producer,
                producer_epoch=self._epoch,
                group_id=group,
            ),
            lambda response: _raise(response.error_code, "AddOffsetsToTxn"),
            deadline,
        )
        request = TxnOffsetCommit(
            transactional_id=self._name,
            group_id=group,
            producer_id=self._producer,
            producer_epoch=self._epoch,
            partitions=tuple(
                OffsetCommitPartition(partition=each, committed_offset=Offset(offset))
                for each, offset in sorted(offsets.items())
            ),
        )
        await self._told(
            (CoordinatorType.GROUP, group),
            request,
            lambda response: _raise_first(offsets, response.partitions, "TxnOffsetCommit"),
            deadline,
        )

    async def finish(
        self, is_committed: bool, settle: Callable[[], Awaitable[None]], deadline: Deadline
    ) -> None:
        """End the transaction, once what was sent in it is settled."""
        if is_committed:
            self.check_open()
        else:
            self._check(_State.OPEN)
        await settle()
        if is_committed:
            self.check_open()
        self._state = _State.ENDING
        try:
            if self._partitions or self._has_offsets:
                await self._told(
                    (CoordinatorType.TRANSACTION, self._name),
                    EndTxn(
                        transactional_id=self._name,
                        producer_id=self._producer,
                        producer_epoch=self._epoch,
                        is_committed=is_committed,
                    ),
                    lambda response: _raise(response.error_code, "EndTxn"),
                    deadline,
                )
            if self.failure is not None:
                await self._be_named(deadline)
        except BaseException:
            self._state = _State.OPEN  # what was decided is not known: ask for the same again
            raise
        self._partitions.clear()
        self._has_offsets = False
        self.failure = None
        self._state = _State.READY

    # --- what the sender asks ---------------------------------------------------------------------

    def admit(
        self, ready: Collection[TopicPartition], now_ms: float
    ) -> tuple[list[TopicPartition], float | None]:
        """Those that may be written to; how long until the others are looked at again."""
        known = [each for each in ready if each in self._partitions]
        new = [each for each in ready if each not in self._partitions]
        if not new or self._is_adding or self.failure is not None:
            return known, None
        if now_ms < self._retry_at_ms:
            return known, self._retry_at_ms - now_ms
        self._is_adding = True
        self._tasks.start(self._add(tuple(sorted(new))))
        return known, None

    def broke(self, error: Exception) -> None:
        """A batch of the transaction will not be sent again."""
        self.failure = self.failure or error

    async def _add(self, partitions: tuple[TopicPartition, ...]) -> None:
        request = AddPartitionsToTxn(
            transactional_id=self._name,
            producer_id=self._producer,
            producer_epoch=self._epoch,
            partitions=partitions,
        )
        try:
            await self._once(
                (CoordinatorType.TRANSACTION, self._name),
                request,
                lambda response: _raise_first(
                    partitions, response.partitions, "AddPartitionsToTxn"
                ),
                self._config.request_timeout_ms,
            )
            self._partitions.update(partitions)
        except (ApiError, MalformedMessage) as error:
            if isinstance(error, MalformedMessage) or not may_pass(error.code):
                self.broke(error)
            self._retry_at_ms = self._clock.elapsed_ms() + self._config.retry_backoff_ms
        finally:
            self._is_adding = False
            self._bell.ring()

    # --- asking -----------------------------------------------------------------------------------

    async def _be_named(self, deadline: Deadline) -> None:
        """The first time as one who knows nothing, later as the one who has the id."""

        def named(response: InitProducerIdResponse) -> None:
            _raise(response.error_code, "InitProducerId")
            self._producer, self._epoch = response.producer_id, response.producer_epoch
            self._sequences.name(self._producer, self._epoch)

        request = InitProducerId(
            transactional_id=self._name,
            transaction_timeout_ms=self._config.transaction_timeout_ms,
            producer_id=self._producer,
            producer_epoch=self._epoch,
        )
        await self._told((CoordinatorType.TRANSACTION, self._name), request, named, deadline)

    async def _told(
        self,
        key: tuple[CoordinatorType, str],
        request: Request[Response],
        take: Callable[[Response], None],
        deadline: Deadline,
    ) -> None:
        """Ask until the coordinator has done it, or will not, or the time is over."""
        while True:
            within_ms = min(self._config.request_timeout_ms, deadline.left_ms)
            try:
                await self._once(key, request, take, within_ms)
                return
            except ApiError as error:
                is_late = deadline.left_ms <= self._config.retry_backoff_ms
                if is_late or not may_pass(error.code):
                    raise
            await self._clock.sleep(max(1, self._config.retry_backoff_ms))

    async def _once(
        self,
        key: tuple[CoordinatorType, str],
        request: Request[Response],
        take: Callable[[Response], None],
        within_ms: float,
    ) -> None:
        try:
            coordinator = self._coordinators.get(key)
            if coordinator is None:
                coordinator = self._coordinators[key] = await self._find(*key, within_ms)
            take(await self._connection.call(coordinator, request, within_ms))
        except ApiError as error:
            if error.code in _FATAL:
                self.end = error
            if not isinstance(error, CoordinatorLoadInProgress):
                self._coordinators.pop(key, None)
            raise

    async def _find(self, kind: CoordinatorType, name: str, within_ms: float) -> BrokerId:
        request = FindCoordinator(key=name, key_type=kind)
        response = await self._connection.call_any(request, within_ms)
        if response.error_code is not ErrorCode.NONE:
            self._connection.turn()
        _raise(response.error_code, f"FindCoordinator of {name!r}")
        if response.coordinator is None or response.coordinator.id < 0:
            raise MalformedMessage(f"nobody was answered to coordinate {name!r}")
        return response.coordinator.id

    def _check(self, state: _State) -> None:
        if self.end is not None:
            raise self.end
        if self._state is not state:
            raise InvalidTxnState(f"{self._state.value}, and {state.value} is needed")


def _raise(code: ErrorCode, what: str) -> None:
    if code is not ErrorCode.NONE:
        raise exception_of(code)(f"{what}: {code.name}")


def _raise_first(
    asked: Iterable[TopicPartition], results: Iterable[PartitionResult], what: str
) -> None:
    found = by_partition(list(asked), results, what)
    for _, each in sorted(found.items()):
        if each.error_code is not ErrorCode.NONE:
            raise error_of(each, what)
