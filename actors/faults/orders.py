"""What brokers take from controllers, and in which order controllers say it.

Rule: one channel is what one controller says to one life of one broker. On it nothing overtakes:
what follows is sent after what precedes was answered. Which requests are of one batch is not to be
seen, but a LeaderAndIsr always has an UpdateMetadata of the same partitions in its batch.
"""

from collections import deque

from msgspec import Struct

from actors.faults.calls import Call, Order
from actors.faults.invariant import Invariant
from actors.faults.ledger import TopicChange
from actors.names import node_name
from wire.control import ControlResponse, LeaderAndIsr, StopReplica, UpdateMetadata
from wire.errors import ErrorCode
from wire.ids import LEADER_DURING_DELETE, UNKNOWN_BROKER_EPOCH, TopicPartition
from wire.trace import BrokerRegistered, BrokersChanged, NodeStopped, ReplicaRoleChanged, TraceEvent

Key = tuple[str, str, int]
Channel = tuple[str, int, str, int]  # from, its epoch, to, its epoch


class BrokersTakeNewsOnly(Invariant):
    """I-11: a broker takes decisions of growing leader epochs, and none for its former life."""

    name = "I-11"
    events = (ReplicaRoleChanged, BrokerRegistered, NodeStopped)

    def __init__(self) -> None:
        self._epochs: dict[str, dict[TopicPartition, int]] = {}  # taken, by node
        self._lives: dict[str, int] = {}  # the broker epoch of each node
        self._waiting: dict[str, dict[Key, deque[int]]] = {}  # in which life each call came

    def on_event(self, node: str, event: TraceEvent) -> None:
        """Judge a decision that was taken."""
        if isinstance(event, ReplicaRoleChanged):
            self._on_role(node, event)
        elif isinstance(event, BrokerRegistered):
            self._lives[node] = event.broker_epoch
        else:
            self._epochs.pop(node, None)
            self._waiting.pop(node, None)

    def _on_role(self, node: str, event: ReplicaRoleChanged) -> None:
        partition = TopicPartition(event.topic, event.partition)
        epochs = self._epochs.setdefault(node, {})
        before = epochs.pop(partition, None)
        if event.role not in {"leader", "follower"}:
            return  # it is given up: what is told next is news, whatever it is
        epochs[partition] = event.leader_epoch
        if before is not None and event.leader_epoch <= before:
            self.found(
                f"{node} took leader epoch {event.leader_epoch} after {before}", partition=partition
            )

    def on_control_arrived(self, call: Call) -> None:
        """Note in which life it came: one that waits in the inbox is not made old by a new one."""
        if isinstance(call.request, Order):
            life = self._lives.get(call.destination, UNKNOWN_BROKER_EPOCH)
            calls = self._waiting.setdefault(call.destination, {})
            calls.setdefault(call[:3], deque()).append(life)

    def on_control_answered(self, call: Call, response: ControlResponse) -> None:
        """Judge an order that was obeyed."""
        lives = self._waiting.get(call.destination, {}).get(call[:3])
        if not lives or not isinstance(call.request, Order):
            return
        life, meant = lives.popleft(), call.request.broker_epoch
        if not lives:
            del self._waiting[call.destination][call[:3]]
        is_stale = meant not in {UNKNOWN_BROKER_EPOCH, life} and meant < life
        if is_stale and response.error_code is ErrorCode.NONE:
            what = type(call.request).__name__
            self.found(f"{call.destination}, registered as {life}, obeyed a {what} for {meant}")


class _Line(Struct):
    """What was said on a channel."""

    last: Order
    is_answered: bool = False
    decided: dict[TopicPartition, int] = {}  # leader epochs of LeaderAndIsr
    told: dict[TopicPartition, tuple[int, int]] = {}  # leader epoch and version


class OrdersKeepTheirOrder(Invariant):
    """I-12: on a channel nothing overtakes, and each LeaderAndIsr is followed by its metadata."""

    name = "I-12"
    events = (BrokersChanged,)

    def __init__(self) -> None:
        self._lines: dict[Channel, _Line] = {}

    def on_event(self, node: str, event: TraceEvent) -> None:
        """To whom came back a controller speaks anew, at first as to the former life (B069)."""
        if isinstance(event, BrokersChanged):
            anew = {node_name(int(each)) for each in event.bounced.split(",") if each}
            for channel in [each for each in self._lines if each[0] == node and each[2] in anew]:
                del self._lines[channel]

    def on_topic(self, change: TopicChange) -> None:
        """A namesake begins with epoch 0 again."""
        if change.after is None:
            for line in self._lines.values():
                for partition in [each for each in line.told if each.topic == change.topic]:
                    del line.told[partition]
                    line.decided.pop(partition, None)

    def on_control_sent(self, call: Call) -> None:
        """Judge what is said by what was said before."""
        request = call.request
        if not isinstance(request, Order):
            return
        channel = _channel(call, request)
        line = self._lines.get(channel)
        if line is None:
            line = self._lines[channel] = _Line(request)
        elif request == line.last:
            return  # once more
        else:
            if not line.is_answered:
                self._wrong(call, f"before {_name(line.last)} was answered")
            if isinstance(line.last, LeaderAndIsr):
                self._follows(call, line.last)
            line.last, line.is_answered = request, False
        self._judge(call, line)

    def on_control_answered(self, call: Call, response: ControlResponse) -> None:
        """The next may come; whoever could not take a request gets it once more."""
        request = call.request
        if isinstance(request, Order) and response.error_code is not ErrorCode.BROKER_NOT_AVAILABLE:
            line = self._lines.get(_channel(call, request))
            if line is not None and line.last == request:
                line.is_answered = True

    def _follows(self, call: Call, before: LeaderAndIsr) -> None:
        decided = {each.partition for each in before.partitions}
        request = call.request
        told = request.partitions if isinstance(request, UpdateMetadata) else ()
        missing = decided - {each.partition for each in told}
        if missing:
            which = ", ".join(map(str, sorted(missing)))
            self._wrong(call, f"after a LeaderAndIsr whose metadata of {which} was due")

    def _judge(self, call: Call, line: _Line) -> None:
        match call.request:
            case StopReplica(partitions=stopped):
                for each in stopped:
                    decided = line.decided.get(each.partition, -1)
                    if 0 <= each.leader_epoch < decided:
                        self._wrong(call, f"of epoch {each.leader_epoch} after {decided}", each)
            case LeaderAndIsr(partitions=entries) | UpdateMetadata(partitions=entries):
                is_decision = isinstance(call.request, LeaderAndIsr)
                for entry in entries:
                    if entry.leader == LEADER_DURING_DELETE:
                        line.told.pop(entry.partition, None)
                        line.decided.pop(entry.partition, None)
                        continue
                    now = (int(entry.leader_epoch), int(entry.partition_epoch))
                    before = line.told.get(entry.partition, now)
                    if now < before:
                        self._wrong(call, f"of epoch and version {now} after {before}", entry)
                    line.told[entry.partition] = now
                    if is_decision:
                        line.decided[entry.partition] = now[0]

    def _wrong(self, call: Call, what: str, entry: object = None) -> None:
        self.found(
            f"{call.source} sends {call.destination} {_name(call.request)} {what}",
            partition=getattr(entry, "partition", None),
        )


def _channel(call: Call, request: Order) -> Channel:
    return call.source, request.controller_epoch, call.destination, request.broker_epoch


def _name(request: object) -> str:
    return f"a {type(request).__name__}"
