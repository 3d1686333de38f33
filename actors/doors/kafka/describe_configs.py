"""DescribeConfigs: what is configured.

Rule: topics and brokers are configured here, and nothing else. A broker's own values are its own to
tell, so clients ask that broker.
"""

from typing import Any, Final

from actors.administration.topic_configs import BROKER_KEYS, MAX_INT32, RATIO, TOPIC_KEYS
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
_BOOLEAN, _STRING, _INT, _LONG, _DOUBLE, _LIST = 1, 2, 3, 5, 6, 7  # config_type
_KEYS: Final = {**BROKER_KEYS, **TOPIC_KEYS}
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
        "config_type": _kind(entry.name, entry.value),
        "documentation": None,
    }


def _kind(name: str, value: str | None) -> int:
    """What a key may hold; of one that is not changed here, what its value looks like."""
    key = _KEYS.get(name)
    if key is not None and key.is_list:
        return _LIST
    if value in {"true", "false"}:
        return _BOOLEAN
    if key is not None and key.must_be == RATIO:
        return _DOUBLE
    digits = (value or "").removeprefix("-")
    if not (digits.isascii() and digits.isdecimal() and len(digits) <= _MOST_DIGITS):
        return _STRING
    is_int = int(digits) <= MAX_INT32 if key is None else str(MAX_INT32) in key.must_be
    return _INT if is_int else _LONG


API: Final = Api(key=32, name="DescribeConfigs", least=1, most=4, serve=serve)
