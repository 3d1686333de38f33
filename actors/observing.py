"""What one broker shows of itself.

Rule: a look changes nothing and waits for nobody: it is taken between two messages, when every
actor's state is whole.
"""

from collections.abc import Iterator

from actors.broker.replica import Replica
from actors.controller.context import ControllerContext
from actors.metrics import metrics_of
from actors.node import Node, NodeState
from actors.view import BrokerState, BrokerView
from wire.ids import BrokerId
from wire.observation import (
    NOT_ACTIVE,
    Observe,
    ObserveResponse,
    PartitionSight,
    ReplicaSight,
)

STATES = {
    NodeState.STARTING: BrokerState.STARTING,
    NodeState.RUNNING: BrokerState.UP,
    NodeState.CONTROLLER: BrokerState.CONTROLLER,
    NodeState.LEAVING: BrokerState.LEAVING,
    NodeState.STOPPED: BrokerState.DOWN,
}


def observe(node: Node, request: Observe) -> ObserveResponse:
    """What was asked for."""
    context = node.controller.established if node.is_controller else None
    replicas = node.replica_manager.replicas.values()
    return ObserveResponse(
        broker_id=BrokerId(node.config.broker_id),
        broker_epoch=node.broker_epoch,
        state=node.state.value,
        controller_epoch=NOT_ACTIVE if context is None else context.epoch,
        brokers=tuple(sorted(node.replica_manager.cache.brokers)),
        replicas=tuple(map(_replica, replicas)) if request.replicas else (),
        partitions=tuple(_partitions(node, context)) if request.partitions else (),
        metrics=metrics_of(node) if request.metrics else (),
    )


def broker_view(broker: int, node: Node | None) -> BrokerView:
    """What is known of a broker without asking it."""
    if node is None:
        return BrokerView(broker, BrokerState.DOWN)
    state = STATES[node.state]
    if node.system.is_paused:
        state = BrokerState.PAUSED
    elif state is BrokerState.CONTROLLER and not node.is_controller:
        state = BrokerState.UP
    return BrokerView(broker, state, node.address, node.config.broker_rack, node.broker_epoch)


def _replica(replica: Replica) -> ReplicaSight:
    hosted = replica.hosted
    return ReplicaSight(
        partition=hosted.partition,
        leader=hosted.leader,
        leader_epoch=hosted.leader_epoch,
        log_start_offset=replica.log_start_offset,
        high_watermark=replica.high_watermark,
        log_end_offset=replica.log_end_offset,
        partition_epoch=hosted.partition_epoch,
        isr=hosted.isr,
    )


def _partitions(node: Node, context: ControllerContext | None) -> Iterator[PartitionSight]:
    """What the controller believes, if this is the controller; else what it has told."""
    if context is not None:
        for partition, assignment in context.assignments.items():
            leadership = context.leaderships.get(partition)
            if leadership is None:
                yield PartitionSight(
                    partition=partition, leader=BrokerId(-1), replicas=assignment.replicas, isr=()
                )
                continue
            replicas = assignment.replicas
            yield PartitionSight(
                partition=partition,
                leader=leadership.leader,
                leader_epoch=leadership.leader_epoch,
                partition_epoch=leadership.partition_epoch,
                replicas=replicas,
                isr=leadership.isr,
                offline=tuple(each for each in replicas if not context.is_online(partition, each)),
                adding=assignment.adding_replicas,
                removing=assignment.removing_replicas,
            )
        return
    for numbers in node.replica_manager.cache.topics.values():
        for known in numbers.values():
            yield PartitionSight(
                partition=known.partition,
                leader=known.leader,
                leader_epoch=known.leader_epoch,
                partition_epoch=known.partition_epoch,
                replicas=known.replicas,
                isr=known.isr,
                offline=known.offline_replicas,
            )
