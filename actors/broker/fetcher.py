"""A follower's line to one leader.

Rule: every partition that is followed is asked for at its leader under the leader epoch that the
controller told; what the leader fences is given up until the controller speaks again (B152), all
else is asked for again after a while. While replicas hold no records one answer says all: the
follower has what the leader has, and the leader may count it as in sync.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from runtime.actor import Actor
from runtime.network import NetworkError
from runtime.ref import Outcome
from runtime.world import World
from wire.codec import decode_as, encode
from wire.data import Fetch, FetchPartition, FetchResponse
from wire.errors import ErrorCode, MalformedMessage
from wire.ids import BrokerId, LeaderEpoch, Offset, TopicPartition
from wire.trace import FrameRefused

BACKOFF_MS: Final = 1_000  # as replica.fetch.backoff.ms
TIMEOUT_MS: Final = 30_000  # as replica.socket.timeout.ms
MAX_BYTES: Final = 10 * 1024 * 1024  # as replica.fetch.response.max.bytes


@dataclass(frozen=True)
class Follow:
    """Replica manager → fetcher: follow these, each in its leader epoch."""

    partitions: Mapping[TopicPartition, LeaderEpoch]


@dataclass(frozen=True)
class Unfollow:
    """Replica manager → fetcher: no longer follow these."""

    partitions: frozenset[TopicPartition]


@dataclass(frozen=True)
class _Ended:
    """A fetch is over."""

    asked: Mapping[TopicPartition, LeaderEpoch]
    outcome: Outcome


@dataclass(frozen=True)
class _Again:
    """Time to ask again."""


@dataclass
class _Work:
    due: dict[TopicPartition, LeaderEpoch] = field(default_factory=dict)
    is_under_way: bool = False
    is_delayed: bool = False


FetcherMessage = Follow | Unfollow | _Ended | _Again


class Fetcher(Actor):
    """Fetches from one leader, one request at a time (B145)."""

    def __init__(self, world: World, me: BrokerId, leader: str) -> None:
        super().__init__()
        self._world = world
        self._me = me
        self._leader = leader
        self._work = _Work()

    async def on_receive(self, message: FetcherMessage) -> None:
        """One message at a time."""
        work = self._work
        match message:
            case Follow():
                work.due.update(message.partitions)
                self._fetch()
            case Unfollow():
                for partition in message.partitions:
                    work.due.pop(partition, None)
            case _Ended():
                work.is_under_way = False
                self._on_ended(message)
            case _Again():
                work.is_delayed = False
                self._fetch()

    def _fetch(self) -> None:
        work = self._work
        if not work.due or work.is_under_way or work.is_delayed:
            return
        work.is_under_way = True
        asked = dict(work.due)
        request = Fetch(
            replica_id=self._me,
            max_wait_ms=0,
            min_bytes=0,
            max_bytes=MAX_BYTES,
            partitions=tuple(
                FetchPartition(
                    partition=partition,
                    fetch_offset=Offset(0),
                    max_bytes=MAX_BYTES,
                    current_leader_epoch=epoch,
                )
                for partition, epoch in asked.items()
            ),
        )
        call = self._world.network.call(
            self._leader, encode(request), timeout_ms=TIMEOUT_MS, label="Fetch"
        )
        self.pipe(call, lambda outcome: _Ended(asked, outcome))

    def _on_ended(self, ended: _Ended) -> None:
        if not isinstance(ended.outcome.error, NetworkError):
            self._take(ended.asked, ended.outcome.get())
        if self._work.due:
            if self._work.due.items() <= ended.asked.items():  # all of it was refused
                self._work.is_delayed = True
                self.after(BACKOFF_MS, _Again())
            else:
                self._fetch()

    def _take(self, asked: Mapping[TopicPartition, LeaderEpoch], payload: memoryview) -> None:
        try:
            response = decode_as(FetchResponse, payload)
        except MalformedMessage as error:
            self._world.trace(FrameRefused(self._leader, str(error)))
            return
        due = self._work.due
        for result in response.partitions:
            is_current = due.get(result.partition) == asked.get(result.partition)  # B153
            is_over = result.error_code in {ErrorCode.NONE, ErrorCode.FENCED_LEADER_EPOCH}
            if is_current and is_over:
                due.pop(result.partition, None)
