"""One request of one client, for the API's file that serves it.

Rule: a call ends once: answered, left without an answer because none was wanted, or with the end of
its connection. Calls of one connection are answered in the order in which they came.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol, TypeVar, cast

from actors.asked import refusal
from actors.broker.metadata import MetadataCache
from actors.broker.routing import Routing
from actors.config import BrokerConfig
from actors.doors.kafka.header import CORRELATION, NO_TAGS, Header
from actors.doors.kafka.login import Login
from actors.doors.kafka.shapes import Shape
from runtime.listener import Buffer
from wire.codec import RESPONSE_OF
from wire.errors import ApiError
from wire.message import Message, Request

MOST_BYTES: Final = 8 << 20  # of a request without records: objects take many times their bytes

Response = TypeVar("Response", bound=Message)


@dataclass(frozen=True, kw_only=True)
class Api:
    """One row of the table: what is spoken, and who serves it."""

    key: int
    name: str
    least: int  # version
    most: int
    serve: Callable[["Call"], None]
    may_follow: bool = False  # may be begun while others of its kind wait for their answers
    before_login: bool = False
    most_bytes: int = MOST_BYTES


class Hall(Protocol):
    """What the door has, for those who serve."""

    @property
    def listener(self) -> str:
        """Whose addresses callers are told."""

    @property
    def config(self) -> BrokerConfig:
        """The broker's settings."""

    @property
    def cluster(self) -> MetadataCache:
        """What the broker was told of the cluster: to be read, and left as it is."""

    @property
    def routing(self) -> Routing:
        """The way to the broker's actors."""

    @property
    def spoken(self) -> Sequence[Mapping[str, Any]]:
        """The table, as ApiVersions tells it."""


class Reception(Protocol):
    """The connection by which a call came."""

    @property
    def source(self) -> str:
        """Whose it is."""

    @property
    def login(self) -> Login:
        """Whether he may ask."""

    def finish(self, call: "Call", parts: Sequence[Buffer] | None) -> None:
        """The call's answer, or that there is none."""

    def refuse(self, reason: str) -> None:
        """End the connection at once."""

    def part(self, reason: str) -> None:
        """End it once the answer is sent."""


class Call:
    """A request, and how to answer it."""

    __slots__ = (
        "_shape",
        "answered",
        "api",
        "fault",
        "hall",
        "header",
        "reception",
        "refusal",
        "request",
        "size",
        "version",
    )

    def __init__(
        self, api: Api, header: Header, shape: Shape, size: int, hall: Hall, reception: Reception
    ) -> None:
        self.api = api
        self.header = header
        self.version = header.version
        self.request: Any = None  # kio's entity, or for APIs that read by hand the bytes
        self.size = size
        self.hall = hall
        self.reception = reception
        self.answered: Sequence[Buffer] | None = None
        self.refusal: ApiError | None = None  # given: nobody is asked, and this is the answer
        self.fault: Any = None  # what is done to it on purpose
        self._shape = shape

    @property
    def cluster(self) -> MetadataCache:
        """What the broker was told of the cluster."""
        return self.hall.cluster

    def ask(self, request: Request[Response], then: Callable[[Response], None]) -> None:
        """Have the broker's actors answer one of our own messages; `then` answers the call."""
        expected = RESPONSE_OF[type(request)]
        if self.refusal is not None:
            then(cast(Response, refusal(request, self.refusal)))
            return

        def take(response: Message) -> None:
            assert type(response) is expected, f"{response} is no answer to {request}"
            then(cast(Response, response))

        found = self.hall.routing.pass_on(request, self.reception.source, take)
        assert found, f"nobody here answers {type(request).__name__}"

    def answer(self, **fields: Any) -> None:
        """Answer with these fields, as far as the version has them."""
        fields.setdefault("throttle_time", 0)
        self.answer_with((self._shape.encode(fields),))

    def answer_with(self, parts: Sequence[Buffer]) -> None:
        """Answer with these bytes."""
        head = CORRELATION.pack(self.header.correlation)
        if self._shape.has_flexible_answer:
            head += NO_TAGS
        self.reception.finish(self, (head, *parts))

    def leave_unanswered(self) -> None:
        """None is wanted."""
        self.reception.finish(self, None)

    def refuse(self, reason: str) -> None:
        """End the connection: there is no answer that would say it."""
        self.reception.refuse(reason)
