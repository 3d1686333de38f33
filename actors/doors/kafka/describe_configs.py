"""DescribeConfigs: what is configured.

Rule: topics and brokers are configured here, and nothing else. A broker's own values are its own to
tell, so clients ask that broker.
"""

from typing import Any, Final

from actors.doors.kafka.call import Api, Call
from wire.configs import (
    ConfigDescription,
    ConfigEntry,
    ConfigQuery,
    ConfigResource,
    ConfigResourceType,
    DescribeConfigs,
    DescribeConfigsResponse,
)
from wire.errors import ErrorCode

KNOWN: Final = frozenset(map(int, ConfigResourceType))
_KINDS: Final = {"boolean": 1, "string": 2, "int": 3, "long": 5, "double": 6}  # config_type
_MOST_DIGITS: Final = 19  # of a long


def serve(call: Call) -> None:
    """Each resource by itself."""
    known = [each for each in call.request.resources if each.resource_type in KNOWN]
    strange = [each for each in call.request.resources if each.resource_type not in KNOWN]
    wanted = DescribeConfigs(resources=tuple(map(_wanted, known)))
    call.ask(wanted, lambda response: _answer(call, response, strange))


def _wanted(resource: Any) -> ConfigQuery:
    keys = resource.configuration_keys
    return ConfigQuery(resource_of(resource), tuple(keys) if keys else None)


def resource_of(resource: Any) -> ConfigResource:
    """A topic, or a broker, as we name it."""
    return ConfigResource(ConfigResourceType(resource.resource_type), resource.resource_name)


def refused(resource: Any) -> dict[str, Any]:
    """The answer for what cannot be configured."""
    return {
        "error_code": ErrorCode.INVALID_REQUEST,
        "error_message": f"There are no resources of type {resource.resource_type} here.",
        "resource_type": resource.resource_type,
        "resource_name": resource.resource_name,
        "configs": (),
    }


def _answer(call: Call, response: DescribeConfigsResponse, strange: list[Any]) -> None:
    with_synonyms = getattr(call.request, "include_synonyms", False)
    described = [_described(each, with_synonyms) for each in response.resources]
    call.answer(results=[*described, *map(refused, strange)])


def _described(described: ConfigDescription, with_synonyms: bool) -> dict[str, Any]:
    return {
        "error_code": described.error_code,
        "error_message": described.error_message,
        "resource_type": int(described.resource.resource_type),
        "resource_name": described.resource.name,
        "configs": [_entry(each, with_synonyms) for each in described.entries],
    }


def _entry(entry: ConfigEntry, with_synonyms: bool) -> dict[str, Any]:
    own = {"name": entry.name, "value": entry.value, "source": int(entry.source)}
    return {
        "name": entry.name,
        "value": entry.value,
        "read_only": entry.is_read_only,
        "config_source": int(entry.source),
        "is_sensitive": entry.is_sensitive,
        "synonyms": (own,) if with_synonyms else (),
        "config_type": _kind(entry.value),
        "documentation": None,
    }


def _kind(value: str | None) -> int:
    """What a value looks like: we keep them as text, as ZooKeeper does."""
    if value in {"true", "false"}:
        return _KINDS["boolean"]
    digits = (value or "").removeprefix("-")
    if not (digits.isascii() and digits.isdecimal() and len(digits) <= _MOST_DIGITS):
        return _KINDS["string"]
    return _KINDS["int"] if int(digits) < 2**31 else _KINDS["long"]


API: Final = Api(key=32, name="DescribeConfigs", least=1, most=4, serve=serve)
