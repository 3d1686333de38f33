"""The broker's front door: the table request → who handles it.

Rule: whatever bytes come in, exactly one answer goes out, and bad bytes harm nobody.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Final

from actors.asked import asked, refusal
from actors.broker.meters import Meters
from runtime.actor import Actor
from runtime.network import Incoming
from runtime.ref import InboxFull, Ref
from runtime.world import World
from wire.admin import (
    AlterPartitionReassignments,
    CreatePartitions,
    CreateTopics,
    DeleteTopics,
    ElectLeaders,
    ListPartitionReassignments,
)
from wire.codec import encode
from wire.configs import DescribeConfigs, IncrementalAlterConfigs
from wire.control import ControlledShutdown, LeaderAndIsr, StopReplica, UpdateMetadata
from wire.data import Fetch, ListOffsets, OffsetForLeaderEpoch, Produce
from wire.errors import BrokerNotAvailable, ErrorCode, MalformedMessage
from wire.groups import FindCoordinator, ListGroups, OffsetCommit, OffsetFetch
from wire.message import CODES, Message
from wire.metadata import (
    ApiVersionRange,
    ApiVersions,
    ApiVersionsResponse,
    DescribeCluster,
    Metadata,
)
from wire.observation import Observe, ObserveResponse
from wire.parted import pack, unpack
from wire.trace import FrameRefused

ROUTES: Final[Mapping[type[Message], str]] = {
    LeaderAndIsr: "replica-manager",
    StopReplica: "replica-manager",
    UpdateMetadata: "replica-manager",
    Produce: "replica-manager",
    Fetch: "replica-manager",
    ListOffsets: "replica-manager",
    OffsetForLeaderEpoch: "replica-manager",
    Metadata: "replica-manager",
    DescribeCluster: "replica-manager",
    FindCoordinator: "group-coordinator",
    OffsetCommit: "group-coordinator",
    OffsetFetch: "group-coordinator",
    ListGroups: "group-coordinator",
    ControlledShutdown: "controller",
    ElectLeaders: "controller",
    AlterPartitionReassignments: "controller",
    ListPartitionReassignments: "controller",
    CreateTopics: "administrator",
    CreatePartitions: "administrator",
    DeleteTopics: "administrator",
    DescribeConfigs: "administrator",
    IncrementalAlterConfigs: "administrator",
}


# Requests that a handler has taken and not answered. Its inbox holds more: what its own node tells
# it, watches and answers and ends of waits, must always find room, or the node would go down.
MOST_UNANSWERED: Final = 50_000


# What the cluster lives by is not kept waiting by clients, however many of them wait.
CONTROL: Final = (LeaderAndIsr, StopReplica, UpdateMetadata)


class Api(Actor):
    """Takes what other nodes and clients send, and passes it to whoever answers it."""

    def __init__(
        self,
        world: World,
        handlers: Mapping[str, Ref],
        observe: Callable[[Observe], ObserveResponse] | None = None,
        meters: Meters | None = None,
    ) -> None:
        super().__init__()
        self._meters = meters or Meters()
        self._observe = observe
        self._world = world
        self._handlers = handlers
        self._unanswered = Counter[str]()  # by handler

    async def on_start(self) -> None:
        """Open the door."""
        self._world.network.serve(self)

    async def on_receive(self, message: Exception) -> None:
        """The door is stuck: a bug, which takes the node down as any other."""
        raise message

    def tell(self, message: Incoming) -> None:
        """Decode, look up, pass on, at once: whoever answers has an inbox of his own."""
        try:
            self._take(message)
        except Exception as bug:  # noqa: BLE001 - raised where a crash is noticed
            self.ref.tell(bug)

    def _take(self, message: Incoming) -> None:
        try:
            request = unpack(message.payload)
        except MalformedMessage as error:
            self._world.trace(FrameRefused(message.source, str(error)))
            message.reply(encode(ApiVersionsResponse(error_code=ErrorCode.INVALID_REQUEST)))
            return
        handler = self._handlers.get(ROUTES.get(type(request), ""))
        if isinstance(request, ApiVersions):
            message.reply(encode(api_versions()))
        elif isinstance(request, Observe) and self._observe is not None:
            message.reply(encode(self._observe(request)))
        elif handler is None:
            message.reply(encode(unsupported()))
        else:
            self._pass_on(request, message, handler)

    def _pass_on(self, request: Message, message: Incoming, handler: Ref) -> None:
        name = handler.address
        counts = 0 if _is_of_the_cluster(request) else 1
        elapsed_ms = self._world.clock.elapsed_ms
        begun_ms = elapsed_ms()

        def answer(response: Message) -> None:
            self._unanswered[name] -= counts
            message.reply(pack(response))
            self._meters.answered(request, response, elapsed_ms() - begun_ms)

        self._unanswered[name] += counts
        try:
            if counts and self._unanswered[name] > MOST_UNANSWERED:
                raise InboxFull(f"{name} has {MOST_UNANSWERED} requests to answer")
            handler.tell(asked(request, message.source, answer))
        except InboxFull:
            answer(refusal(request, BrokerNotAvailable("this broker has too much to do")))


def _is_of_the_cluster(request: Message) -> bool:
    """Whether a controller or a follower sends it."""
    return isinstance(request, CONTROL) or (isinstance(request, Fetch) and request.replica_id >= 0)


def api_versions() -> Message:
    """All that is answered here, by its msgpack code."""
    names = ["ApiVersions", "Observe", *(request.__name__ for request in ROUTES)]
    codes = sorted(CODES[name] for name in names)
    return ApiVersionsResponse(api_keys=tuple(ApiVersionRange(code, 0, 0) for code in codes))


def unsupported() -> Message:
    """As a Kafka broker answers a request that it does not know."""
    return ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
