"""The broker's front door: the table request → handler.

Rule: whatever bytes come in, exactly one answer goes out, and bad bytes harm nobody.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

from runtime.actor import Actor
from runtime.network import Incoming
from runtime.world import World
from wire.codec import decode, encode
from wire.errors import ErrorCode, MalformedMessage
from wire.message import CODES, Message
from wire.metadata import ApiVersionRange, ApiVersions, ApiVersionsResponse
from wire.trace import FrameRefused


class Api(Actor):
    """Takes what other nodes and clients send, and answers it."""

    def __init__(self, world: World) -> None:
        super().__init__()
        self._world = world

    async def on_start(self) -> None:
        """Open the door."""
        self._world.network.serve(self.ref)

    async def on_receive(self, message: Incoming) -> None:
        """Decode, look up, answer."""
        try:
            request = decode(message.payload)
        except MalformedMessage as error:
            self._world.trace(FrameRefused(message.source, str(error)))
            message.reply(encode(ApiVersionsResponse(error_code=ErrorCode.INVALID_REQUEST)))
            return
        handler = HANDLERS.get(type(request), unsupported)
        message.reply(encode(handler(request)))


def api_versions(_: Message) -> Message:
    """All that is answered here, by its msgpack code."""
    codes = sorted(CODES[request.__name__] for request in HANDLERS)
    return ApiVersionsResponse(api_keys=tuple(ApiVersionRange(code, 0, 0) for code in codes))


def unsupported(_: Message) -> Message:
    """As a Kafka broker answers a request that it does not know."""
    return ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)


Handler = Callable[[Any], Message]
HANDLERS: Final[Mapping[type[Message], Handler]] = {ApiVersions: api_versions}
