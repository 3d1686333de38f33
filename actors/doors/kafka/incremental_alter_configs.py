"""IncrementalAlterConfigs: change these keys, and leave the others.

Rule: the changes to one resource are made together or not at all.
"""

from typing import Any, Final

from actors.doors.kafka.call import Api, Call
from actors.doors.kafka.describe_configs import KNOWN, refused, resource_of
from wire.configs import (
    AlterConfigOperation,
    ConfigChange,
    ConfigChanges,
    ConfigResult,
    IncrementalAlterConfigs,
    IncrementalAlterConfigsResponse,
)

_OPERATIONS: Final = frozenset(map(int, AlterConfigOperation))


def serve(call: Call) -> None:
    """Each resource by itself."""
    resources = call.request.resources
    known = [each for each in resources if each.resource_type in KNOWN and _is_possible(each)]
    strange = [each for each in resources if each not in known]
    wanted = IncrementalAlterConfigs(
        resources=tuple(map(_changes, known)), validate_only=call.request.validate_only
    )
    call.ask(wanted, lambda response: answer(call, response, strange))


def _is_possible(resource: Any) -> bool:
    return all(each.config_operation in _OPERATIONS for each in resource.configs)


def _changes(resource: Any) -> ConfigChanges:
    return ConfigChanges(
        resource_of(resource),
        tuple(
            ConfigChange(each.name, AlterConfigOperation(each.config_operation), each.value)
            for each in resource.configs
        ),
    )


def answer(call: Call, response: IncrementalAlterConfigsResponse, strange: list[Any]) -> None:
    """How it went, for each resource."""
    call.answer(responses=[*map(_result, response.resources), *map(refused, strange)])


def _result(result: ConfigResult) -> dict[str, Any]:
    return {
        "error_code": result.error_code,
        "error_message": result.error_message,
        "resource_type": int(result.resource.resource_type),
        "resource_name": result.resource.name,
    }


API: Final = Api(key=44, name="IncrementalAlterConfigs", least=0, most=1, serve=serve)
