"""Who may be elected, and what an election may change.

Rule: an election is what ZooKeeper took: the new leader is compared with the state that it
replaced. Whether an unclean one was allowed is asked of the configuration at that moment.
"""

from actors.controller.election import Strategy
from actors.faults.calls import broker_at
from actors.faults.invariant import Invariant
from actors.faults.ledger import StateChange
from runtime.keeper import NoNode
from wire.admin import ElectionType, ElectLeaders
from wire.codec import AnyMessage
from wire.config_znodes import DEFAULT_ENTITY, ConfigEntity, ConfigEntityType, ConfigEntityZNode
from wire.errors import MalformedZNode
from wire.ids import NO_LEADER, TopicPartition
from wire.trace import LeaderElected, NodeStopped, TraceEvent, ids

UNCLEAN = "unclean.leader.election.enable"


class ElectionsAreClean(Invariant):
    """I-6: a new leader was in sync, unless somebody allowed another; that is counted."""

    name = "I-6"
    events = (LeaderElected, NodeStopped)

    def __init__(self) -> None:
        self._unclean: set[tuple[TopicPartition, int]] = set()  # with the leader epoch
        self._asked: set[TopicPartition] = set()
        self._is_all_asked = False
        self._counted: dict[str, int] = {}

    def on_asked(self, request: AnyMessage, begun: int) -> None:
        """Somebody may ask for an unclean election."""
        del begun
        if isinstance(request, ElectLeaders) and request.election_type is ElectionType.UNCLEAN:
            self._asked.update(request.partitions or ())
            self._is_all_asked |= request.partitions is None

    def on_state(self, change: StateChange) -> None:
        """Judge a new leader."""
        if change.before is None or change.after is None:
            return
        before, state = change.before.state, change.after.state
        if state.leader == NO_LEADER or state.leader in before.isr:
            return
        self._unclean.add((change.partition, state.leader_epoch))
        if not self._is_allowed(change.partition, change.node):
            self.found(
                f"{change.node} elected {state.leader}, which was not in {before.isr}",
                partition=change.partition,
                brokers=(state.leader,),
            )

    def _is_allowed(self, partition: TopicPartition, node: str) -> bool:
        if self._is_all_asked or partition in self._asked:
            return True
        broker = broker_at(node)
        elector = self.sight.cluster.nodes.get(-1 if broker is None else int(broker))
        default = elector is not None and elector.config.unclean_leader_election_enable
        for entity in (
            ConfigEntity(ConfigEntityType.TOPICS, partition.topic),
            ConfigEntity(ConfigEntityType.BROKERS, str(broker)),
            ConfigEntity(ConfigEntityType.BROKERS, DEFAULT_ENTITY),
        ):
            value = self._configured(entity)
            if value is not None:
                return value == "true"
        return default

    def _configured(self, entity: ConfigEntity) -> str | None:
        if self.ledger.tree is None:
            return None
        try:
            znode = self.ledger.tree.get(ConfigEntityZNode.path(entity))
            return ConfigEntityZNode.decode(entity, znode.data).get(UNCLEAN)
        except (NoNode, MalformedZNode):
            return None

    def on_event(self, node: str, event: TraceEvent) -> None:
        """Judge what is said of an election, and what is counted."""
        if not isinstance(event, LeaderElected):
            self._counted.pop(node, None)
            return
        partition = TopicPartition(event.topic, event.partition)
        is_unclean = (partition, event.leader_epoch) in self._unclean
        if is_unclean != event.is_unclean:
            self.found(f"{node} says of {event} that it is the opposite", partition=partition)
        if event.is_unclean:
            self._judge_meter(node, partition)

    def _judge_meter(self, node: str, partition: TopicPartition) -> None:
        counted = self._counted[node] = self._counted.get(node, 0) + 1
        broker = broker_at(node)
        elector = self.sight.cluster.nodes.get(-1 if broker is None else int(broker))
        meter = 0 if elector is None else elector.controller.election_times.unclean_elections
        if meter != counted:
            self.found(f"{node} counts {meter} unclean elections, not {counted}")


class PreferredLeadersOnly(Invariant):
    """I-16: a preferred election makes the head of the assignment lead, and changes no ISR."""

    name = "I-16"
    events = (LeaderElected,)

    def on_event(self, node: str, event: TraceEvent) -> None:
        """Judge an election of that kind."""
        if not isinstance(event, LeaderElected) or event.reason != Strategy.PREFERRED.value:
            return
        partition = TopicPartition(event.topic, event.partition)
        assignment = self.ledger.assignment(partition)
        if assignment is not None and event.leader != assignment.replicas[0]:
            self._wrong(node, event, f"is not the head of {assignment.replicas}")
        past = self.ledger.past.get(partition, {}).get(event.partition_epoch - 1)
        if past:
            isr = past[-1].isr
            if event.leader not in isr:
                self._wrong(node, event, f"was not in the ISR {isr}")
            if event.isr != ids(isr):
                self._wrong(node, event, f"has the ISR {event.isr}, not {ids(isr)}")
        if not self._is_live(node, event):
            self._wrong(node, event, "is not alive, and the elector knows it")

    def _is_live(self, node: str, event: LeaderElected) -> bool:
        broker = broker_at(node)
        elector = self.sight.cluster.nodes.get(-1 if broker is None else int(broker))
        context = None if elector is None else elector.controller.established
        return context is None or event.leader in context.live_brokers

    def _wrong(self, node: str, event: LeaderElected, what: str) -> None:
        self.found(
            f"{node} elected {event.leader} as the preferred leader, which {what}",
            partition=TopicPartition(event.topic, event.partition),
            brokers=(event.leader,),
        )
