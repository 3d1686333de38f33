"""One leader an epoch, and none that outlives its own.

Rule: who leads is judged by what brokers do, not by what they believe: records appended as leader,
ISRs written, requests acknowledged. A leader may serve on until its successor takes office: all
who count for it still follow it then. After that its ISR holds somebody who no longer does.
"""

from typing import Any, Final, NamedTuple

from actors.faults.invariant import Exchange, Invariant
from actors.faults.sight import Sight
from wire.data import Produce, ProduceResponse
from wire.errors import ErrorCode
from wire.ids import TopicPartition
from wire.trace import (
    IsrChanged,
    LeaderElected,
    RecordsAppended,
    ReplicaRoleChanged,
    TopicDeletionStep,
    TraceEvent,
)

ALL = -1  # acks
GONE: Final = "completed"  # the last step of a deletion


class OneLeaderAppendsPerEpoch(Invariant):
    """I-20."""

    name = "I-20"
    events = (RecordsAppended, TopicDeletionStep)

    def __init__(self) -> None:
        self._appender: dict[tuple[TopicPartition, int], str] = {}

    def on_event(self, node: str, event: TraceEvent) -> None:
        """Note who appends."""
        if isinstance(event, TopicDeletionStep) and event.step == GONE:
            for known in [known for known in self._appender if known[0].topic == event.topic]:
                del self._appender[known]
        if not isinstance(event, RecordsAppended) or event.role != "leader":
            return
        partition = TopicPartition(event.topic, event.partition)
        first = self._appender.setdefault((partition, event.leader_epoch), node)
        if first != node:
            self.found(
                f"{first} and {node} both append as leader of epoch {event.leader_epoch}",
                partition=partition,
                offsets=(event.first_offset, event.last_offset),
            )


class _Reign(NamedTuple):
    """Who took office last, and what is newest in ZooKeeper."""

    leader: str
    epoch: int


class ZombiesCannotCommit(Invariant):
    """I-21: whoever was succeeded changes no ISR, and acknowledges nothing it appended since."""

    name = "I-21"
    events = (ReplicaRoleChanged, RecordsAppended, LeaderElected, IsrChanged, TopicDeletionStep)

    def __init__(self) -> None:
        self._in_office: dict[TopicPartition, _Reign] = {}
        self._elected: dict[TopicPartition, tuple[int, int]] = {}  # epoch, version of the state
        self._late: dict[TopicPartition, dict[tuple[str, int], _Reign]] = {}

    def on_event(self, node: str, event: TraceEvent) -> None:
        """Note who takes office, who appends after that, and who changes an ISR."""
        match event:
            case ReplicaRoleChanged(role="leader"):
                partition = TopicPartition(event.topic, event.partition)
                known = self._in_office.get(partition)
                if known is None or known.epoch < event.leader_epoch:
                    self._in_office[partition] = _Reign(node, event.leader_epoch)
            case RecordsAppended(role="leader"):
                self._on_appended(node, event)
            case LeaderElected():
                partition = TopicPartition(event.topic, event.partition)
                newest = (event.leader_epoch, event.partition_epoch)
                self._elected[partition] = max(newest, self._elected.get(partition, newest))
            case IsrChanged():
                self._on_isr_changed(node, event)
            case TopicDeletionStep() if event.step == GONE:
                self._forget(event.topic)

    def _forget(self, topic: str) -> None:
        """A topic of that name will be another one, and begins with epoch 0."""
        tables: tuple[dict[TopicPartition, Any], ...]
        tables = (self._in_office, self._elected, self._late)
        for table in tables:
            for partition in [each for each in table if each.topic == topic]:
                del table[partition]

    def _on_appended(self, node: str, event: RecordsAppended) -> None:
        partition = TopicPartition(event.topic, event.partition)
        reign = self._in_office.get(partition)
        is_late = reign is not None and reign.epoch > event.leader_epoch and reign.leader != node
        late = self._late.setdefault(partition, {})
        for offset in range(event.first_offset, event.last_offset + 1):
            if reign is not None and is_late:
                late[node, offset] = reign
            else:  # what was there before was cut off, and these are another term's
                late.pop((node, offset), None)

    def _on_isr_changed(self, node: str, event: IsrChanged) -> None:
        """The version tells what came first: the answer to a write may be long under way."""
        partition = TopicPartition(event.topic, event.partition)
        epoch, version = self._elected.get(partition, (-1, -1))
        if event.leader_epoch < epoch and event.partition_epoch > version:
            self.found(
                f"{node} of epoch {event.leader_epoch} wrote the ISR {event.isr} as version "
                f"{event.partition_epoch}, after epoch {epoch} as version {version}",
                partition=partition,
            )

    def on_answered(self, exchange: Exchange, sight: Sight) -> None:
        """Judge what is acknowledged."""
        request, response = exchange.request, exchange.response
        if not isinstance(request, Produce) or not isinstance(response, ProduceResponse):
            return
        if request.acks != ALL:
            return
        node = sight.cluster.nodes[exchange.broker].world.node
        for result in response.partitions:
            reign = self._late.get(result.partition, {}).get((node, result.base_offset))
            now = self._in_office.get(result.partition)
            if now is not None and now.leader == node:
                continue  # it leads again, and still has the record: it is no zombie any more
            if result.error_code is ErrorCode.NONE and reign is not None:
                self.found(
                    f"{node} acknowledged what it appended after {reign.leader} had taken over "
                    f"in epoch {reign.epoch}",
                    partition=result.partition,
                    brokers=(exchange.broker,),
                    offsets=(result.base_offset,),
                )
