"""What a broker counts of its own work.

Rule: counted where a message is handled, with additions and nothing else: no timer, no chance, and
nobody decides anything by it. What can be counted when somebody asks is not counted here; Kafka's
names are given in actors/metrics.py.
"""

from collections import Counter
from collections.abc import Sequence
from typing import Final

from actors.controller.metrics import Histogram
from wire.data import Fetch
from wire.errors import ApiError, ErrorCode
from wire.ids import TopicPartition
from wire.message import Message

# As ReplicaManager: what a client has to expect, and deals with, is no failure of the broker.
TO_BE_EXPECTED: Final = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.OFFSET_OUT_OF_RANGE,
        ErrorCode.MESSAGE_TOO_LARGE,
        ErrorCode.RECORD_LIST_TOO_LARGE,
        ErrorCode.CORRUPT_MESSAGE,
        ErrorCode.KAFKA_STORAGE_ERROR,
    }
)
LISTS: Final = ("partitions", "topics", "resources")  # of what a response may have an error each


class RequestMeter:
    """One kind of request: how long each took, and what was wrong with it."""

    __slots__ = ("errors", "total_ms")

    def __init__(self) -> None:
        self.total_ms = Histogram()
        self.errors = Counter[ErrorCode]()


class Meters:
    """The counts of one life of a broker."""

    __slots__ = (
        "_lists",
        "bytes_in",
        "bytes_out",
        "failed_fetches",
        "failed_produces",
        "fetches",
        "isr_expands",
        "isr_shrinks",
        "lags",
        "messages_in",
        "produces",
        "replication_bytes_in",
        "replication_bytes_out",
        "requests",
    )

    def __init__(self) -> None:
        self.messages_in = 0
        self.bytes_in = 0
        self.bytes_out = 0
        self.replication_bytes_in = 0
        self.replication_bytes_out = 0
        self.produces = 0  # these two as Kafka: one for each partition of a request
        self.fetches = 0
        self.failed_produces = 0
        self.failed_fetches = 0
        self.isr_shrinks = 0
        self.isr_expands = 0
        self.requests: dict[str, RequestMeter] = {}
        self.lags: dict[TopicPartition, int] = {}  # of followers that are behind, in records
        self._lists: dict[type[Message], tuple[str, ...]] = {}

    def appended(self, messages: int, size: int) -> None:
        """A leader has taken records of one partition."""
        self.produces += 1
        self.messages_in += messages
        self.bytes_in += size

    def refused(self, error: ApiError) -> None:
        """A leader has not taken records of one partition."""
        self.produces += 1
        if error.code not in TO_BE_EXPECTED:
            self.failed_produces += 1

    def unread(self, error: ApiError) -> None:
        """A partition could not be read."""
        if error.code not in TO_BE_EXPECTED:
            self.failed_fetches += 1

    def sent(self, size: int, *, is_to_follower: bool) -> None:
        """A fetch was answered with so many bytes of records."""
        if is_to_follower:
            self.replication_bytes_out += size
        else:
            self.bytes_out += size

    def followed(self, partition: TopicPartition, size: int, behind: int) -> None:
        """A follower has taken what came; so many committed records it lacks (FetcherLagStats)."""
        self.replication_bytes_in += size
        if behind > 0:
            self.lags[partition] = behind
        elif self.lags:
            self.lags.pop(partition, None)

    def unfollowed(self, partition: TopicPartition) -> None:
        """Nobody here is behind with it any more."""
        self.lags.pop(partition, None)

    def isr_changed(self, before: int, after: int) -> None:
        """A leader's set of replicas in sync has another size."""
        if after < before:
            self.isr_shrinks += 1
        elif after > before:
            self.isr_expands += 1

    def answered(self, request: Message, response: Message, took_ms: float) -> Sequence[ErrorCode]:
        """A request was answered, so many milliseconds after it had come; with these errors."""
        meter = self._of(type(request).__name__)
        meter.total_ms.update(took_ms)
        if isinstance(request, Fetch):  # as RequestMetrics: as what it is, and as whose it is
            whose = "FetchFollower" if request.replica_id >= 0 else "FetchConsumer"
            self._of(whose).total_ms.update(took_ms)
        errors = self._errors_of(response)
        if errors:
            meter.errors.update(errors)
        return errors

    def _of(self, name: str) -> RequestMeter:
        meter = self.requests.get(name)
        if meter is None:
            meter = self.requests[name] = RequestMeter()
        return meter

    def _errors_of(self, response: Message) -> Sequence[ErrorCode]:
        lists = self._lists.get(type(response))
        if lists is None:
            fields = type(response).__struct_fields__
            lists = tuple(each for each in LISTS if each in fields)
            self._lists[type(response)] = lists
        none = ErrorCode.NONE
        of_all = getattr(response, "error_code", none)
        found = [
            code
            for name in lists
            for each in getattr(response, name) or ()
            if (code := getattr(each, "error_code", none)) is not none
        ]
        return found if of_all is none else [of_all, *found]
