"""The controller's line to one broker.

Rule: one request under way at a time, in the order in which they were given, each sent again until
it is answered or the broker is removed (B123). Nobody waits for an answer before going on (B134):
answers come back to the controller as events.
"""

from collections import deque
from dataclasses import dataclass
from typing import Final

from actors.controller.events import LeaderAndIsrAnswered, StopReplicaAnswered
from runtime.actor import Actor
from runtime.network import NetworkError
from runtime.ref import Outcome, Receiver
from runtime.world import World
from wire.codec import AnyMessage
from wire.control import LeaderAndIsrResponse, StopReplicaResponse
from wire.errors import ErrorCode, MalformedMessage
from wire.ids import (
    UNKNOWN_BROKER_EPOCH,
    BrokerEpoch,
    BrokerId,
    ControllerEpoch,
    TopicPartition,
)
from wire.parted import Payload, unpack
from wire.trace import FrameRefused

BACKOFF_MS: Final = 100


@dataclass(frozen=True)
class Send:
    """Controller → channel: this, after all that came before."""

    request: str  # its name, for the trace
    payload: bytes
    deleted: frozenset[TopicPartition] = frozenset()  # what a StopReplica deletes
    broker_epoch: BrokerEpoch = UNKNOWN_BROKER_EPOCH  # the life of the broker that it is for


@dataclass(frozen=True)
class _Ended:
    """The call under way is over."""

    outcome: Outcome


@dataclass(frozen=True)
class _Again:
    """Time to send the same again."""


ChannelMessage = Send | _Ended | _Again


class Channel(Actor):
    """Sends to one broker for one controller epoch."""

    def __init__(
        self,
        world: World,
        destination: str,
        broker: BrokerId,
        epoch: ControllerEpoch,
        controller: Receiver,
        *,
        timeout_ms: int,  # controller.socket.timeout.ms
    ) -> None:
        super().__init__()
        self._world = world
        self._destination = destination
        self._broker = broker
        self._epoch = epoch
        self._controller = controller
        self._timeout_ms = timeout_ms
        self._waiting: deque[Send] = deque()  # the first is under way

    async def on_receive(self, message: ChannelMessage) -> None:
        """One message at a time."""
        match message:
            case Send():
                self._waiting.append(message)
                if len(self._waiting) == 1:
                    self._send()
            case _Ended():
                self._on_ended(message.outcome)
            case _Again():
                self._send()

    def _send(self) -> None:
        first = self._waiting[0]
        call = self._world.network.call(
            self._destination, first.payload, timeout_ms=self._timeout_ms, label=first.request
        )
        self.pipe(call, _Ended)

    def _on_ended(self, outcome: Outcome) -> None:
        if isinstance(outcome.error, NetworkError):
            self.after(BACKOFF_MS, _Again())
            return
        response = self._decoded(outcome.get())
        if getattr(response, "error_code", None) is ErrorCode.BROKER_NOT_AVAILABLE:
            self.after(BACKOFF_MS, _Again())  # its inbox is full: it has not taken the request
            return
        self._report(self._waiting.popleft(), response)
        if self._waiting:
            self._send()

    def _decoded(self, payload: Payload) -> AnyMessage | None:
        try:
            return unpack(payload)
        except MalformedMessage as error:
            self._world.trace(FrameRefused(self._destination, str(error)))
            return None

    def _report(self, sent: Send, response: AnyMessage | None) -> None:
        if isinstance(response, LeaderAndIsrResponse):
            self._controller.tell(
                LeaderAndIsrAnswered(self._broker, self._epoch, response, sent.broker_epoch)
            )
        elif isinstance(response, StopReplicaResponse) and sent.deleted:
            self._controller.tell(
                StopReplicaAnswered(
                    self._broker, self._epoch, response, sent.deleted, sent.broker_epoch
                )
            )
