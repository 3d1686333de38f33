"""What must have come about once nothing is disturbed any more and all brokers are up.

Rule: each is asked once, in the end, after a minute of quiet. What Kafka 2.8 itself leaves behind
is in gaps.py, and no fault.
"""

from actors.broker.replica import Replica
from actors.faults.calls import Call, broker_at
from actors.faults.gaps import blocked_topics
from actors.faults.goodbyes import GoodbyesEndAtOnce
from actors.faults.invariant import Invariant
from actors.faults.ledger import TopicChange
from actors.faults.sight import Sight
from actors.faults.violation import Violation
from actors.node import Node
from runtime.simulation.tree import Tree
from wire.admin_znodes import (
    DeleteTopicsZNode,
    IsrChangeNotificationZNode,
    LogDirEventNotificationZNode,
    PreferredReplicaElectionZNode,
    ReassignPartitionsZNode,
)
from wire.control import LeaderAndIsr, StopReplica
from wire.ids import BrokerId, TopicPartition
from wire.trace import ControllerElected, TopicDeletionStep, TraceEvent
from wire.znodes import BrokerIdZNode, ControllerEpochZNode, ControllerZNode, PartitionStateZNode

REQUESTS = (ReassignPartitionsZNode.path(), PreferredReplicaElectionZNode.path())
FOLDERS = (
    DeleteTopicsZNode.path(),
    IsrChangeNotificationZNode.folder,
    LogDirEventNotificationZNode.folder,
)
FIRST_LOOK_MS = 5_000  # of a new controller at the balance of leaders


def liveness() -> tuple[Invariant, ...]:
    """One of each."""
    return (
        OneControllerInTheEnd(),
        EverybodyIsInSync(),
        MetadataIsTrue(),
        RequestsAreConsumed(),
        GoodbyesEndAtOnce(),
        LeadersAreBalanced(),
        NobodyWaits(),
        StraysAreRemoved(),
    )


class OneControllerInTheEnd(Invariant):
    """L-1: one controller is active, owns `/controller`, and all brokers know its epoch."""

    name = "L-1"

    def check_in_the_end(self, sight: Sight, now_ms: float) -> None:
        """Count the active ones, and ask everybody for the epoch."""
        del now_ms
        tree = self.ledger.tree
        active = [node for node in _up(sight) if node.is_controller]
        if len(active) != 1 or tree is None:
            brokers = tuple(node.config.broker_id for node in active)
            raise Violation(self.name, f"{len(active)} controllers are active", brokers=brokers)
        (reigning,) = active
        stat = tree.stat(ControllerZNode.path())
        if stat is None or stat.ephemeral_owner != reigning.world.keeper.session_id:
            raise Violation(self.name, f"{reigning.world.node} does not own /controller: {stat}")
        epoch = ControllerEpochZNode.decode(tree.get(ControllerEpochZNode.path()).data)
        context = reigning.controller.established
        if context is None or context.epoch != epoch:
            raise Violation(self.name, f"{reigning.world.node} does not reign in epoch {epoch}")
        for node in _up(sight):
            heard = node.replica_manager.fence.controller_epoch
            if heard != epoch:
                what = f"{node.world.node} heard of epoch {heard}, not {epoch}"
                raise Violation(self.name, what, brokers=(node.config.broker_id,))


class EverybodyIsInSync(Invariant):
    """L-2: every partition has one live leader, and all its replicas are in sync."""

    name = "L-2"

    def check_in_the_end(self, sight: Sight, now_ms: float) -> None:
        """Look at every partition of ZooKeeper, and at every leader."""
        del now_ms
        blocked = blocked_topics(sight, self.ledger)
        live = {BrokerId(node.config.broker_id) for node in _up(sight)}
        for partition, replicas in _assignments(self):
            if partition.topic in blocked:
                continue
            known = self.ledger.states.get(partition)
            if known is None or known.state.leader not in live:
                raise Violation(self.name, f"nobody leads it: {known}", partition=partition)
            if set(known.state.isr) != set(replicas):
                what = f"{replicas} are assigned, and in sync are {known.state.isr}"
                raise Violation(self.name, what, partition=partition)
        for node in _up(sight):
            for partition, replica in node.replica_manager.replicas.items():
                if replica.is_leader and partition.topic not in blocked:
                    self._judge_leader(BrokerId(node.config.broker_id), replica)

    def _judge_leader(self, broker: BrokerId, replica: Replica) -> None:
        """Who believes to lead is the leader: one that is silent about it takes records, too."""
        partition, known = replica.partition, self.ledger.states.get(replica.partition)
        if known is None or known.state.leader != broker:
            what = f"{broker} leads it in epoch {replica.leader_epoch}, and should not: {known}"
            raise Violation(self.name, what, partition=partition, brokers=(broker,))
        if replica.hosted.is_under_replicated:
            what = f"its leader counts only {replica.hosted.isr}"
            raise Violation(self.name, what, partition=partition, brokers=(broker,))


