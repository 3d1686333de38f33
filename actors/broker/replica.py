"""One replica of a partition on this broker: its log, its high watermark, and what it knows of
the others while it leads.

Rule: the high watermark of a leader is the smallest log end of those that count, and never falls
(B161, I-18); a follower's is what its leader says, within its own log (B157). Nothing here awaits:
what must be durable or told to others is the replica manager's work.

    log start        high watermark                    log end
        |--- consumers read ---|--- followers read, too ---|
"""

from collections.abc import Callable
from typing import Final

from msgspec import Struct

from actors.broker.log.appending import Appended
from actors.broker.log.log import Log
from actors.broker.partition import HostedPartition
from actors.broker.settings import TopicSettings
from wire.ids import NO_LEADER_EPOCH, NO_OFFSET, BrokerId, LeaderEpoch, Offset, TopicPartition
from wire.records import Buffer

ZERO: Final = Offset(0)
LONG_AGO_MS: Final = float("-inf")
OpenLog = Callable[[TopicPartition], Log]


# Of these there are two for each partition that is led, for the garbage collector not to visit.
class Line(Struct, gc=False, eq=False):
    """When a follower's fetcher asked, last and before: one for all partitions that it asks for."""

    asked_before_ms: float = LONG_AGO_MS
    asked_ms: float = LONG_AGO_MS

    def ask(self, now_ms: float) -> None:
        """It asks for all that it asks for, named or not."""
        self.asked_before_ms, self.asked_ms = self.asked_ms, now_ms


NEVER_ASKED: Final = Line()


class Follower(Struct, gc=False, eq=False):
    """What a leader knows of another replica (B158).

    In a fetch session a partition that has not changed is not named again, but asked for all the
    same; so what such requests mean is worked out when it is needed.
    """

    _caught_up_ms: float
    _line: Line
    log_end_offset: Offset = NO_OFFSET  # unknown until it asks
    log_start_offset: Offset = NO_OFFSET
    _asked_ms: float = LONG_AGO_MS
    _end_when_asked: Offset = NO_OFFSET  # the leader's, at that time

    @classmethod
    def unheard(cls, caught_up_ms: float) -> "Follower":
        """One that has not asked yet."""
        return cls(caught_up_ms, NEVER_ASKED)

    def asked(self, offset: Offset, log_start: Offset, leader_end: Offset, line: Line) -> None:
        """It asks for what follows this offset, so it has all before; `line` has the time."""
        if line is self._line:
            self._hear_of(line.asked_before_ms, leader_end)
        self.log_end_offset, self.log_start_offset, self._line = offset, log_start, line
        self._asked_at(line.asked_ms, leader_end)

    def note(self, leader_end: Offset) -> None:
        """Before the leader's end moves: when its line last asked, the end was what it is now."""
        self._hear_of(self._line.asked_ms, leader_end)

    def caught_up_ms(self, leader_end: Offset) -> float:
        """When it last had all that the leader had then."""
        self.note(leader_end)
        return self._caught_up_ms

    def _hear_of(self, asked_ms: float, leader_end: Offset) -> None:
        """A request that did not name the partition, unless it is known already."""
        if asked_ms > self._asked_ms:
            self._asked_at(asked_ms, leader_end)

    def _asked_at(self, asked_ms: float, leader_end: Offset) -> None:
        """As Replica.updateFetchState."""
        if self.log_end_offset >= leader_end:
            self._caught_up_ms = max(self._caught_up_ms, asked_ms)
        elif self.log_end_offset >= self._end_when_asked >= 0:
            self._caught_up_ms = max(self._caught_up_ms, self._asked_ms)
        self._asked_ms, self._end_when_asked = asked_ms, leader_end


