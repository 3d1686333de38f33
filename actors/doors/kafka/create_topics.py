"""CreateTopics: make these.

Rule: only the controller's broker does it. Since version 5 the answer says how a topic is
configured, which is asked for once it is there.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from actors.doors.kafka.call import Api, Call
from actors.doors.kafka.shapes import milliseconds
from wire.admin import (
    CreatedTopic,
    CreateTopics,
    CreateTopicsResponse,
    NewTopic,
    PartitionAssignment,
)
from wire.configs import (
    ConfigEntry,
    ConfigQuery,
    ConfigResource,
    ConfigResourceType,
    DescribeConfigs,
    DescribeConfigsResponse,
)
from wire.errors import ErrorCode

_WITH_CONFIGS: Final = 5  # version

Entries = Mapping[str, Sequence[ConfigEntry]]


def serve(call: Call) -> None:
    """Each topic by itself."""
    request = call.request
    wanted = CreateTopics(
        topics=tuple(map(_wanted, request.topics)),
        timeout_ms=milliseconds(request.timeout),
        validate_only=request.validate_only,
    )
    call.ask(wanted, lambda response: _created(call, response))


def _wanted(topic: Any) -> NewTopic:
    return NewTopic(
        topic=topic.name,
        num_partitions=topic.num_partitions,
        replication_factor=topic.replication_factor,
        assignments=tuple(
            PartitionAssignment(each.partition_index, tuple(each.broker_ids))
            for each in topic.assignments
        ),
        configs=tuple((each.name, each.value) for each in topic.configs),
    )


def _created(call: Call, response: CreateTopicsResponse) -> None:
    made = [each.topic for each in response.topics if each.topic_id is not None]
    if call.version < _WITH_CONFIGS or not made:
        _answer(call, response, {})
        return
    kind = ConfigResourceType.TOPIC
    describe = DescribeConfigs(
        resources=tuple(ConfigQuery(ConfigResource(kind, topic)) for topic in made)
    )

    def described(configs: DescribeConfigsResponse) -> None:
        _answer(call, response, {each.resource.name: each.entries for each in configs.resources})

    call.ask(describe, described)


def _answer(call: Call, response: CreateTopicsResponse, configs: Entries) -> None:
    call.answer(topics=[_topic(each, configs.get(each.topic, ())) for each in response.topics])


def _topic(topic: CreatedTopic, entries: Sequence[ConfigEntry]) -> dict[str, Any]:
    return {
        "name": topic.topic,
        "topic_id": topic.topic_id,
        "error_code": topic.error_code,
        "error_message": topic.error_message,
        "num_partitions": topic.num_partitions,
        "replication_factor": topic.replication_factor,
        "configs": map(_config, entries) if topic.error_code is ErrorCode.NONE else (),
    }


def _config(entry: ConfigEntry) -> dict[str, Any]:
    return {
        "name": entry.name,
        "value": entry.value,
        "read_only": entry.is_read_only,
        "config_source": int(entry.source),
        "is_sensitive": entry.is_sensitive,
    }


API: Final = Api(key=19, name="CreateTopics", least=2, most=7, serve=serve)
