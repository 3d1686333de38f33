"""One connection of frames over TCP.

Rule: what is under way is at most one frame that comes, and one that goes. An idle connection holds
no buffer: small frames are read into one that all share, and taken out of it at once.
"""

import asyncio
import mmap
import socket
import struct
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final, Protocol

from runtime.listener import Buffer, Conversation, Converse
from runtime.tracing import NodeTrace
from wire.trace import FrameRefused

LENGTH: Final = struct.Struct(">i")
SCRATCH_BYTES: Final = 64 * 1024  # what is read at once where no large frame is under way
JOINED_BYTES: Final = 16 * 1024  # parts up to this size are copied together: a write costs more
VERY_LARGE_BYTES: Final = 2 << 20  # from here on only what has come takes room
RESET: Final = struct.pack("ii", 1, 0)  # SO_LINGER: closing sends a reset


@dataclass(frozen=True)
class Limits:
    """How much callers may want."""

    frame_bytes: int = 100 << 20  # as Kafka's socket.request.max.bytes
    connections: int = 10_000
    reserved_bytes: int = 256 << 20  # of large frames that are on their way, of all callers
    unread_bytes: int = 256 << 20  # sent, but not read yet, by all callers
    stalled_s: float = 30.0  # a frame that has begun is there by then, and an answer read
    idle_s: float = 600.0  # as connections.max.idle.ms


DEFAULT_LIMITS: Final = Limits()


class Place(Protocol):
    """Where the connection belongs: all of them share its room."""

    converse: Converse | None
    is_paused: bool
    limits: Limits
    reserved: int
    scratch: memoryview
    trace: NodeTrace

    @property
    def is_full(self) -> bool:
        """Whether there are too many already."""

    def joined(self, connection: "TcpConnection") -> None:
        """Somebody has connected."""

    def left(self, connection: "TcpConnection") -> None:
        """Somebody is gone."""

    def has_room(self, size: int) -> bool:
        """Whether a large frame may be read now."""

    def wait_for_room(self, connection: "TcpConnection") -> None:
        """Let it begin its frame later."""

    def released(self) -> None:
        """There is more room."""

    def make_room_for(self, sender: "TcpConnection") -> None:
        """Something was sent to somebody who does not read."""


