"""Calls between nodes: a request goes out as bytes, and exactly one answer comes back.

Rule: a call ends with a response, with Disconnected (nobody is there, or the link broke: the
request may or may not have been handled), or with CallTimedOut. The transport below only carries
frames; it may lose, delay or repeat them, and calls still end exactly once. A link that broke fails
the calls that were begun before it broke, and none that was begun later: those have a newer link.
"""

import asyncio
from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from runtime.deadlines import Deadlines
from runtime.ref import InboxFull, Receiver
from runtime.tampering import Tamper
from runtime.tracing import CAUSE, NodeTrace
from wire.frame import ANSWERS, Frame, FrameKind
from wire.parted import Parted, Payload
from wire.trace import CallFinished


class NetworkError(Exception):
    """A call had no response."""


class Disconnected(NetworkError):
    """Nobody is there, or the link broke; the request may or may not have been handled."""


class CallTimedOut(NetworkError):
    """No response came in time; the request may still be handled."""


@dataclass(frozen=True)
class Incoming:
    """A message from another node; `reply` answers it, once.

    The answer to a message that wants none goes nowhere: a peer's choice of frame harms nobody.
    """

    source: str
    payload: Payload
    reply: Callable[[bytes | Parted], None]


class Network(Protocol):
    """One node's end of all its links."""

    @property
    def address(self) -> str:
        """How others call this node."""

    def serve(self, receiver: Receiver) -> None:
        """Give what comes in to the receiver, as Incoming messages."""

    async def call(
        self, to: str, payload: bytes | Parted, *, timeout_ms: float, label: str = ""
    ) -> Payload:
        """Send a request and wait for its response. `label` names it in the trace."""

    def send(self, to: str, payload: bytes | Parted) -> None:
        """Send a message that is not answered; it may be lost."""

    def close(self) -> None:
        """Leave the network; every pending call ends now."""


class Transport(Protocol):
    """What carries frames between endpoints."""

    def attach(self, endpoint: "Endpoint") -> None:
        """From now on deliver frames for this address here."""

    def detach(self, endpoint: "Endpoint") -> None:
        """The endpoint is gone: whoever waits for it is told."""

    def transmit(self, frame: Frame) -> None:
        """Carry the frame, or tell the source's endpoint that it is lost."""


Carry = Callable[[Frame], None]


class _Call:
    """A call that waits for its answer.

    The response lies beside the future, because Deadlines may keep a future until its time is up,
    and payloads are large.
    """

    __slots__ = ("ended", "response", "to")

    def __init__(self, to: str, ended: asyncio.Future[None]) -> None:
        self.to = to
        self.ended = ended
        self.response: Payload = memoryview(b"")

    def fail(self, why: str) -> None:
        """End it, unless it has ended."""
        if not self.ended.done():
            self.ended.set_exception(Disconnected(why))