class Replica:
    """A partition as this broker holds it."""

    __slots__ = (
        "_open_log",
        "doubtful",
        "epoch_start_offset",
        "followers",
        "high_watermark",
        "hosted",
        "is_named",
        "joining_next",
        "log",
        "pending_isr",
        "settings",
    )

    def __init__(
        self,
        hosted: HostedPartition,
        log: Log | None,
        high_watermark: Offset,
        open_log: OpenLog,
    ) -> None:
        self.hosted = hosted  # what the controller decided, and the ISR that a leader wrote
        self.log = log  # None: nothing was ever appended
        self.high_watermark = high_watermark
        self.is_named = False  # whether the log's folder says of which topic it is
        self.settings: TopicSettings | None = None  # None: not read from ZooKeeper yet
        self.epoch_start_offset: Offset = NO_OFFSET  # of a leader: its log's end when it became one
        self.followers: dict[BrokerId, Follower] = {}
        self.pending_isr: tuple[BrokerId, ...] | None = None  # on its way to ZooKeeper
        self.joining_next: dict[BrokerId, None] = {}  # caught up while that one was on its way
        self.doubtful: tuple[BrokerId, ...] = ()  # ZooKeeper may have these, and did not say so
        self._open_log = open_log

    @property
    def partition(self) -> TopicPartition:
        """Of which it is a replica."""
        return self.hosted.partition

    @property
    def is_leader(self) -> bool:
        """Whether this broker leads."""
        return self.hosted.is_leader

    @property
    def leader_epoch(self) -> LeaderEpoch:
        """Of the last decision."""
        return self.hosted.leader_epoch

    @property
    def log_end_offset(self) -> Offset:
        """Where the next record goes."""
        return ZERO if self.log is None else self.log.log_end_offset

    @property
    def log_start_offset(self) -> Offset:
        """The first offset that can be read."""
        return ZERO if self.log is None else self.log.log_start_offset

    @property
    def last_stable_offset(self) -> Offset:
        """How far one may read who wants no record of an open transaction."""
        if self.log is None:
            return self.high_watermark
        return self.log.last_stable_offset(self.high_watermark)

    @property
    def latest_epoch(self) -> LeaderEpoch:
        """The newest epoch of which the log knows."""
        return NO_LEADER_EPOCH if self.log is None else self.log.epochs.latest_epoch

    def opened(self) -> Log:
        """The log, made if it was not there; its leader's epoch begins where it ends (B137)."""
        if self.log is None:
            self.log = self._open_log(self.partition)
            if self.is_leader:
                self.log.begin_epoch(self.leader_epoch)
        return self.log

    # --- becoming ---------------------------------------------------------------------------------

    def become_leader(self, hosted: HostedPartition, now_ms: float) -> None:
        """Lead, in a new epoch: what is known of the others is no longer (B137).

        At the end of a move somebody is in the ISR who is not assigned any more. It counts until it
        is out: should the controller die now, the move is undone, and it may be elected.
        """
        self.hosted = hosted
        self.pending_isr = None
        self.joining_next = {}
        self.doubtful = ()
        self.epoch_start_offset = self.log_end_offset
        if self.log is not None:
            self.log.begin_epoch(hosted.leader_epoch)
        self.followers = {
            each: Follower.unheard(now_ms if each in hosted.isr else LONG_AGO_MS)
            for each in dict.fromkeys((*hosted.replicas, *hosted.isr))
            if each != hosted.me
        }

    def become_follower(self, hosted: HostedPartition) -> None:
        """Follow; only a leader knows who is in sync (B138)."""
        self.hosted = hosted
        self.pending_isr = None
        self.joining_next = {}
        self.doubtful = ()
        self.epoch_start_offset = NO_OFFSET
        self.followers = {}

    # --- leading ----------------------------------------------------------------------------------

    def append(self, records: Buffer, now_ms: int, *, is_internal: bool = False) -> Appended:
        """Append as leader; who had all before had all until it last asked."""
        end = self.log_end_offset
        for follower in self.followers.values():
            follower.note(end)
        return self.opened().append_as_leader(
            records, self.leader_epoch, now_ms, is_internal=is_internal
        )

    def counted(self) -> set[BrokerId]:
        """Who counts for the high watermark: the ISR, and whoever is on its way in (B121).

        One on its way out counts until ZooKeeper has it. A join that was refused may have been
        written before, its answer lost, and the controller's word on top of it: whoever may be
        elected counts, until that word comes.
        """
        return {*self.hosted.isr, *(self.pending_isr or ()), *self.doubtful}

    def doubtful_with(self, isr: tuple[BrokerId, ...]) -> tuple[BrokerId, ...]:
        """Who may be in ZooKeeper's ISR once this one, too, was not confirmed."""
        return tuple(dict.fromkeys((*self.doubtful, *isr)))

    def reached(self, now_ms: float, lag_ms: float) -> Offset:
        """How far all that count have come: the ISR, and whoever had all not long ago (B161)."""
        end = lowest = self.log_end_offset
        counted = self.counted()
        for broker, follower in self.followers.items():
            if follower.log_end_offset < lowest and (
                broker in counted or now_ms - follower.caught_up_ms(end) <= lag_ms
            ):
                lowest = follower.log_end_offset
        return lowest

    @property
    def is_under_min_isr(self) -> bool:
        """Whether too few are in sync for the high watermark to move (H41, as Kafka since 3.7)."""
        return len(self.hosted.isr) < min(self.min_insync_replicas, len(self.hosted.replicas))

    @property
    def min_insync_replicas(self) -> int:
        """How many must be in sync for acks=all."""
        return 1 if self.settings is None else self.settings.min_insync_replicas

    def may_join(self, broker: BrokerId) -> bool:
        """Whether a follower has all that was or may have been committed (B160, H21)."""
        follower = self.followers.get(broker)
        return (
            follower is not None
            and self.hosted.may_join(broker)
            and follower.log_end_offset >= max(self.high_watermark, self.epoch_start_offset)
        )

    def lagging(self, now_ms: float, lag_ms: float) -> tuple[BrokerId, ...]:
        """Members of the ISR that have not had all for too long (B159)."""
        return tuple(
            broker
            for broker in self.hosted.isr
            if broker in self.followers and self._lags(broker, now_ms, lag_ms)
        )

    @property
    def is_at_rest(self) -> bool:
        """Whether all are in sync and have everything: the many of which nothing is to be said."""
        end = self.log_end_offset
        return len(self.hosted.isr) == len(self.hosted.replicas) and all(
            each.log_end_offset == end for each in self.followers.values()
        )

    def joinable(self, now_ms: float, lag_ms: float) -> tuple[BrokerId, ...]:
        """Who may join and would not be lagging at once: one that fell silent stays out."""
        return tuple(
            broker
            for broker in self.followers
            if self.may_join(broker) and not self._lags(broker, now_ms, lag_ms)
        )

    def _lags(self, broker: BrokerId, now_ms: float, lag_ms: float) -> bool:
        follower, end = self.followers[broker], self.log_end_offset
        return follower.log_end_offset != end and now_ms - follower.caught_up_ms(end) > lag_ms

    # --- following --------------------------------------------------------------------------------

    def follow_to(self, leader_high_watermark: Offset) -> bool:
        """Take over the leader's high watermark, as far as the log goes; whether it moved."""
        # As Log.updateHighWatermark: what the leader says counts, even if it is less.
        within = max(self.log_start_offset, min(leader_high_watermark, self.log_end_offset))
        if within == self.high_watermark:
            return False
        self.high_watermark = within
        return True

    def cut_high_watermark(self) -> None:
        """After a truncation: no high watermark lies beyond the log (B173)."""
        self.high_watermark = min(self.high_watermark, self.log_end_offset)
        self.high_watermark = max(self.high_watermark, self.log_start_offset)


Replicas = dict[TopicPartition, Replica]
Proposal = dict[TopicPartition, tuple[BrokerId, ...]]  # the ISRs that a leader wants
