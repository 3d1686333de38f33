"""The broker's front door: the table request → who handles it.

Rule: whatever bytes come in, exactly one answer goes out, and bad bytes harm nobody.
"""

from collections.abc import Callable, Mapping
from typing import Final

from actors.broker.routing import Routing
from runtime.actor import Actor
from runtime.network import Incoming
from runtime.world import World
from wire.admin import (
    AlterPartitionReassignments,
    CreatePartitions,
    CreateTopics,
    DeleteRecords,
    DeleteTopics,
    DescribeLogDirs,
    ElectLeaders,
    ListPartitionReassignments,
)
from wire.codec import encode
from wire.configs import DescribeConfigs, IncrementalAlterConfigs
from wire.control import ControlledShutdown, LeaderAndIsr, StopReplica, UpdateMetadata
from wire.data import Fetch, ListOffsets, OffsetForLeaderEpoch, Produce
from wire.errors import ErrorCode, MalformedMessage
from wire.groups import (
    DeleteGroups,
    DescribeGroups,
    FindCoordinator,
    Heartbeat,
    JoinGroup,
    LeaveGroup,
    ListGroups,
    OffsetCommit,
    OffsetDelete,
    OffsetFetch,
    SyncGroup,
)
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
from wire.transactions import (
    AddOffsetsToTxn,
    AddPartitionsToTxn,
    DescribeTransactions,
    EndTxn,
    InitProducerId,
    ListTransactions,
    TxnOffsetCommit,
    WriteTxnMarkers,
)

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
    DeleteRecords: "replica-manager",
    DescribeLogDirs: "replica-manager",
    FindCoordinator: "group-coordinator",
    OffsetCommit: "group-coordinator",
    OffsetFetch: "group-coordinator",
    ListGroups: "group-coordinator",
    WriteTxnMarkers: "replica-manager",
    TxnOffsetCommit: "group-coordinator",
    InitProducerId: "transaction-coordinator",
    AddPartitionsToTxn: "transaction-coordinator",
    AddOffsetsToTxn: "transaction-coordinator",
    EndTxn: "transaction-coordinator",
    DescribeTransactions: "transaction-coordinator",
    ListTransactions: "transaction-coordinator",
    JoinGroup: "group-coordinator",
    SyncGroup: "group-coordinator",
    Heartbeat: "group-coordinator",
    LeaveGroup: "group-coordinator",
    DescribeGroups: "group-coordinator",
    DeleteGroups: "group-coordinator",
    OffsetDelete: "group-coordinator",
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


class Api(Actor):
    """Takes what other nodes and clients send, and passes it to whoever answers it."""

    def __init__(
        self,
        world: World,
        routing: Routing,
        observe: Callable[[Observe], ObserveResponse] | None = None,
    ) -> None:
        super().__init__()
        self._observe = observe
        self._world = world
        self._routing = routing

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
        if isinstance(request, ApiVersions):
            message.reply(encode(api_versions()))
        elif isinstance(request, Observe) and self._observe is not None:
            message.reply(encode(self._observe(request)))
        elif not self._routing.pass_on(
            request, message.source, lambda response: message.reply(pack(response))
        ):
            message.reply(encode(unsupported()))


def api_versions() -> Message:
    """All that is answered here, by its msgpack code."""
    names = ["ApiVersions", "Observe", *(request.__name__ for request in ROUTES)]
    codes = sorted(CODES[name] for name in names)
    return ApiVersionsResponse(api_keys=tuple(ApiVersionRange(code, 0, 0) for code in codes))


def unsupported() -> Message:
    """As a Kafka broker answers a request that it does not know."""
    return ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
