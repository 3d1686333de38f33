"""Who reads here: followers in their sessions, consumers in single fetches that may wait.

Rule: a reader is looked at when something it reads has changed, and only there; what has not
changed costs nothing, however many partitions a follower follows. A session's requests are
numbered, and one that is not the next is refused, so that both sides mean the same partitions
(KIP-227). Every fetch is answered once.
"""

from collections.abc import Iterator
from typing import Final, NamedTuple

from actors.asked import Asked
from actors.broker.replica import Line
from runtime.ref import Timer
from runtime.world import World
from wire.data import (
    FINAL_SESSION_EPOCH,
    INITIAL_SESSION_EPOCH,
    NO_SESSION,
    Fetch,
    FetchPartition,
    FetchResponse,
    IsolationLevel,
)
from wire.errors import ErrorCode, exception_of
from wire.ids import Offset, TopicPartition

MAX_SESSIONS: Final = 1_000  # as max.incremental.fetch.session.cache.slots
IDLE_MS: Final = 120_000  # as min.incremental.fetch.session.eviction.ms
MAX_SESSION_ID: Final = 2**31 - 1
UnknownFetchSession: Final = exception_of(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
WrongFetchSessionEpoch: Final = exception_of(ErrorCode.INVALID_FETCH_SESSION_EPOCH)


class Told(NamedTuple):
    """What a session's other side was last told of a partition besides records."""

    high_watermark: Offset
    log_start_offset: Offset


class Pending(NamedTuple):
    """A fetch that waits for records."""

    asked: Asked
    request: Fetch
    timer: Timer


class Reader:
    """One who reads: what it wants, and where something may have changed since it was answered."""

    __slots__ = (
        "changed",
        "epoch",
        "is_due",
        "is_read_committed",
        "line",
        "pending",
        "replica_id",
        "session_id",
        "told",
        "wanted",
    )

    def __init__(self, request: Fetch, session_id: int = NO_SESSION) -> None:
        self.replica_id = request.replica_id
        is_read_committed = request.isolation_level is IsolationLevel.READ_COMMITTED
        self.is_read_committed = is_read_committed and not self.is_follower
        self.session_id = session_id
        self.epoch = 1  # of the next request
        self.line = Line()
        self.wanted: dict[TopicPartition, FetchPartition] = {}
        self.changed: dict[TopicPartition, None] = {}
        self.told: dict[TopicPartition, Told] = {}
        self.pending: Pending | None = None
        self.is_due = False  # answer at the next look, however little there is

    @property
    def is_follower(self) -> bool:
        """Whether it reads to replicate."""
        return self.replica_id >= 0


class Readers:
    """All readers of a broker, by what they read."""

    def __init__(self, world: World) -> None:
        self._random = world.random
        self._sessions: dict[int, Reader] = {}
        self._of: dict[TopicPartition, dict[Reader, None]] = {}

    def __len__(self) -> int:
        return len(self._sessions)

    @property
    def waiting(self) -> int:
        """How many fetches wait for their answer."""
        everyone = {reader for readers in self._of.values() for reader in readers}
        return sum(reader.pending is not None for reader in everyone)

    @property
    def waiting_clients(self) -> int:
        """The same without followers, who always wait for more."""
        everyone = {reader for readers in self._of.values() for reader in readers}
        return sum(reader.pending is not None and not reader.is_follower for reader in everyone)

    def reader_for(self, request: Fetch, now_ms: float) -> Reader:
        """Whose request this is: a session's, a new session's, or that of a single fetch."""
        if request.session_epoch == FINAL_SESSION_EPOCH or request.replica_id < 0:
            return self._single(request)
        if request.session_epoch == INITIAL_SESSION_EPOCH:
            return self._begin(request, now_ms)
        number = request.session_id
        reader = self._sessions.get(number)
        if reader is None or reader.replica_id != request.replica_id:
            raise UnknownFetchSession(f"there is no session {number} of {request.replica_id}")
        if request.session_epoch != reader.epoch:
            raise WrongFetchSessionEpoch(
                f"session {number} is at epoch {reader.epoch}, not {request.session_epoch}"
            )
        reader.epoch += 1
        return reader

    def take(self, reader: Reader, request: Fetch) -> None:
        """Note what the request changes about what is wanted."""
        for partition in request.forgotten:
            self._forget(reader, partition)
        for wanted in request.partitions:
            partition = wanted.partition
            reader.wanted[partition] = wanted
            reader.changed[partition] = None
            if reader.session_id != NO_SESSION:
                self._of.setdefault(partition, {})[reader] = None

    def wait(self, reader: Reader, pending: Pending) -> None:
        """The reader's fetch is answered later; a single one now listens, too."""
        reader.pending = pending
        if reader.session_id == NO_SESSION:
            for partition in reader.wanted:
                self._of.setdefault(partition, {})[reader] = None

    def finish(self, reader: Reader) -> Pending | None:
        """Its fetch is being answered."""
        pending, reader.pending = reader.pending, None
        if pending is not None:
            pending.timer.cancel()
            if reader.session_id == NO_SESSION:
                self._drop(reader)
        return pending

    def changed(self, partition: TopicPartition) -> Iterator[Reader]:
        """Note that a partition has changed; the readers whose fetches wait."""
        for reader in tuple(self._of.get(partition, ())):
            reader.changed[partition] = None
            if reader.pending is not None:
                yield reader

    # --------------------------------------------------------------------------------------------

    def _single(self, request: Fetch) -> Reader:
        self._end_former(request)
        return Reader(request)

    def _begin(self, request: Fetch, now_ms: float) -> Reader:
        self._end_former(request)
        self._end_others(request)
        for idle in [each for each in self._sessions.values() if _is_idle(each, now_ms)]:
            self._end(idle)
        if len(self._sessions) >= MAX_SESSIONS:
            return Reader(request)  # as Kafka: without a session it works as well
        number = self._random.randint(1, MAX_SESSION_ID)
        while number in self._sessions:
            number = self._random.randint(1, MAX_SESSION_ID)
        self._sessions[number] = reader = Reader(request, number)
        return reader

    def _end_former(self, request: Fetch) -> None:
        former = self._sessions.get(request.session_id)
        if former is not None and former.replica_id == request.replica_id:
            self._end(former)

    def _end_others(self, request: Fetch) -> None:
        """A follower reads a partition in one session: what it says there is all that counts.

        The other one is of its former life; or this request is old and was repeated on its way, and
        the follower will have to begin again, for what it said meanwhile is no longer known.
        """
        for wanted in request.partitions:
            for reader in tuple(self._of.get(wanted.partition, ())):
                if reader.replica_id == request.replica_id and reader.session_id != NO_SESSION:
                    self._end(reader)

    def _end(self, reader: Reader) -> None:
        del self._sessions[reader.session_id]
        self._drop(reader)
        pending = self.finish(reader)
        if pending is not None:  # nobody would look at it again, nor for how long it waits
            pending.asked.answer(FetchResponse(error_code=UnknownFetchSession.code))

    def _drop(self, reader: Reader) -> None:
        for partition in reader.wanted:
            self._ignore(reader, partition)

    def _forget(self, reader: Reader, partition: TopicPartition) -> None:
        reader.wanted.pop(partition, None)
        reader.changed.pop(partition, None)
        reader.told.pop(partition, None)
        self._ignore(reader, partition)

    def _ignore(self, reader: Reader, partition: TopicPartition) -> None:
        readers = self._of.get(partition)
        if readers is not None:
            readers.pop(reader, None)
            if not readers:
                del self._of[partition]


def _is_idle(reader: Reader, now_ms: float) -> bool:
    return reader.pending is None and now_ms - reader.line.asked_ms > IDLE_MS