class TcpConnection(asyncio.BufferedProtocol):
    """One caller: frames in, frames out."""

    __slots__ = (
        "_begun_s",
        "_conversation",
        "_filled",
        "_frame",
        "_frames",
        "_is_closing",
        "_is_held",
        "_is_reading",
        "_last_s",
        "_place",
        "_reserved",
        "_rest",
        "_transport",
        "_unread_then",
        "is_choked",
        "name",
        "wanted_bytes",
    )

    def __init__(self, place: Place) -> None:
        self.name = ""
        self.is_choked = False  # more is sent than read
        self.wanted_bytes = 0  # of a frame that waits for room
        self._place = place
        self._transport: Any = None
        self._conversation: Conversation | None = None
        self._frame: memoryview | None = None  # a large one, on its way
        self._filled = 0
        self._reserved = 0
        self._frames: list[memoryview] = []  # whole, but held back
        self._rest = b""  # the beginning of a frame, or frames that were held back
        self._is_held = False
        self._is_reading = True
        self._is_closing = False
        self._begun_s = 0.0  # when what is on its way began
        self._last_s = 0.0
        self._unread_then = 0

    # --- what the loop calls ----------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        place = self._place
        self._transport = transport
        peer = transport.get_extra_info("peername")
        self.name = f"{peer[0]}:{peer[1]}" if peer else "somebody"
        self._last_s = asyncio.get_running_loop().time()
        if place.is_full or place.converse is None:
            self.refuse(f"{place.limits.connections} connections are open")
            return
        place.joined(self)
        self._conversation = place.converse(self)
        # Not at once: until Python 3.11.4 a transport begins to read after this, whatever was said.
        asyncio.get_running_loop().call_soon(self.look)

    def connection_lost(self, _: Exception | None) -> None:
        self._is_closing = True
        self._release()
        self._rest, self._frames = b"", []
        self._place.left(self)
        conversation, self._conversation = self._conversation, None
        if conversation is not None:
            conversation.ended()

    def get_buffer(self, _: int) -> memoryview:
        if self._frame is None:
            return self._place.scratch  # read from at once, so one is enough for all
        return self._frame[self._filled :]

    def buffer_updated(self, size: int) -> None:
        if self._frame is None:
            self._parse(self._rest + self._place.scratch[:size])
            return
        self._filled += size
        if self._filled == len(self._frame):
            frame, self._frame = self._frame, None
            self._release()
            self._deliver(frame)
            self.look()

    def pause_writing(self) -> None:
        self.is_choked = True
        self._begun_s = asyncio.get_running_loop().time()
        self._unread_then = self.unread_bytes
        self.look()

    def resume_writing(self) -> None:
        self.is_choked = False
        self.look()

    def eof_received(self) -> bool:
        return False  # who says no more hears no more, as with Kafka

    # --- frames -----------------------------------------------------------------------------------

    def _parse(self, data: bytes) -> None:
        """Take the whole frames out of what has come, and keep the rest."""
        position, end = 0, len(data)
        view = memoryview(data)
        while not self._stands and end - position >= LENGTH.size:
            (size,) = LENGTH.unpack_from(data, position)
            if not 0 <= size <= self._place.limits.frame_bytes:
                self.refuse(f"a frame of {size} bytes")
                return
            start = position + LENGTH.size
            if end - start < size and size > SCRATCH_BYTES:
                self._rest = data[start:]
                self._await_room(size)
                return
            if end - start < size:
                break
            position = start + size
            self._deliver(memoryview(bytearray(view[start:position])))
        self._rest = data[position:] if position else data
        self._begun_s = asyncio.get_running_loop().time()
        self.look()

    def _await_room(self, size: int) -> None:
        self.wanted_bytes = size
        self._begun_s = asyncio.get_running_loop().time()
        if self._place.has_room(size):
            self.begin_waiting_frame()
        else:
            self._place.wait_for_room(self)
            self.look()

    def begin_waiting_frame(self) -> None:
        """There is room for it now."""
        size, self.wanted_bytes = self.wanted_bytes, 0
        self._reserved = size
        self._place.reserved += size
        self._frame = _room_for(size)
        self._filled = len(self._rest)
        self._frame[: self._filled] = self._rest
        self._rest = b""
        self._begun_s = asyncio.get_running_loop().time()
        self.look()

    def _deliver(self, frame: memoryview) -> None:
        if self._stands or self._frames:
            self._frames.append(frame)
        elif self._conversation is not None:
            self._last_s = asyncio.get_running_loop().time()
            self._conversation.take(frame)

    def _release(self) -> None:
        if self._reserved:
            self._place.reserved -= self._reserved
            self._reserved = 0
            self._place.released()

    # --- standing still and going on --------------------------------------------------------------

    @property
    def _stands(self) -> bool:
        return self._is_held or self.is_choked or self._is_closing or self._place.is_paused

    def look(self) -> None:
        """Read, or do not, as things are."""
        if self._is_closing:
            return
        wants = not self._stands and not self.wanted_bytes and not self._frames
        if wants != self._is_reading:
            self._is_reading = wants
            if wants:
                self._transport.resume_reading()
            else:
                self._transport.pause_reading()

    def carry_on(self) -> None:
        """The pause is over: give what had come already, and read again."""
        if not self._is_closing:
            self._catch_up()

    def hold(self) -> None:
        """Give no more frames for a while."""
        self._is_held = True
        self.look()

    def go_on(self) -> None:
        """Give what was held back, and go on."""
        self._is_held = False
        asyncio.get_running_loop().call_soon(self._catch_up)

    def _catch_up(self) -> None:
        while self._frames and not self._stands:
            assert self._conversation is not None, "it has not ended"
            self._conversation.take(self._frames.pop(0))
        if self._rest and not self._frames and not self._stands and not self.wanted_bytes:
            self._parse(self._rest)
        self.look()

    # --- what is sent -----------------------------------------------------------------------------

    @property
    def unread_bytes(self) -> int:
        """How much waits for the other side to read."""
        return 0 if self._is_closing else int(self._transport.get_write_buffer_size())

    def send(self, parts: Sequence[Buffer]) -> None:
        """Send these as one frame."""
        if self._is_closing:
            return
        joined = bytearray(LENGTH.pack(sum(map(len, parts))))
        for part in parts:
            if len(part) <= JOINED_BYTES:
                joined += part
                continue
            if joined:
                self._transport.write(joined)
                joined = bytearray()
            self._transport.write(part)
        if joined:
            self._transport.write(joined)
        self._last_s = asyncio.get_running_loop().time()
        if self.is_choked:
            self._place.make_room_for(self)

    # --- the end ----------------------------------------------------------------------------------

    def check(self, now_s: float) -> None:
        """Let go of a caller who has stopped talking, or listening, half-way."""
        limits = self._place.limits
        waited_s = now_s - self._begun_s
        if self.is_choked:
            unread = self.unread_bytes
            if unread < self._unread_then:
                self._unread_then, self._begun_s = unread, now_s
            elif waited_s > limits.stalled_s:
                self.refuse(f"{unread} bytes are not read for {waited_s:.0f} s")
        elif self._frame is not None and waited_s > limits.stalled_s:
            self.refuse(f"a frame of {len(self._frame)} bytes ends after {self._filled}")
        elif self._rest and self._is_reading and waited_s > limits.stalled_s:
            self.refuse(f"a frame ends after {len(self._rest)} bytes")
        elif now_s - self._last_s > limits.idle_s:
            self.hang_up()

    def hang_up(self) -> None:
        """End it, once all that was sent is on its way."""
        if not self._is_closing:
            self._is_closing = True
            self._transport.close()

    def refuse(self, reason: str) -> None:
        """End it at once, and say why."""
        if not self._is_closing:
            self._place.trace(FrameRefused(self.name, reason))
            self.reset()

    def reset(self) -> None:
        """End it at once: the other side finds it broken."""
        self._is_closing = True
        with suppress(OSError):
            self._transport.get_extra_info("socket").setsockopt(
                socket.SOL_SOCKET, socket.SO_LINGER, RESET
            )
        self._transport.abort()


def _room_for(size: int) -> memoryview:
    """A bytearray would be written to at once, all of it."""
    return memoryview(bytearray(size) if size < VERY_LARGE_BYTES else mmap.mmap(-1, size))
