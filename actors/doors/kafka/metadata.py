"""Metadata: who is in the cluster, and who leads.

Rule: any broker answers, with the addresses of the listener by which it was asked.
"""

from typing import Any, Final

from actors.doors.kafka.call import Api, Call
from actors.doors.kafka.shapes import topic_id_of
from wire.errors import ErrorCode
from wire.ids import NO_BROKER, Node, TopicId
from wire.metadata import Metadata, MetadataPartition, MetadataResponse, MetadataTopic

_NULL_MEANS_ALL: Final = 1  # version: before it an empty list did
_UNKNOWN_LISTENERS: Final = 6  # version: before it clients did not know of them
NOT_ASKED: Final = -(2**31)  # which operations are allowed: there is nobody to say so


def serve(call: Call) -> None:
    """Topics by their names, or by their ids; unknown ids are answered here."""
    request = call.request
    topics = request.topics
    if topics is not None and call.version < _NULL_MEANS_ALL and not topics:
        topics = None
    names, unknown = (None, []) if topics is None else _named(call, topics)
    wanted = Metadata(
        topics=names,
        allow_auto_topic_creation=getattr(request, "allow_auto_topic_creation", True),
        listener=call.hall.listener,
    )
    call.ask(wanted, lambda response: _answer(call, response, unknown))


def _named(call: Call, topics: Any) -> tuple[tuple[str, ...], list[TopicId]]:
    """The names of what is asked for, and the ids that nobody has."""
    names, unknown = [], []
    for topic in topics:
        topic_id = topic_id_of(getattr(topic, "topic_id", None))
        if topic_id is None:
            names.append(topic.name or "")
        elif topic_id in call.cluster.topic_names:
            names.append(call.cluster.topic_names[topic_id])
        else:
            unknown.append(topic_id)
    return tuple(names), unknown


def _answer(call: Call, response: MetadataResponse, unknown: list[TopicId]) -> None:
    named = [_topic(call.version, each) for each in response.topics]
    unnamed = [
        {
            "error_code": ErrorCode.UNKNOWN_TOPIC_ID,
            "name": None,
            "topic_id": topic_id,
            "partitions": (),
        }
        for topic_id in unknown
    ]
    call.answer(
        brokers=[broker(each) for each in call.cluster.nodes(call.hall.listener)],
        cluster_id=response.cluster_id,
        controller_id=response.controller_id,
        topics=[*named, *unnamed],
        cluster_authorized_operations=NOT_ASKED,
    )


def broker(node: Node) -> dict[str, Any]:
    """A broker as callers see it."""
    return {"node_id": node.id, "host": node.host, "port": node.port, "rack": node.rack}


def _topic(version: int, topic: MetadataTopic) -> dict[str, Any]:
    return {
        "error_code": topic.error_code,
        "name": topic.topic,
        "topic_id": topic.topic_id,
        "is_internal": topic.is_internal,
        "partitions": [_partition(version, each) for each in topic.partitions],
    }


def _partition(version: int, partition: MetadataPartition) -> dict[str, Any]:
    error = partition.error_code
    if error is ErrorCode.LISTENER_NOT_FOUND and version < _UNKNOWN_LISTENERS:
        error = ErrorCode.LEADER_NOT_AVAILABLE
    return {
        "error_code": error,
        "partition_index": partition.partition,
        "leader_id": partition.leader if partition.leader >= 0 else NO_BROKER,
        "leader_epoch": partition.leader_epoch,
        "replica_nodes": partition.replicas,
        "isr_nodes": partition.isr,
        "offline_replicas": partition.offline_replicas,
    }


API: Final = Api(key=3, name="Metadata", least=0, most=12, serve=serve)
