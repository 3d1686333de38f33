"""From an exception to a status, and from a value to JSON.

Rule: an error is an object with a code and a sentence; a status is chosen in one table. A bug is
not caught: aiohttp answers 500, and says nothing of it.
"""

from collections.abc import Mapping
from typing import Any, Final

import msgspec
from aiohttp import web

from actors.config import BadConfig
from actors.doors.http.guard import Refused
from actors.faults.hand import FaultRefused
from actors.operations.operation import BadInput
from wire.errors import ApiError, ErrorCode, MalformedMessage

STATUS_OF: Final[Mapping[ErrorCode, int]] = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: 404,
    ErrorCode.UNKNOWN_TOPIC_ID: 404,
    ErrorCode.GROUP_ID_NOT_FOUND: 404,
    ErrorCode.TOPIC_ALREADY_EXISTS: 409,
    ErrorCode.REASSIGNMENT_IN_PROGRESS: 409,
    ErrorCode.NO_REASSIGNMENT_IN_PROGRESS: 409,
    ErrorCode.ELECTION_NOT_NEEDED: 409,
    ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE: 409,
    ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE: 409,
    ErrorCode.OFFSET_OUT_OF_RANGE: 409,
    ErrorCode.REQUEST_TIMED_OUT: 503,
    ErrorCode.NETWORK_EXCEPTION: 503,
    ErrorCode.NOT_CONTROLLER: 503,
    ErrorCode.BROKER_NOT_AVAILABLE: 503,
    ErrorCode.LEADER_NOT_AVAILABLE: 503,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: 503,
    ErrorCode.NOT_ENOUGH_REPLICAS: 503,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND: 503,
    ErrorCode.COORDINATOR_NOT_AVAILABLE: 503,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: 503,
    ErrorCode.NOT_COORDINATOR: 503,
    ErrorCode.KAFKA_STORAGE_ERROR: 503,
    ErrorCode.MESSAGE_TOO_LARGE: 413,
}
BAD_REQUEST: Final = 400
EXPECTED: Final = (
    ApiError,
    BadInput,
    BadConfig,
    FaultRefused,
    MalformedMessage,
    msgspec.ValidationError,
    msgspec.DecodeError,
)


def refusal_of(error: Exception) -> Refused:
    """What is told of an error that was to be expected."""
    match error:
        case ApiError():
            return Refused(STATUS_OF.get(error.code, BAD_REQUEST), error.code.name, str(error))
        case FaultRefused():
            return Refused(409, "FAULT_REFUSED", str(error))
        case MalformedMessage():
            return Refused(503, "NETWORK_EXCEPTION", str(error))
        case msgspec.ValidationError():
            return Refused(BAD_REQUEST, "INVALID_REQUEST", _named(str(error)))
        case msgspec.DecodeError():
            return Refused(BAD_REQUEST, "INVALID_REQUEST", f"the body is no JSON: {error}")
    return Refused(BAD_REQUEST, "INVALID_REQUEST", str(error))


def _named(text: str) -> str:
    """msgspec's sentence with the field first: `partitions: Expected `int`, got `str``."""
    what, at, where = text.partition(" - at `$")
    field = where.strip("`.").lstrip(".")
    return f"{field}: {what}" if at and field else what


def json(value: Any, status: int = 200) -> web.Response:
    """A value as JSON."""
    body = b"" if value is None and status == 204 else msgspec.json.encode(value)  # noqa: PLR2004
    return web.Response(body=body, status=status, content_type="application/json")
