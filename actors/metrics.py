"""What a broker measures, as Kafka's MBeans.

Rule: a look changes nothing. Each row has Kafka's own name; what it counts is counted elsewhere, or
here and now from what the actors hold.
"""

from collections.abc import Iterator
from typing import Final

from actors.broker.meters import Meters
from actors.controller.context import ControllerContext
from actors.controller.metrics import Histogram
from actors.node import Node, NodeState
from wire.observation import Metric

PERCENTILES: Final = (50.0, 75.0, 95.0, 98.0, 99.0, 99.9)
ATTRIBUTES: Final = tuple(f"{part:g}thPercentile".replace(".", "") for part in PERCENTILES)

# As Kafka's BrokerState; that a broker is the controller is no state of its own since 1.1.
BROKER_STATES: Final = {
    NodeState.STOPPED: 0,
    NodeState.STARTING: 1,
    NodeState.RUNNING: 3,
    NodeState.CONTROLLER: 3,
    NodeState.LEAVING: 6,
}


def metrics_of(node: Node) -> tuple[Metric, ...]:
    """All that one broker measures."""
    return (
        _gauge("kafka.server:type=KafkaServer,name=BrokerState", BROKER_STATES[node.state]),
        *_of_controller(node),
        *_of_replicas(node),
        *_of_topics(node.replica_manager.meters),
        *_of_requests(node.replica_manager.meters),
    )


def _of_controller(node: Node) -> Iterator[Metric]:
    """Who is not the controller says 0, as in Kafka."""
    controller = node.controller
    context = controller.established if node.is_controller else None
    kind = "kafka.controller:type=KafkaController,name="
    yield _gauge(f"{kind}ActiveControllerCount", int(node.is_controller))
    for name, value in _counts(context):
        yield _gauge(f"{kind}{name}", value)
    times = controller.election_times
    kind = "kafka.controller:type=ControllerStats,name="
    yield _histogram(f"{kind}LeaderElectionRateAndTimeMs", times.election_ms)
    yield _meter(f"{kind}UncleanLeaderElectionsPerSec", times.unclean_elections)
    queued = controller.times.event_queue_ms(node.world.clock.elapsed_ms())
    kind = "kafka.controller:type=ControllerEventManager,name="
    yield _histogram(f"{kind}EventQueueTimeMs", queued)
    yield _gauge(f"{kind}EventQueueSize", len(controller.inbox.queue))


def _counts(context: ControllerContext | None) -> tuple[tuple[str, int], ...]:
    if context is None:
        context = ControllerContext()
    imbalanced = sum(
        leadership.leader != context.assignments[partition].replicas[0]
        for partition, leadership in context.leaderships.items()
        if not context.is_queued_for_deletion(partition.topic) and context.replicas(partition)
    )
    return (
        ("OfflinePartitionsCount", context.offline_partition_count),
        ("GlobalTopicCount", len(context.topics)),
        ("GlobalPartitionCount", len(context.assignments)),
        ("PreferredReplicaImbalanceCount", imbalanced),
    )


def _of_replicas(node: Node) -> Iterator[Metric]:
    manager = node.replica_manager
    replicas, meters = manager.replicas.values(), manager.meters
    led = [each for each in replicas if each.is_leader]
    kind = "kafka.server:type=ReplicaManager,name="
    yield _gauge(f"{kind}LeaderCount", len(led))
    yield _gauge(f"{kind}PartitionCount", len(replicas))
    under_replicated = sum(each.hosted.is_under_replicated for each in led)
    yield _gauge(f"{kind}UnderReplicatedPartitions", under_replicated)
    under_min_isr = sum(len(each.hosted.isr) < each.min_insync_replicas for each in led)
    yield _gauge(f"{kind}UnderMinIsrPartitionCount", under_min_isr)
    yield _gauge(f"{kind}OfflineReplicaCount", len(manager.leading.offline))
    yield _meter(f"{kind}IsrShrinksPerSec", meters.isr_shrinks)
    yield _meter(f"{kind}IsrExpandsPerSec", meters.isr_expands)
    lag = max(meters.lags.values(), default=0)
    yield _gauge("kafka.server:type=ReplicaFetcherManager,name=MaxLag,clientId=Replica", lag)


def _of_topics(meters: Meters) -> Iterator[Metric]:
    kind = "kafka.server:type=BrokerTopicMetrics,name="
    for name, count in (
        ("MessagesIn", meters.messages_in),
        ("BytesIn", meters.bytes_in),
        ("BytesOut", meters.bytes_out),
        ("ReplicationBytesIn", meters.replication_bytes_in),
        ("ReplicationBytesOut", meters.replication_bytes_out),
        ("TotalProduceRequests", meters.produces),
        ("TotalFetchRequests", meters.fetches),
        ("FailedProduceRequests", meters.failed_produces),
        ("FailedFetchRequests", meters.failed_fetches),
    ):
        yield _meter(f"{kind}{name}PerSec", count)


def _of_requests(meters: Meters) -> Iterator[Metric]:
    kind = "kafka.network:type=RequestMetrics,name="
    for request, meter in sorted(meters.requests.items()):
        yield _meter(f"{kind}RequestsPerSec,request={request}", meter.total_ms.count)
        yield _histogram(f"{kind}TotalTimeMs,request={request}", meter.total_ms)
        for code, count in sorted(meter.errors.items()):
            yield _meter(f"{kind}ErrorsPerSec,request={request},error={code.name}", count)


def _gauge(mbean: str, value: float) -> Metric:
    return Metric(mbean, (("Value", value),))


def _meter(mbean: str, count: int) -> Metric:
    """Of a rate only how often it was: whoever asks twice knows how often a second."""
    return Metric(mbean, (("Count", count),))


def _histogram(mbean: str, of: Histogram) -> Metric:
    values = of.percentiles(PERCENTILES)
    named = zip(ATTRIBUTES, values, strict=True)
    return Metric(mbean, (("Count", of.count), *named))