class MetadataIsTrue(Invariant):
    """L-3: all brokers know what ZooKeeper holds."""

    name = "L-3"
    events = (TopicDeletionStep, ControllerElected)

    def __init__(self) -> None:
        self._deleted_in: dict[str, int] = {}  # the reign in which each topic's deletion ended
        self._reign = 0

    def on_event(self, node: str, event: TraceEvent) -> None:
        """Note which deletions another controller ended."""
        del node
        if isinstance(event, ControllerElected):
            self._reign = event.controller_epoch
        elif isinstance(event, TopicDeletionStep) and event.step == "completed":
            self._deleted_in[event.topic] = self._reign

    def check_in_the_end(self, sight: Sight, now_ms: float) -> None:
        """Compare every cache."""
        del now_ms
        blocked = blocked_topics(sight, self.ledger)
        live = {node.config.broker_id for node in _up(sight)}
        for node in _up(sight):
            cache, broker = node.replica_manager.cache, node.config.broker_id
            if set(cache.brokers) != live:
                what = f"it knows the brokers {sorted(cache.brokers)}, not {sorted(live)}"
                raise Violation(self.name, what, brokers=(broker,))
            for topic in sorted(cache.topics.keys() - self.ledger.topics.keys()):
                if not self._is_forgotten(topic):
                    raise Violation(
                        self.name, f"it knows {topic}, which is gone", brokers=(broker,)
                    )
            self._judge(node, blocked)

    def _judge(self, node: Node, blocked: set[str]) -> None:
        cache = node.replica_manager.cache
        for partition, (state, _) in self.ledger.states.items():
            known = cache.partition(partition)
            told = None if known is None else (known.leader, known.leader_epoch, known.isr)
            held = (state.leader, state.leader_epoch, state.isr)
            if told != held and partition.topic not in blocked:
                what = f"it knows {told}, not {held}"
                brokers = (node.config.broker_id,)
                raise Violation(self.name, what, partition=partition, brokers=brokers)

    def _is_forgotten(self, topic: str) -> bool:
        """Whether nobody is left who could tell a broker that a topic is gone.

        As in Kafka: a deletion waits for the replicas, not for everybody to hear of it (B134). If
        the controller goes before a broker without a replica has heard, its successor knows no such
        topic.
        """
        return self._deleted_in.get(topic, self._reign) != self._reign


class RequestsAreConsumed(Invariant):
    """L-4: nobody's wish waits in ZooKeeper, and no note lies there unread."""

    name = "L-4"

    def check_in_the_end(self, sight: Sight, now_ms: float) -> None:
        """Look where wishes and notes lie; a move to a broker with a stray cannot end (L-8)."""
        del now_ms
        tree = self.ledger.tree
        if tree is None:
            return
        blocked = blocked_topics(sight, self.ledger)
        for path in REQUESTS:
            if tree.stat(path) is not None and not blocked:
                raise Violation(self.name, f"{path} is still there: {tree.get(path).data!r}")
        for folder in FOLDERS:
            left = [name for name in _children(tree, folder) if name not in blocked]
            if left:
                raise Violation(self.name, f"{folder} holds {', '.join(left)}")
        for topic, assignment in sorted(self.ledger.topics.items()):
            for number, each in assignment.partitions.items():
                is_moving = each.adding_replicas or each.removing_replicas
                if is_moving and topic not in blocked:
                    at = TopicPartition(topic, number)
                    raise Violation(self.name, f"it is still on the move: {each}", partition=at)


class LeadersAreBalanced(Invariant):
    """L-6: where leaders are balanced by themselves, few are not the preferred ones."""

    name = "L-6"

    def check_in_the_end(self, sight: Sight, now_ms: float) -> None:
        """Count, by preferred broker, who leads elsewhere."""
        reigning, tree = sight.cluster.controller, self.ledger.tree
        if reigning is None or tree is None:
            return
        config = reigning.config
        quiet_ms = now_ms - self._last_change_ms(tree)
        due_ms = FIRST_LOOK_MS + config.leader_imbalance_check_interval_seconds * 1000
        if not config.auto_leader_rebalance_enable or quiet_ms <= due_ms:
            return
        blocked = blocked_topics(sight, self.ledger)
        led: dict[int, list[bool]] = {}
        for partition, replicas in _assignments(self):
            known = self.ledger.states.get(partition)
            if known is None or partition.topic in blocked or replicas[0] not in known.state.isr:
                continue
            led.setdefault(replicas[0], []).append(known.state.leader == replicas[0])
        for broker, is_preferred in sorted(led.items()):
            elsewhere = is_preferred.count(False)
            if elsewhere * 100 > config.leader_imbalance_per_broker_percentage * len(is_preferred):
                what = f"others lead {elsewhere} of its {len(is_preferred)} partitions"
                raise Violation(self.name, what, brokers=(broker,))

    def _last_change_ms(self, tree: Tree) -> int:
        """Since when the controller and all states are what they are."""
        paths = [PartitionStateZNode.path(each) for each in self.ledger.states]
        stats = [tree.stat(path) for path in (*paths, ControllerZNode.path())]
        return max((stat.mtime for stat in stats if stat is not None), default=0)


