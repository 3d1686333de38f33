"""What controllers and brokers say to each other, decoded once for all who judge it.

Rule: of a frame that is no control request only its first two bytes are looked at. A request is
remembered so that its arrivals and its answers are known by it; the oldest are forgotten.
"""

from typing import Final, NamedTuple, TypeGuard, get_args

from actors.names import node_name
from wire.codec import AnyMessage
from wire.control import (
    ControlRequest,
    ControlResponse,
    LeaderAndIsr,
    StopReplica,
    UpdateMetadata,
)
from wire.errors import MalformedMessage
from wire.frame import Frame, FrameKind
from wire.ids import BrokerId
from wire.message import CODES
from wire.parted import Parted, Payload, unpack

REMEMBERED: Final = 10_000
Order = LeaderAndIsr | StopReplica | UpdateMetadata  # what a controller tells a broker
REQUESTS: Final = get_args(ControlRequest)
RESPONSES: Final = get_args(ControlResponse)
_CODES: Final = frozenset(CODES[request.__name__] for request in REQUESTS)
_LONGEST: Final = 127  # the greatest code that msgpack writes in one byte
assert max(_CODES) <= _LONGEST, "the second byte of a control request is its code"


class Call(NamedTuple):
    """A control request on its way; a second try is another call."""

    source: str
    destination: str
    correlation: int
    request: ControlRequest


class Calls:
    """The control requests that are under way, or were."""

    def __init__(self) -> None:
        self._calls: dict[tuple[str, str, int], Call] = {}

    def sent(self, frame: Frame) -> Call | None:
        """The call that a frame begins, if it begins one."""
        if frame.kind is not FrameKind.REQUEST or not is_control(frame.payload):
            return None
        request = _decoded(frame)
        if not isinstance(request, REQUESTS):
            return None
        call = Call(frame.source, frame.destination, frame.correlation, request)
        self._calls[call[:3]] = call
        if len(self._calls) > REMEMBERED:
            del self._calls[next(iter(self._calls))]
        return call

    def arrived(self, frame: Frame) -> Call | None:
        """The call that has come, if it is one."""
        if frame.kind is not FrameKind.REQUEST:
            return None
        return self._calls.get((frame.source, frame.destination, frame.correlation))

    def answered(self, frame: Frame) -> tuple[Call, ControlResponse] | None:
        """The call that a frame answers, and how."""
        if frame.kind is not FrameKind.RESPONSE:
            return None
        call = self._calls.get((frame.destination, frame.source, frame.correlation))
        response = None if call is None else _decoded(frame)
        if call is None or not _is_response(response):
            return None
        return call, response


def is_control(payload: Payload) -> bool:
    """Whether a message is a control request, by the code that it begins with."""
    return not isinstance(payload, Parted) and len(payload) > 1 and payload[1] in _CODES


def broker_at(node: str) -> BrokerId | None:
    """Which broker a node is, if it is one."""
    name, _, number = node.rpartition("-")
    is_broker = name == "broker" and number.isdigit() and node_name(int(number)) == node
    return BrokerId(int(number)) if is_broker else None


def _is_response(message: AnyMessage | None) -> TypeGuard[ControlResponse]:
    return isinstance(message, RESPONSES)


def _decoded(frame: Frame) -> AnyMessage | None:
    try:
        return unpack(frame.payload)
    except MalformedMessage:
        return None
