"""One connection of one client.

Rule: calls are answered in the order in which they came. As in Kafka one is served after the other,
but for those that may follow each other: each of a row of Produce requests would else wait for the
replicas of the one before. What is no request ends the connection, and harms nobody else.
"""

from collections import deque
from collections.abc import Sequence
from typing import Final, Protocol

from actors.doors.kafka.call import Api, Call, Hall
from actors.doors.kafka.credentials import LoginFailed
from actors.doors.kafka.header import Header, read_header, skip_tags
from actors.doors.kafka.login import Login
from actors.doors.kafka.shapes import shape_of
from actors.faults.vocabulary import (
    BlackholeRequest,
    DelayRequest,
    DisconnectRequest,
    OnRequest,
    RefuseRequest,
)
from runtime.listener import Buffer, Caller
from wire.errors import ErrorCode, MalformedMessage, exception_of

MOST_FOLLOWING: Final = 1_000  # calls of one connection that are under way
MOST_FOLLOWING_BYTES: Final = 64 << 20
API_VERSIONS: Final = 18


class Server(Hall, Protocol):
    """The door, for its conversations."""

    def api(self, key: int) -> Api | None:
        """What is spoken here under this number."""

    def fault(self, call: Call) -> OnRequest | None:
        """What is done to a call on purpose."""

    def begin_later(self, conversation: "Conversation", call: Call, delay_ms: float) -> None:
        """Let a call wait."""

    def complain(self, source: str, reason: str) -> None:
        """Leave word of a caller who was sent away."""

    def crashed(self, bug: Exception) -> None:
        """Something is wrong with us, and not with a caller."""


class Conversation:
    """What is said by one client, and answered."""

    def __init__(self, server: Server, caller: Caller, login: Login) -> None:
        self.login = login
        self._server = server
        self._caller = caller
        self._calls: deque[Call] = deque()  # under way, in their order
        self._ended: dict[Call, None] = {}  # answered out of their turn, or left without an answer
        self._next: tuple[Api, Header, memoryview] | None = None  # it may not begin yet
        self._bytes = 0
        self._is_open = True

    @property
    def source(self) -> str:
        """Whose calls these are."""
        return self._caller.name

    def take(self, frame: memoryview) -> None:
        """A frame: begin the call, or keep it until it may begin."""
        try:
            self._take(frame)
        except MalformedMessage as error:
            self.refuse(str(error))
        except Exception as bug:  # noqa: BLE001 - raised where a crash is noticed
            self._server.crashed(bug)

    def ended(self) -> None:
        """The caller is gone; what is still answered is lost."""
        self._is_open = False
        self._calls.clear()
        self._ended.clear()
        self._next = None

    def refuse(self, reason: str) -> None:
        """End the connection."""
        if self._is_open:
            self._caller.refuse(reason)

    def part(self, reason: str) -> None:
        """End it once all is sent."""
        if self._is_open:
            self._server.complain(self.source, reason)
            self._caller.hang_up()

    # --- calls ------------------------------------------------------------------------------------

    def _take(self, frame: memoryview) -> None:
        if self.login.takes_bare_tokens:
            self._take_token(bytes(frame))
            return
        header = read_header(frame)
        api = self._server.api(header.api_key)
        if api is None:
            raise MalformedMessage(f"there is no API {header.api_key}")
        if not api.least <= header.version <= api.most and api.key != API_VERSIONS:
            raise MalformedMessage(f"{api.name} has no version {header.version} here")
        if not (self.login.is_complete or api.before_login):
            raise MalformedMessage(f"{api.name} of somebody who has not logged in")
        if len(frame) > api.most_bytes:
            raise MalformedMessage(f"{api.name} of {len(frame)} bytes")
        if self._may_begin(api):
            self._begin(api, header, frame)
        else:
            assert self._next is None, "nothing comes while one waits"
            self._next = (api, header, frame)
            self._caller.hold()

    def _take_token(self, token: bytes) -> None:
        try:
            self._caller.send((self.login.take(token),))
        except LoginFailed as error:
            self.refuse(str(error))

    def _may_begin(self, api: Api) -> bool:
        if not self._calls:
            return True
        return (
            api.may_follow
            and self._calls[-1].api is api
            and self._calls[-1].fault is None
            and len(self._calls) < MOST_FOLLOWING
            and self._bytes < MOST_FOLLOWING_BYTES
        )

    def _begin(self, api: Api, header: Header, frame: memoryview) -> None:
        is_spoken = api.least <= header.version <= api.most
        shape = shape_of(api.key, header.version if is_spoken else 0)
        call = Call(api, header, shape, len(frame), self._server, self)
        self._calls.append(call)
        self._bytes += call.size
        if not is_spoken:
            call.answer(error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=self._server.spoken)
            return
        position = skip_tags(frame, header.end) if shape.is_flexible else header.end
        call.request = shape.decode(frame, position)
        call.fault = self._server.fault(call)
        if call.fault is None:
            api.serve(call)
        else:
            self._break(call)

    def _break(self, call: Call) -> None:
        """Do to a call what a fault says."""
        match call.fault:
            case RefuseRequest(error=name):
                call.refusal = exception_of(ErrorCode[name])("It is refused on purpose.")
                call.api.serve(call)
            case DelayRequest(ms=delay_ms):
                self._server.begin_later(self, call, delay_ms)
            case DisconnectRequest(handled=False):
                self._caller.hang_up()
            case BlackholeRequest(handled=False):
                pass
            case _:
                call.api.serve(call)

    def begin_late(self, call: Call) -> None:
        """A call that had to wait."""
        if self._is_open:
            call.fault = None
            call.api.serve(call)

    def finish(self, call: Call, parts: Sequence[Buffer] | None) -> None:
        """A call has its answer, or needs none: send what is due."""
        if not self._is_open or isinstance(call.fault, BlackholeRequest):
            return
        if isinstance(call.fault, DisconnectRequest):
            self._caller.hang_up()
            return
        call.answered = parts
        self._ended[call] = None
        while self._calls and self._calls[0] in self._ended:
            first = self._calls.popleft()
            del self._ended[first]
            self._bytes -= first.size
            if first.answered is not None:
                self._caller.send(first.answered)
        if self._next is not None and self._may_begin(self._next[0]):
            following, self._next = self._next, None
            self._resume(following)
            if self._next is None:
                self._caller.go_on()

    def _resume(self, following: tuple[Api, Header, memoryview]) -> None:
        try:
            self._begin(*following)
        except MalformedMessage as error:
            self.refuse(str(error))
