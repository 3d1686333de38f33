"""Orders of a controller, written by hand: what a broker does with them is for the test to say."""

from collections.abc import Iterable
from typing import Any

from wire.control import (
    LeaderAndIsr,
    LeaderAndIsrPartition,
    LiveBroker,
    StopReplica,
    StopReplicaPartition,
    UpdateMetadata,
    UpdateMetadataPartition,
)
from wire.ids import UNKNOWN_BROKER_EPOCH, Endpoint, Node, TopicPartition

EPOCH = 1  # of the first controller, which reigns in a cluster that has just started
ALL = (1, 2, 3)


def order(partition: TopicPartition, leader: int, epoch: int, **fields: Any) -> Any:
    """What a LeaderAndIsr says of one partition: by default all three brokers have it."""
    defaults = {"isr": ALL, "replicas": ALL, "partition_epoch": epoch, "controller_epoch": EPOCH}
    return LeaderAndIsrPartition(
        partition=partition, leader=leader, leader_epoch=epoch, **(defaults | fields)
    )


def leader_and_isr(*orders: LeaderAndIsrPartition, live: Iterable[int] = (), **fields: Any) -> Any:
    """The orders as one request of the first controller; `live` are the leaders it names."""
    nodes = tuple(Node(each, f"broker-{each}", 9092) for each in live)
    return LeaderAndIsr(**_of_controller(fields), partitions=orders, live_leaders=nodes)


def stop(partition: TopicPartition, epoch: int, *, delete: bool = False) -> StopReplicaPartition:
    return StopReplicaPartition(partition=partition, leader_epoch=epoch, delete=delete)


def stop_replica(*stops: StopReplicaPartition, **fields: Any) -> StopReplica:
    return StopReplica(**_of_controller(fields), partitions=stops)


def news(partition: TopicPartition, leader: int, epoch: int = 0, **fields: Any) -> Any:
    """What an UpdateMetadata says of one partition."""
    defaults = {"isr": ALL, "replicas": ALL, "partition_epoch": epoch, "controller_epoch": EPOCH}
    return UpdateMetadataPartition(
        partition=partition, leader=leader, leader_epoch=epoch, **(defaults | fields)
    )


def broker(number: int, listener: str = "INTERNAL", rack: str | None = None) -> LiveBroker:
    host = f"broker-{number}"
    endpoint = Endpoint(listener, "PLAINTEXT", host, 9092)
    kafka = Endpoint("KAFKA", "PLAINTEXT", host, 9093)
    return LiveBroker(id=number, endpoints=(endpoint, kafka), rack=rack)


def update_metadata(
    *partitions: UpdateMetadataPartition,
    brokers: Iterable[LiveBroker] = tuple(map(broker, ALL)),
    **fields: Any,
) -> UpdateMetadata:
    live = tuple(brokers)
    return UpdateMetadata(**_of_controller(fields), partitions=partitions, live_brokers=live)


def _of_controller(fields: dict[str, Any]) -> dict[str, Any]:
    common = {
        "controller_id": 1,
        "controller_epoch": EPOCH,
        "broker_epoch": UNKNOWN_BROKER_EPOCH,
    }
    return common | fields
