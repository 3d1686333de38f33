"""A leader's watch over who is in sync.

Rule: an ISR changes when ZooKeeper has it, and the write is awaited aside: until the answer both
the old and the new one count for the high watermark (B121), and no other change of it is begun;
whoever catches up meanwhile joins next. What the controller decided meanwhile wins. Nobody is left
out before a look that finds him lagging (B159); what ZooKeeper refused stays as it was until the
next look (B162).
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from actors.broker.isr import CHECK_MS, IsrChanges, Wanted, write_isrs
from actors.broker.meters import Meters
from actors.broker.replica import Proposal, Replica, Replicas
from actors.config import BrokerConfig
from runtime.keeper import KeeperError
from runtime.ref import Outcome, Timer
from runtime.world import World
from wire.ids import BrokerId, TopicPartition


@dataclass(frozen=True)
class ShrinkIsr:
    """Leave these replicas out of the in-sync ones of partitions led here."""

    partitions: tuple[TopicPartition, ...]
    lagging: frozenset[BrokerId]


@dataclass(frozen=True)
class CheckIsrs:
    """Time to see who is in sync no longer, or again (B159)."""


@dataclass(frozen=True)
class IsrsWritten:
    """ZooKeeper has answered."""

    wanted: Wanted
    outcome: Outcome


@dataclass(frozen=True)
class TellIsrChanges:
    """Time to see whether the controller should hear of changed ISRs."""


@dataclass(frozen=True)
class IsrChangesTold:
    """ZooKeeper has the note that tells of them, or not."""

    outcome: Outcome


class InSync:
    """The ISRs of all partitions that this broker leads."""

    def __init__(
        self,
        world: World,
        config: BrokerConfig,
        replicas: Replicas,
        meters: Meters,
        *,
        advance: Callable[[Replica], None],
        after: Callable[[float, Any], Timer],
        pipe: Callable[[Awaitable[Any], Callable[[Outcome], Any]], None],
    ) -> None:
        self._world = world
        self._me = BrokerId(config.broker_id)
        self._lag_ms = config.replica_lag_time_max_ms
        self._replicas = replicas
        self._meters = meters
        self._advance = advance
        self._after = after
        self._pipe = pipe
        self._changes = IsrChanges(world)
        self._is_begun = False

    def begin(self) -> None:
        """Look from now on, again and again."""
        if not self._is_begun:
            self._is_begun = True
            self._after(self._lag_ms / 2, CheckIsrs())

    def check(self) -> None:
        """Leave out who lags; take in who could not be taken in when he had caught up."""
        self._after(self._lag_ms / 2, CheckIsrs())
        now_ms = self._world.clock.elapsed_ms()
        proposal: Proposal = {}
        for partition, replica in self._replicas.items():
            if not replica.is_leader or replica.pending_isr is not None or replica.is_at_rest:
                continue
            lagging = replica.lagging(now_ms, self._lag_ms)
            isr = tuple(each for each in replica.hosted.isr if each not in lagging)
            isr += replica.joinable(now_ms, self._lag_ms)
            if isr != replica.hosted.isr:
                proposal[partition] = isr
        self.propose(proposal)

    def shrink(self, shrink: ShrinkIsr) -> None:
        """Leave somebody out."""
        proposal: Proposal = {}
        for partition in shrink.partitions:
            replica = self._replicas.get(partition)
            if replica is None or not replica.is_leader or replica.pending_isr is not None:
                continue
            isr = tuple(each for each in replica.hosted.isr if each not in shrink.lagging)
            if isr != replica.hosted.isr and self._me in isr:
                proposal[partition] = isr
        self.propose(proposal)

    def propose(self, proposal: Proposal) -> None:
        """Write ISRs to ZooKeeper."""
        if not proposal:
            return
        wanted: Wanted = {at: (self._replicas[at].hosted, isr) for at, isr in proposal.items()}
        for partition, isr in proposal.items():
            self._replicas[partition].pending_isr = isr
        self._pipe(write_isrs(self._world, wanted), lambda outcome: IsrsWritten(wanted, outcome))

    def written(self, result: IsrsWritten) -> None:
        """Go by what ZooKeeper took."""
        is_lost = isinstance(result.outcome.error, KeeperError)
        written = {} if is_lost else result.outcome.get()
        was_empty = self._changes.is_empty
        proposal: Proposal = {}
        for partition, (hosted, isr) in result.wanted.items():
            replica = self._replicas.get(partition)
            if replica is None or replica.hosted is not hosted:
                continue  # the controller has spoken since
            replica.pending_isr = None
            replica.doubtful = () if partition in written else replica.doubtful_with(isr)
            if partition in written:
                self._meters.isr_changed(len(hosted.isr), len(written[partition].isr))
                replica.hosted = written[partition]
                self._changes.note(replica.hosted)
                self._advance(replica)  # as Kafka since 3.1: nothing else may (H39)
                late = tuple(each for each in replica.joining_next if replica.may_join(each))
                if late:
                    proposal[partition] = (*replica.hosted.isr, *late)
            replica.joining_next = {}
        self.propose(proposal)
        if was_empty and not self._changes.is_empty:
            self._after(CHECK_MS, TellIsrChanges())

    def tell(self) -> None:
        """Tell the controller of changes, if it is time (B116)."""
        if self._changes.is_due():
            self._pipe(self._changes.tell(), IsrChangesTold)
        else:
            self._tell_later()

    def told(self, told: IsrChangesTold) -> None:
        """What could not be told is kept, and told at the next look."""
        if not isinstance(told.outcome.error, KeeperError):
            told.outcome.get()
        self._tell_later()

    def _tell_later(self) -> None:
        if not self._changes.is_empty:
            self._after(CHECK_MS, TellIsrChanges())