class Endpoint:
    """Calls over any transport."""

    def __init__(
        self,
        address: str,
        transport: Transport,
        trace: NodeTrace,
        *,
        first_correlation: int = 1,
        unreachable: Collection[str] = (),
        tamper: Tamper | None = None,
    ) -> None:
        self._address = address
        self._unreachable = unreachable  # what is sent there is lost: a fault, which others change
        self._tamper = tamper or Tamper()
        self._transport = transport
        self._trace = trace
        # A restarted node must not take an answer to its former life for one to this life.
        self._next = first_correlation
        self._pending: dict[int, _Call] = {}
        self._receiver: Receiver | None = None
        self._deadlines = Deadlines()
        self._is_open = True
        transport.attach(self)

    @property
    def address(self) -> str:
        """How others call this node."""
        return self._address

    @property
    def pending(self) -> int:
        """How many calls wait for their answer."""
        return len(self._pending)

    def serve(self, receiver: Receiver) -> None:
        """Give what comes in to the receiver, as Incoming messages."""
        self._receiver = receiver

    async def call(
        self, to: str, payload: bytes | Parted, *, timeout_ms: float, label: str = ""
    ) -> Payload:
        """Send a request and wait for its response. `label` names it in the trace."""
        self._check_open()
        loop = asyncio.get_running_loop()
        correlation, self._next = self._next, self._next + 1
        begun = loop.time()
        self._pending[correlation] = call = _Call(to, loop.create_future())
        self._deadlines.watch(call.ended, timeout_ms, partial(_timed_out, to, label, timeout_ms))
        outcome = "cancelled"
        try:
            self._send(FrameKind.REQUEST, correlation, to, payload, self._transport.transmit)
            await call.ended
            outcome = "ok"
            return call.response
        except NetworkError as error:
            outcome = type(error).__name__
            raise
        finally:
            del self._pending[correlation]
            if not call.ended.cancel() and not call.ended.cancelled():
                call.ended.exception()  # seen, also by a caller who was cancelled meanwhile
            if self._trace.wants(CallFinished):
                took_us = round((loop.time() - begun) * 1e6)
                sizes = len(payload), len(call.response)
                self._trace(CallFinished(self._address, to, label, *sizes, took_us, outcome))

    def send(self, to: str, payload: bytes | Parted) -> None:
        """Send a message that is not answered; it may be lost."""
        self._check_open()
        self._send(FrameKind.ONE_WAY, 0, to, payload, self._transport.transmit)

    def close(self) -> None:
        """Leave the network; every pending call ends now."""
        if self._is_open:
            self._is_open = False
            self._transport.detach(self)
            for call in self._pending.values():
                call.fail(f"{self._address} has left the network")
            self._deadlines.close()

    # --- what the transport calls --------------------------------------------------------------

    @property
    def calls_begun(self) -> int:
        """Every call so far has a smaller number, every later one this or a greater."""
        return self._next

    def deliver(self, frame: Frame, answer: Carry | None = None) -> None:
        """A frame for this node has come; `answer` carries one back by the way it came."""
        if not self._is_open:
            return
        if frame.kind in ANSWERS:
            self._on_answer(frame)
            return
        outer = CAUSE.set([frame.cause])
        try:
            self._on_request(frame, answer or self._transport.transmit)
        finally:
            CAUSE.reset(outer)

    def lost(self, correlation: int, why: str) -> None:
        """The transport could not carry a request of ours."""
        call = self._pending.get(correlation)
        if call is not None:
            call.fail(why)

    def peer_lost(self, peer: str, why: str, before: int) -> None:
        """A link to a peer broke: the calls to it with numbers below `before` have no answer."""
        for correlation, call in self._pending.items():
            if call.to == peer and correlation < before:
                call.fail(why)

    # --------------------------------------------------------------------------------------------

    def _on_request(self, frame: Frame, carry: Carry) -> None:
        try:
            if self._receiver is not None:
                reply = self._replier(frame, carry)
                self._receiver.tell(Incoming(frame.source, frame.payload, reply))
                return
        except InboxFull:
            pass
        if frame.kind is FrameKind.REQUEST:
            self._send(FrameKind.REFUSED, frame.correlation, frame.source, b"", carry)

    def _on_answer(self, frame: Frame) -> None:
        call = self._pending.get(frame.correlation)
        if call is None or call.ended.done() or call.to != frame.source:
            return  # late, a repetition, or not from whom we asked
        if frame.kind is FrameKind.RESPONSE:
            call.response = frame.payload
            call.ended.set_result(None)
        else:
            call.fail(f"{frame.source} did not take the request")

    def _replier(self, frame: Frame, carry: Carry) -> Callable[[bytes | Parted], None]:
        is_answered = False

        def reply(payload: bytes | Parted) -> None:
            nonlocal is_answered
            assert not is_answered, f"a request of {frame.source} was answered twice"
            is_answered = True
            if self._is_open and frame.kind is FrameKind.REQUEST:
                self._send(FrameKind.RESPONSE, frame.correlation, frame.source, payload, carry)

        return reply

    def _send(
        self, kind: FrameKind, correlation: int, to: str, payload: bytes | Parted, carry: Carry
    ) -> None:
        if to in self._unreachable:
            return
        under_way = payload if isinstance(payload, Parted) else memoryview(payload)
        frame = Frame(kind, correlation, self._address, to, CAUSE.get()[0], under_way)
        if self._tamper.is_idle:
            carry(frame)
        else:
            self._tamper.pass_on(frame, carry)

    def _check_open(self) -> None:
        if not self._is_open:
            raise Disconnected(f"{self._address} has left the network")


def _timed_out(to: str, label: str, timeout_ms: float) -> CallTimedOut:
    what = f"{to} has not answered {label or 'a request'}"
    return CallTimedOut(f"{what} within {timeout_ms:g} ms")


class MemoryTransport:
    """Frames between the nodes of one process: whole, in order, at once."""

    def __init__(self) -> None:
        self._endpoints: dict[str, Endpoint] = {}

    def attach(self, endpoint: Endpoint) -> None:
        """From now on deliver frames for this address here."""
        if endpoint.address in self._endpoints:
            raise ValueError(f"there is an endpoint {endpoint.address} already")
        self._endpoints[endpoint.address] = endpoint

    def detach(self, endpoint: Endpoint) -> None:
        """The endpoint is gone: whoever waits for it is told."""
        if self._endpoints.get(endpoint.address) is endpoint:
            del self._endpoints[endpoint.address]
            why = f"{endpoint.address} closed the connection"
            call_soon = asyncio.get_running_loop().call_soon  # after the frames that it sent
            for other in self._endpoints.values():
                call_soon(other.peer_lost, endpoint.address, why, other.calls_begun)

    def transmit(self, frame: Frame) -> None:
        """Deliver in the loop's next turn, so that no handler runs inside another."""
        asyncio.get_running_loop().call_soon(self._deliver, frame)

    def endpoint(self, address: str) -> Endpoint | None:
        """The endpoint of a node in this process."""
        return self._endpoints.get(address)

    def _deliver(self, frame: Frame) -> None:
        endpoint = self._endpoints.get(frame.destination)
        if endpoint is not None:
            endpoint.deliver(frame)
        elif frame.kind is FrameKind.REQUEST:
            source = self._endpoints.get(frame.source)
            if source is not None:
                source.lost(frame.correlation, f"nobody is at {frame.destination}")
