"""A follower's line to one leader.

Rule: one request is under way at a time (B145). A partition is asked for at the position that the
replica manager last gave, under the leader epoch that it gave; what comes back is handed to the
replica manager, who owns the logs and answers with new positions. What the leader fences is given
up until the controller speaks again (B152); what fails for other reasons waits a while, and the
others go on without it (B156).

                 the epoch's end is asked for             records are asked for
    TRUNCATING ──────────────────────────────► FETCHING ◄──────────────────────┐
                                                  │ offset out of range        │
                                                  └──────► LOST ───────────────┘
                                                 the leader's start and end are asked for
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from actors.broker.fetching import (
    Advanced,
    Fetched,
    FetchState,
    Follow,
    LeaderSpan,
    Position,
    Unfollow,
)
from actors.broker.quota import ReplicationQuota
from actors.broker.session import Session
from actors.config import BrokerConfig
from runtime.actor import Actor
from runtime.network import NetworkError
from runtime.ref import Outcome, Receiver
from runtime.world import World
from wire.codec import encode
from wire.data import (
    EARLIEST_TIMESTAMP_MS,
    LATEST_TIMESTAMP_MS,
    FetchPartition,
    FetchResponse,
    FetchResult,
    ListOffsets,
    ListOffsetsPartition,
    ListOffsetsResponse,
    OffsetForLeaderEpoch,
    OffsetForLeaderEpochPartition,
    OffsetForLeaderEpochResponse,
)
from wire.errors import ErrorCode, MalformedMessage
from wire.ids import NO_LEADER_EPOCH, BrokerId, LeaderEpoch, TopicPartition
from wire.message import Message
from wire.parted import Payload, unpack_as
from wire.trace import FollowerFailed, FrameRefused


@dataclass(frozen=True)
class _Ended:
    """A request is over."""

    kind: type[Message]
    asked: Mapping[TopicPartition, Position]
    outcome: Outcome


@dataclass(frozen=True)
class _Again:
    """These have waited long enough."""

    partitions: tuple[tuple[TopicPartition, Position], ...]
    is_throttled: bool = False


@dataclass(frozen=True)
class _Rested:
    """The leader was left alone for long enough."""


FetcherMessage = Follow | Unfollow | Advanced | _Ended | _Again | _Rested
FENCED: Final = frozenset({ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.INCONSISTENT_TOPIC_ID})
NO_FETCH_SESSION: Final = frozenset(
    {ErrorCode.FETCH_SESSION_ID_NOT_FOUND, ErrorCode.INVALID_FETCH_SESSION_EPOCH}
)


class Fetcher(Actor):
    """Fetches from one leader."""

    def __init__(
        self,
        world: World,
        config: BrokerConfig,
        leader: str,
        replica_manager: Receiver,
        quota: ReplicationQuota,
    ) -> None:
        super().__init__()
        self._world = world
        self._config = config
        self._me = BrokerId(config.broker_id)
        self._leader = leader
        self._replica_manager = replica_manager
        self._quota = quota  # one for all fetchers of a broker
        self._is_fencing = config.replication_generation == "kip-320"
        self._positions: dict[TopicPartition, Position] = {}
        self._truncating: dict[TopicPartition, None] = {}
        self._lost: dict[TopicPartition, None] = {}
        self._delayed: dict[TopicPartition, Position] = {}
        self._session = Session(config)
        self._is_busy = False  # a request is under way, or the replica manager has its answer
        self._is_resting = False  # nobody answers there, and it is asked again after a while

    async def on_receive(self, message: FetcherMessage) -> None:
        """One message at a time."""
        match message:
            case Follow():
                self._is_resting = False  # it leads, so it lives
                for partition, position in message.positions.items():
                    self._put(partition, position)
            case Unfollow():
                for partition in message.partitions:
                    self._drop(partition)
            case Advanced():
                self._is_busy = False
                self._on_advanced(message)
            case _Ended():
                self._on_ended(message)
            case _Again():
                self._on_again(message)
            case _Rested():
                self._is_resting = False
        self._ask()

    # --- which partition needs what ---------------------------------------------------------------

    def _put(self, partition: TopicPartition, position: Position) -> None:
        known = self._positions.get(partition)
        if known is not None and not (known.state is position.state is FetchState.FETCHING):
            self._drop(partition)
        if self._delayed:
            self._delayed.pop(partition, None)
        self._positions[partition] = position
        match position.state:
            case FetchState.TRUNCATING:
                self._truncating[partition] = None
            case FetchState.LOST:
                self._lost[partition] = None
            case FetchState.FETCHING:
                self._session.want(self._wanted(partition, position))

    def _drop(self, partition: TopicPartition) -> None:
        if self._positions.pop(partition, None) is not None:
            self._truncating.pop(partition, None)
            self._lost.pop(partition, None)
            self._session.forget(partition)
        self._delayed.pop(partition, None)

    def _wanted(self, partition: TopicPartition, position: Position) -> FetchPartition:
        fencing = self._is_fencing
        return FetchPartition(
            partition=partition,
            fetch_offset=position.offset,
            max_bytes=self._config.replica_fetch_max_bytes,
            current_leader_epoch=position.leader_epoch if fencing else NO_LEADER_EPOCH,
            last_fetched_epoch=position.last_epoch if fencing else NO_LEADER_EPOCH,
            log_start_offset=position.log_start_offset,
        )

    def _delay(self, partitions: Iterable[TopicPartition], *, is_throttled: bool = False) -> None:
        """Leave these out for a while (B146)."""
        delayed = []
        for partition in partitions:
            position = self._positions.get(partition)
            if position is not None:
                self._drop(partition)
                self._delayed[partition] = position
                delayed.append((partition, position))
        if delayed:
            config = self._config
            while_ms = (
                config.replica_fetch_wait_max_ms
                if is_throttled
                else config.replica_fetch_backoff_ms
            )
            self.after(while_ms, _Again(tuple(delayed), is_throttled))

    def _on_again(self, again: _Again) -> None:
        waiting = [each for each in again.partitions if self._delayed.get(each[0]) is each[1]]
        for partition, position in waiting:
            self._put(partition, position)
        if again.is_throttled and self._quota.is_exceeded(self._world.clock.elapsed_ms()):
            self._delay([partition for partition, _ in waiting], is_throttled=True)

    def _end(self, partition: TopicPartition, position: Position, code: ErrorCode) -> None:
        self._drop(partition)
        self._world.trace(
            FollowerFailed(partition.topic, partition.partition, position.leader_epoch, code.name)
        )

    def _on_advanced(self, advanced: Advanced) -> None:
        for partition, position in advanced.positions.items():
            known = self._positions.get(partition)
            # The controller may have spoken since: its word is the newer one (B153).
            if known is not None and known.leader_epoch == position.leader_epoch:
                self._put(partition, position)
        self._delay(advanced.failed)
        self._delay(advanced.throttled, is_throttled=True)
        for partition in advanced.ended:
            self._drop(partition)

    # --- asking -----------------------------------------------------------------------------------

    def _ask(self) -> None:
        """Send what is needed next, if nothing is under way."""
        if self._is_busy or self._is_resting:
            return
        if self._truncating:
            self._send(self._epoch_request(), self._truncating)
        elif self._lost:
            self._send(self._span_request(), self._lost)
        elif self._session.wanted:
            self._send(self._session.request(), ())

    def _send(self, request: Message, partitions: Iterable[TopicPartition]) -> None:
        self._is_busy = True
        kind = type(request)
        asked = {each: self._positions[each] for each in partitions}
        call = self._world.network.call(
            self._leader,
            encode(request),
            timeout_ms=self._config.replica_socket_timeout_ms,
            label=kind.__name__,
        )
        self.pipe(call, lambda outcome: _Ended(kind, asked, outcome))

    def _epoch_request(self) -> OffsetForLeaderEpoch:
        return OffsetForLeaderEpoch(
            replica_id=self._me,
            partitions=tuple(
                OffsetForLeaderEpochPartition(
                    partition=each,
                    leader_epoch=self._positions[each].last_epoch,
                    current_leader_epoch=self._epoch(each),
                )
                for each in self._truncating
            ),
        )

    def _span_request(self) -> ListOffsets:
        """Both ends of the leader's log, for each partition one after the other."""
        return ListOffsets(
            replica_id=self._me,
            partitions=tuple(
                ListOffsetsPartition(
                    partition=each, timestamp_ms=end, current_leader_epoch=self._epoch(each)
                )
                for each in self._lost
                for end in (EARLIEST_TIMESTAMP_MS, LATEST_TIMESTAMP_MS)
            ),
        )

    def _epoch(self, partition: TopicPartition) -> LeaderEpoch:
        return self._positions[partition].leader_epoch if self._is_fencing else NO_LEADER_EPOCH

    # --- hearing ----------------------------------------------------------------------------------

    def _on_ended(self, ended: _Ended) -> None:
        self._is_busy = False
        if isinstance(ended.outcome.error, NetworkError):
            self._rest()
            return
        try:
            found = self._found(ended, ended.outcome.get())
        except MalformedMessage as error:
            self._world.trace(FrameRefused(self._leader, str(error)))
            self._rest()
            return
        if found:
            self._is_busy = True  # until the replica manager has said Advanced
            self._replica_manager.tell(Fetched(self.ref, tuple(found)))

    def _rest(self) -> None:
        """Nobody answered: leave the leader alone for a while; then begin a new session."""
        self._session.reset()
        self._is_resting = True
        self.after(self._config.replica_fetch_backoff_ms, _Rested())

    def _found(self, ended: _Ended, payload: Payload) -> list[tuple[Position, Any]]:
        if ended.kind is OffsetForLeaderEpoch:
            answer = unpack_as(OffsetForLeaderEpochResponse, payload)
            return self._sound(ended.asked, answer.partitions)
        if ended.kind is ListOffsets:
            return self._spans(ended.asked, unpack_as(ListOffsetsResponse, payload))
        return self._on_fetched(unpack_as(FetchResponse, payload))

    def _on_fetched(self, response: FetchResponse) -> list[tuple[Position, Any]]:
        if response.error_code in NO_FETCH_SESSION:
            self._session.reset()  # the next request begins another, with all partitions
            return []
        if response.error_code is not ErrorCode.NONE:
            self._rest()
            return []
        self._session.answered(response.session_id)
        asked = {
            result.partition: position
            for result in response.partitions
            if (position := self._session.asked_at(result.partition)) is not None
        }
        return self._sound(self._current(asked), response.partitions)

    def _current(
        self, asked: Mapping[TopicPartition, FetchPartition]
    ) -> dict[TopicPartition, Position]:
        """Those that still stand where they stood when they were asked for (B153)."""
        return {
            partition: position
            for partition, wanted in asked.items()
            if (position := self._positions.get(partition)) is not None
            and self._session.wanted.get(partition) is wanted
        }

    def _sound(
        self, asked: Mapping[TopicPartition, Position], results: Iterable[Any]
    ) -> list[tuple[Position, Any]]:
        """The results without errors; those with one are dealt with here."""
        found = []
        later = []
        for result in results:
            partition, code = result.partition, result.error_code
            position = asked.get(partition)
            if position is None or self._positions.get(partition) is not position:
                continue
            if code is ErrorCode.NONE:
                found.append((position, result))
            elif code is ErrorCode.OFFSET_OUT_OF_RANGE and isinstance(result, FetchResult):
                self._put(partition, _in_state(position, FetchState.LOST))
            elif code in FENCED:
                self._end(partition, position, code)
            else:
                later.append(partition)
        self._delay(later)
        return found

    def _spans(
        self, asked: Mapping[TopicPartition, Position], response: ListOffsetsResponse
    ) -> list[tuple[Position, Any]]:
        first = {}
        found: list[tuple[Position, Any]] = []
        for position, result in self._sound(asked, response.partitions):
            partition = result.partition
            if partition not in first:
                first[partition] = result.offset
            else:
                found.append((position, LeaderSpan(partition, first[partition], result.offset)))
        return found


def _in_state(position: Position, state: FetchState) -> Position:
    return Position(
        position.leader_epoch,
        position.offset,
        position.last_epoch,
        position.log_start_offset,
        state,
    )
