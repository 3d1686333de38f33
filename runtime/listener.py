"""Who calls from outside, a frame at a time.

Rule: a frame is bytes whose length was said before. Whoever listens takes each where it lies, and
answers when he likes; what is too much is not read, and who reads too slowly is let go.
"""

from collections.abc import Callable, Sequence
from typing import Protocol, TypeAlias

Buffer: TypeAlias = bytes | bytearray | memoryview


class Caller(Protocol):
    """The other side of one connection, and what can be done with it."""

    @property
    def name(self) -> str:
        """Where the call comes from."""

    def send(self, parts: Sequence[Buffer]) -> None:
        """Send these as one frame; to one who is gone it is lost."""

    def hold(self) -> None:
        """Give no more frames for a while."""

    def go_on(self) -> None:
        """Give what was held back, and go on."""

    def hang_up(self) -> None:
        """End it, once all that was sent is on its way."""

    def refuse(self, reason: str) -> None:
        """End it at once, for a reason that is worth a trace event."""


class Conversation(Protocol):
    """What is talked with one caller."""

    def take(self, frame: memoryview) -> None:
        """A frame has come; it may be written to, and belongs to whoever takes it."""

    def ended(self) -> None:
        """The caller is gone: nothing more comes, and nothing is heard."""


Converse = Callable[[Caller], Conversation]


class Listener(Protocol):
    """A place where callers come in."""

    @property
    def host(self) -> str:
        """Where it can be reached: what callers are told."""

    @property
    def port(self) -> int:
        """And the port."""

    async def serve(self, converse: Converse) -> None:
        """Talk to whoever comes from now on; nobody is let in before."""

    def pause(self) -> None:
        """Stand still: read nothing."""

    def resume(self) -> None:
        """Go on after a pause."""

    async def close(self) -> None:
        """Let nobody in, and end what is there in good order."""

    def abort(self) -> None:
        """End where it stands: whoever has called finds the connection reset."""