class NobodyWaits(Invariant):
    """L-7: no request of a client waits at a broker any more."""

    name = "L-7"

    def check_in_the_end(self, sight: Sight, now_ms: float) -> None:
        """Count who waits for records, for in-sync replicas, for metadata."""
        del now_ms
        for node in _up(sight):
            replicas = node.replica_manager
            counts = {
                "for in-sync replicas": len(replicas.leading.purgatory),
                "for records": replicas.leading.serving.readers.waiting_clients,
                "for metadata": len(replicas.waits),
            }
            for what, count in counts.items():
                if count:
                    brokers = (node.config.broker_id,)
                    raise Violation(self.name, f"{count} wait {what}", brokers=brokers)


class StraysAreRemoved(Invariant):
    """L-8: a broker that lived on when a replica was taken from it holds nothing of it."""

    name = "L-8"

    def __init__(self) -> None:
        # Where replicas were removed, in which controller's epoch and in which life of the broker.
        self._removed: dict[tuple[TopicPartition, BrokerId], tuple[int, int]] = {}

    def on_topic(self, change: TopicChange) -> None:
        """Note what is taken from whom, and whether the controller could tell it."""
        after = {} if change.after is None else change.after.partitions
        before = {} if change.before is None else change.before.partitions
        for number, assignment in before.items():
            kept = after[number].replicas if number in after else ()
            for broker in assignment.replicas:
                if broker not in kept:
                    where = (TopicPartition(change.topic, number), broker)
                    self._removed.setdefault(where, (self.ledger.epoch, self._known_life(broker)))

    def on_control_sent(self, call: Call) -> None:
        """Whoever is told must obey, unless it or the controller goes.

        An order to hold a replica may be an old one that is sent again: it assigns nothing anew.
        """
        broker, request = broker_at(call.destination), call.request
        if broker is not None and isinstance(request, StopReplica):
            for each in request.partitions:
                if each.delete:
                    told = (request.controller_epoch, request.broker_epoch)
                    self._removed[each.partition, broker] = told
        elif broker is not None and isinstance(request, LeaderAndIsr):
            for entry in request.partitions:
                assignment = self.ledger.assignment(entry.partition)
                if assignment is not None and broker in assignment.replicas:
                    self._removed.pop((entry.partition, broker), None)

    def _known_life(self, broker: BrokerId) -> int:
        """The one that the controller knows; whom it takes for dead it cannot tell."""
        controller = self.sight.cluster.controller
        context = None if controller is None else controller.controller.established
        known = None if context is None else context.brokers.get(broker)
        return 0 if known is None else known.epoch

    def _life(self, broker: BrokerId) -> int:
        tree = self.ledger.tree
        stat = None if tree is None else tree.stat(BrokerIdZNode.path(broker))
        return 0 if stat is None else stat.czxid

    def check_in_the_end(self, sight: Sight, now_ms: float) -> None:
        """Look for replicas that are not assigned.

        Known gap: a removal does not wait for the broker. If it was away, or the controller went
        before it was told, nobody tells it again.
        """
        del now_ms
        for node in _up(sight):
            broker = BrokerId(node.config.broker_id)
            for partition in sorted(node.replica_manager.hosting.held):
                assignment = self.ledger.assignment(partition)
                if assignment is not None and broker in assignment.replicas:
                    continue
                now = (self.ledger.epoch, self._life(broker))
                if self._removed.get((partition, broker), now) == now:
                    what = "it holds a replica that is not assigned to it"
                    raise Violation(self.name, what, partition=partition, brokers=(broker,))


def _up(sight: Sight) -> list[Node]:
    return [node for _, node in sorted(sight.cluster.nodes.items()) if node.system.is_up]


def _assignments(
    invariant: Invariant,
) -> list[tuple[TopicPartition, tuple[BrokerId, ...]]]:
    """All partitions that ZooKeeper knows of, and who should hold them."""
    return [
        (TopicPartition(topic, number), each.replicas)
        for topic, assignment in sorted(invariant.ledger.topics.items())
        for number, each in sorted(assignment.partitions.items())
    ]


def _children(tree: Tree, folder: str) -> tuple[str, ...]:
    return () if tree.stat(folder) is None else tree.children(folder)
