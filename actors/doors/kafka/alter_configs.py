"""AlterConfigs: this is the whole configuration.

Rule: what is not named goes back to its default. So it is found out first what is set now; what
somebody else sets in between stays.
"""

from typing import Any, Final

from actors.doors.kafka.call import Api, Call
from actors.doors.kafka.describe_configs import KNOWN, resource_of
from actors.doors.kafka.incremental_alter_configs import answer
from wire.configs import (
    AlterConfigOperation,
    ConfigChange,
    ConfigChanges,
    ConfigDescription,
    ConfigQuery,
    ConfigResource,
    ConfigResourceType,
    ConfigSource,
    DescribeConfigs,
    DescribeConfigsResponse,
    IncrementalAlterConfigs,
)


def serve(call: Call) -> None:
    """Find out what is set, then change what differs."""
    known = [each for each in call.request.resources if each.resource_type in KNOWN]
    strange = [each for each in call.request.resources if each.resource_type not in KNOWN]
    described = DescribeConfigs(resources=tuple(ConfigQuery(resource_of(each)) for each in known))
    call.ask(described, lambda response: _alter(call, response, known, strange))


def _alter(
    call: Call, response: DescribeConfigsResponse, known: list[Any], strange: list[Any]
) -> None:
    wanted = IncrementalAlterConfigs(
        resources=tuple(map(_changes, known, response.resources)),
        validate_only=call.request.validate_only,
    )
    call.ask(wanted, lambda altered: answer(call, altered, strange))


def _changes(resource: Any, now: ConfigDescription) -> ConfigChanges:
    """What is wrong with the resource shows when it is to be changed."""
    given = {each.name: each.value for each in resource.configs}
    source = _source_of(now.resource)
    gone = [each.name for each in now.entries if each.source is source and each.name not in given]
    return ConfigChanges(
        now.resource,
        (
            *(ConfigChange(name, AlterConfigOperation.SET, value) for name, value in given.items()),
            *(ConfigChange(name, AlterConfigOperation.DELETE) for name in gone),
        ),
    )


def _source_of(resource: ConfigResource) -> ConfigSource:
    if resource.resource_type is ConfigResourceType.TOPIC:
        return ConfigSource.TOPIC_CONFIG
    if resource.name:
        return ConfigSource.DYNAMIC_BROKER_CONFIG
    return ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG


API: Final = Api(key=33, name="AlterConfigs", least=0, most=2, serve=serve)
