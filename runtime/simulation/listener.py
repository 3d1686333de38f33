"""Callers from outside, in a simulated world: frames without sockets.

Rule: as runtime/tcp.py, without bytes that are too many or come too slowly.
"""

from collections.abc import Sequence

from runtime.listener import Buffer, Conversation, Converse


class SimulatedListener:
    """A place where callers come in."""

    def __init__(self, host: str, port: int) -> None:
        self.host = host
        self.port = port
        self.is_open = True
        self.is_paused = False
        self._converse: Converse | None = None
        self.callers: dict[SimulatedCaller, None] = {}

    async def serve(self, converse: Converse) -> None:
        """Talk to whoever comes from now on."""
        self._converse = converse

    def connect(self, name: str = "caller") -> "SimulatedCaller":
        """Call; refused while nobody serves here."""
        if self._converse is None or not self.is_open:
            raise ConnectionRefusedError(f"nobody listens at {self.host}:{self.port}")
        caller = SimulatedCaller(self, name)
        self.callers[caller] = None
        caller.conversation = self._converse(caller)
        return caller

    def pause(self) -> None:
        """Stand still."""
        self.is_paused = True

    def resume(self) -> None:
        """Go on after a pause."""
        self.is_paused = False
        for caller in tuple(self.callers):
            caller.look()

    async def close(self) -> None:
        """End in good order."""
        self.abort()

    def abort(self) -> None:
        """End where it stands."""
        self.is_open = False
        for caller in tuple(self.callers):
            caller.hang_up()


class SimulatedCaller:
    """One who calls: what he says is taken, and what he hears is kept."""

    def __init__(self, listener: SimulatedListener, name: str) -> None:
        self.name = name
        self.heard: list[bytes] = []
        self.refusal: str | None = None
        self.is_open = True
        self.conversation: Conversation | None = None
        self._listener = listener
        self._is_held = False
        self._is_looking = False
        self._said: list[bytes] = []

    def say(self, frame: bytes) -> None:
        """Send a frame."""
        self._said.append(frame)
        self.look()

    def look(self) -> None:
        """Give what was said, unless it is held back."""
        if self._is_looking:
            return
        self._is_looking = True
        while self._said and self.is_open and not self._is_held and not self._listener.is_paused:
            assert self.conversation is not None, "it begins with the connection"
            self.conversation.take(memoryview(bytearray(self._said.pop(0))))
        self._is_looking = False

    def send(self, parts: Sequence[Buffer]) -> None:
        """Hear a frame."""
        if self.is_open:
            self.heard.append(b"".join(parts))

    def hold(self) -> None:
        """Give no more frames for a while."""
        self._is_held = True

    def go_on(self) -> None:
        """Give what was held back, and go on."""
        self._is_held = False
        self.look()

    def hang_up(self) -> None:
        """End it."""
        if self.is_open:
            self.is_open = False
            self._listener.callers.pop(self, None)
            assert self.conversation is not None, "it begins with the connection"
            self.conversation.ended()

    def refuse(self, reason: str) -> None:
        """End it for a reason."""
        self.refusal = self.refusal or reason
        self.hang_up()
