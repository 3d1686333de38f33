"""The door for Kafka's clients, on every broker.

Rule: it opens once the broker is registered, and closes before the broker's other actors stop. It
only translates: whoever answers the brokers' own clients answers these, too.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from actors.broker.metadata import MetadataCache
from actors.broker.routing import Routing
from actors.config import BrokerConfig
from actors.doors.kafka.call import Api, Call
from actors.doors.kafka.conversation import Conversation
from actors.doors.kafka.credentials import Credentials
from actors.doors.kafka.login import Login
from actors.doors.kafka.table import APIS, BY_KEY
from actors.faults.vocabulary import OnRequest
from runtime.actor import Actor
from runtime.listener import Caller, Listener
from runtime.tampering import Tamper
from runtime.world import World
from wire.trace import FrameRefused

KAFKA: Final = "KAFKA"  # the listener's name

SPOKEN: Final[tuple[Mapping[str, Any], ...]] = tuple(
    {"api_key": each.key, "min_version": each.least, "max_version": each.most}
    for each in sorted(APIS, key=lambda each: each.key)
)


@dataclass(frozen=True)
class Begin:
    """A call has waited as long as a fault wanted it to."""

    conversation: Conversation
    call: Call


@dataclass(frozen=True)
class IsOpen:
    """Node → door: answered once callers can come in."""


DoorMessage = Begin | IsOpen | Exception


class KafkaDoor(Actor):
    """Lets clients in."""

    def __init__(
        self,
        world: World,
        listener: Listener,
        config: BrokerConfig,
        cluster: MetadataCache,
        routing: Routing,
        tamper: Tamper,
        credentials: Credentials | None = None,
    ) -> None:
        super().__init__()
        self._world = world
        self._tamper = tamper
        self._credentials = credentials
        self._place = listener
        self.listener = KAFKA
        self.config = config
        self.cluster = cluster
        self.routing = routing
        self.spoken = SPOKEN

    async def on_start(self) -> None:
        """Open."""
        await self._place.serve(self._converse)

    async def on_receive(self, message: DoorMessage) -> None:
        """A bug in the door takes the node down, as any other."""
        match message:
            case Begin():
                message.conversation.begin_late(message.call)
            case IsOpen():
                pass
            case _:
                raise message

    async def on_stop(self) -> None:
        """Close; whoever still waits finds the connection closed."""
        await self._place.close()

    def api(self, key: int) -> Api | None:
        """What is spoken here under this number."""
        return BY_KEY.get(key)

    def crashed(self, bug: Exception) -> None:
        """Raised where a crash is noticed."""
        self.ref.tell(bug)

    def fault(self, call: Call) -> OnRequest | None:
        """What is done to a call on purpose."""
        if not self._tamper.requests:
            return None
        node, client = self._world.node, call.header.client_id
        found: OnRequest | None = self._tamper.treatment(node, call.api.name, client)
        return found

    def complain(self, source: str, reason: str) -> None:
        """Leave word of a caller who was sent away."""
        self._world.trace(FrameRefused(source, reason))

    def begin_later(self, conversation: Conversation, call: Call, delay_ms: float) -> None:
        """Let a call wait."""
        self.after(delay_ms, Begin(conversation, call))

    def _converse(self, caller: Caller) -> Conversation:
        login = Login(self._credentials, self._world.random.randbytes)
        return Conversation(self, caller, login)
