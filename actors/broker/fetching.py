"""What passes between a fetcher and the replica manager that owns the logs.

Rule: a position is a fact about a log in one leader epoch; only the replica manager makes one.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

from msgspec import Struct

from runtime.ref import Ref
from wire.ids import NO_LEADER_EPOCH, LeaderEpoch, Offset, TopicPartition


class FetchState(Enum):
    """What a partition needs next (B146)."""

    TRUNCATING = "Truncating"
    FETCHING = "Fetching"
    LOST = "Lost"  # its offset is not in the leader's log


class Position(Struct, frozen=True, gc=False):
    """Where a follower's log stands, in which epoch of which leader."""

    leader_epoch: LeaderEpoch
    offset: Offset
    last_epoch: LeaderEpoch = NO_LEADER_EPOCH  # of the record before
    log_start_offset: Offset = Offset(0)
    state: FetchState = FetchState.FETCHING


@dataclass(frozen=True)
class Follow:
    """Replica manager → fetcher: follow these from here on."""

    positions: Mapping[TopicPartition, Position]


@dataclass(frozen=True)
class Unfollow:
    """Replica manager → fetcher: no longer follow these."""

    partitions: frozenset[TopicPartition]


@dataclass(frozen=True)
class Fetched:
    """Fetcher → replica manager: this came back for what was asked at these positions."""

    fetcher: Ref
    found: tuple[tuple[Position, Any], ...]  # FetchResult, or what one of the others answers


@dataclass(frozen=True)
class Advanced:
    """Replica manager → fetcher: how `found` went; what is not named stands where it stood."""

    positions: Mapping[TopicPartition, Position]
    failed: tuple[TopicPartition, ...] = ()  # to be tried again after a while
    ended: tuple[TopicPartition, ...] = ()  # given up until the controller speaks again
    throttled: tuple[TopicPartition, ...] = ()  # to be tried again when the quota allows (B167)


@dataclass(frozen=True)
class LeaderSpan:
    """What a leader's log holds."""

    partition: TopicPartition
    log_start_offset: Offset
    log_end_offset: Offset
