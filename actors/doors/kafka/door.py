"""The door for Kafka's clients, on every broker.

Rule: it opens once the broker is registered, and closes before the broker's other actors stop. It
only translates: whoever answers the brokers' own clients answers these, too.
"""

from collections.abc import Mapping
from typing import Any, Final

from actors.broker.metadata import MetadataCache
from actors.broker.routing import Routing
from actors.config import BrokerConfig
from actors.doors.kafka.call import Api
from actors.doors.kafka.conversation import Conversation
from actors.doors.kafka.table import APIS, BY_KEY
from runtime.actor import Actor
from runtime.listener import Caller, Listener

KAFKA: Final = "KAFKA"  # the listener's name

SPOKEN: Final[tuple[Mapping[str, Any], ...]] = tuple(
    {"api_key": each.key, "min_version": each.least, "max_version": each.most}
    for each in sorted(APIS, key=lambda each: each.key)
)


class KafkaDoor(Actor):
    """Lets clients in."""

    def __init__(
        self,
        listener: Listener,
        config: BrokerConfig,
        cluster: MetadataCache,
        routing: Routing,
    ) -> None:
        super().__init__()
        self._place = listener
        self.listener = KAFKA
        self.config = config
        self.cluster = cluster
        self.routing = routing
        self.spoken = SPOKEN

    async def on_start(self) -> None:
        """Open."""
        self._place.serve(self._converse)

    async def on_receive(self, message: Exception) -> None:
        """The door is stuck: a bug, which takes the node down as any other."""
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

    def _converse(self, caller: Caller) -> Conversation:
        return Conversation(self, caller)
