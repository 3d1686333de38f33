"""Calls over real sockets, and peers that die, stall or lie."""

import asyncio
import gc
import os
import sys
import time

import aiohttp
import pytest
from aiohttp import web

from runtime import websocket
from runtime.network import CallTimedOut, Disconnected, Endpoint, Incoming, MemoryTransport
from runtime.tracing import Trace
from runtime.websocket import PATH, WebSocketTransport
from tests.support.mailbox import Mailbox
from wire.frame import Frame, FrameKind, encode_frame
from wire.trace import FrameRefused

WHILE_MS = 20_000  # for calls that should end long before
TOKEN = "s3cret"


class Echo:
    """Answers at once."""

    def tell(self, message: Incoming) -> None:
        message.reply(message.payload)


class Silent:
    """Takes, and never answers."""

    def tell(self, message: Incoming) -> None:
        pass


class Town:
    """Several processes' worth of transports in one loop, and a directory of who is where."""

    def __init__(self) -> None:
        self.where: dict[str, str] = {}
        self.trace = Trace(now_s=time.perf_counter, epoch_us=0)
        self.trace.listeners.append(self._listen)
        self.refusals = Mailbox()
        self._transports: list[WebSocketTransport] = []
        self._closers = []

    async def transport(self, **options) -> WebSocketTransport:
        transport = WebSocketTransport(self.resolve, self.trace.at("test"), **options)
        self._transports.append(transport)
        await transport.start()
        return transport

    async def node(self, name: str, **options) -> Endpoint:
        """A node in a process of its own, which echoes."""
        return self.join(name, await self.transport(**options))

    def join(self, name: str, transport: WebSocketTransport) -> Endpoint:
        endpoint = Endpoint(name, transport, self.trace.at(name))
        endpoint.serve(Echo())
        self.where[name] = f"127.0.0.1:{transport.port}"
        return endpoint

    async def stranger(self, name: str, behave) -> None:
        """A process at a node's address that speaks WebSocket, but behaves in its own way."""

        async def serve(request):
            socket = web.WebSocketResponse(timeout=0.1)
            await socket.prepare(request)
            await behave(socket, request)
            return socket

        app = web.Application()
        app.router.add_get(PATH, serve)
        runner = web.AppRunner(app, shutdown_timeout=0.1)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        self._closers.append(runner.cleanup)
        self.where[name] = f"127.0.0.1:{runner.addresses[0][1]}"

    async def resolve(self, name: str) -> str | None:
        return self.where.get(name)

    async def close(self) -> None:
        for transport in self._transports:
            await transport.close()
        for closer in self._closers:
            await closer()

    def _listen(self, _, event) -> None:
        if isinstance(event, FrameRefused):
            self.refusals.tell(event)


@pytest.fixture
async def town():
    town = Town()
    yield town
    await town.close()
    assert asyncio.all_tasks() == {asyncio.current_task()}


@pytest.fixture
async def pair(town):
    return await town.node("here"), await town.node("there")


@pytest.fixture
async def raw(town):
    """Opens connections as anybody could."""
    async with aiohttp.ClientSession() as session:

        def connect(name: str, **options):
            return session.ws_connect(f"http://{town.where[name]}{PATH}", **options)

        yield connect


def request(source: str, destination: str, payload: bytes = b"", number: int = 1) -> bytes:
    frame = Frame(FrameKind.REQUEST, number, source, destination, 0, memoryview(payload))
    return encode_frame(frame)


async def end_of(connection) -> None:
    async with asyncio.timeout(10):
        async for _ in connection:
            pass


async def assert_serves(endpoint: Endpoint, to: str) -> None:
    assert await endpoint.call(to, b"well?", timeout_ms=WHILE_MS) == b"well?"


# --- what works ------------------------------------------------------------------------------


async def test_calls_go_both_ways(pair):
    here, there = pair

    assert await here.call("there", b"one", timeout_ms=WHILE_MS) == b"one"
    assert await there.call("here", b"other", timeout_ms=WHILE_MS) == b"other"


async def test_a_message_is_sent_and_not_answered(pair):
    here, there = pair
    there.serve(mailbox := Mailbox())

    here.send("there", b"news")

    assert (await mailbox.next()).payload == b"news"


async def test_a_node_of_the_same_process_is_reached_without_a_socket(town):
    local = MemoryTransport()
    one, two = [town.join(name, await town.transport(local=local)) for name in ("one", "two")]
    town.where.clear()

    assert await one.call("two", b"near", timeout_ms=WHILE_MS) == b"near"
    assert await two.call("one", b"near", timeout_ms=WHILE_MS) == b"near"


async def test_a_payload_of_megabytes_arrives_whole(pair):
    here, _ = pair
    payload = os.urandom(8 * 1024 * 1024)

    assert await here.call("there", payload, timeout_ms=WHILE_MS) == payload


async def test_a_thousand_calls_at_once_each_have_their_own_answer(pair):
    here, _ = pair
    payloads = [b"%d" % number for number in range(1000)]

    calls = (here.call("there", payload, timeout_ms=WHILE_MS) for payload in payloads)

    assert await asyncio.gather(*calls) == payloads
    assert here.pending == 0


async def test_more_nodes_than_a_connection_pool_holds_can_ask(town):
    transport = await town.transport()
    await town.node("there")
    askers = [town.join(f"asker-{number}", transport) for number in range(120)]

    calls = (asker.call("there", b"", timeout_ms=WHILE_MS) for asker in askers)

    assert await asyncio.gather(*calls) == [b""] * 120


async def test_the_cause_travels_in_the_frame(pair):
    here, there = pair
    there.serve(mailbox := Mailbox())
    causes = []
    tell = mailbox.tell
    mailbox.tell = lambda message: (causes.append(websocket.CAUSE.get()[0]), tell(message))
    websocket.CAUSE.set([77])

    here.send("there", b"")
    await mailbox.next()

    assert causes == [77]


# --- who is not there ------------------------------------------------------------------------


async def test_a_call_to_an_unknown_node_is_disconnected(pair):
    here, _ = pair

    with pytest.raises(Disconnected, match="nobody knows where nobody is"):
        await here.call("nobody", b"", timeout_ms=WHILE_MS)


async def test_a_call_to_a_port_where_nobody_listens_is_disconnected(town, pair):
    here, there = pair
    await there._transport.close()

    with pytest.raises(Disconnected, match="no link to there"):
        await here.call("there", b"", timeout_ms=WHILE_MS)


async def test_calls_that_wait_for_a_link_fail_with_it(town):
    here = await town.node("here")
    asked, may_answer = asyncio.Event(), asyncio.Event()

    async def resolve(name):
        asked.set()
        await may_answer.wait()

    here._transport._resolve = resolve
    waiting = [asyncio.create_task(here.call("there", b"", timeout_ms=WHILE_MS)) for _ in range(9)]
    await asked.wait()

    may_answer.set()
    results = await asyncio.gather(*waiting, return_exceptions=True)

    assert [type(result) for result in results] == [Disconnected] * 9


async def test_a_directory_that_hangs_does_not_hold_a_link_for_ever(town, monkeypatch):
    monkeypatch.setattr(websocket, "CONNECT_TIMEOUT_S", 0.01)
    here = await town.node("here")
    here._transport._resolve = lambda _: asyncio.Event().wait()

    with pytest.raises(Disconnected, match="TimeoutError"):
        await here.call("there", b"", timeout_ms=WHILE_MS)


async def test_a_link_that_ends_before_it_began_is_not_used_again(town, monkeypatch):
    monkeypatch.setattr(websocket, "QUEUE_FRAMES", 10)
    here, _ = await town.node("here"), await town.node("there")

    calls = (here.call("there", b"", timeout_ms=WHILE_MS) for _ in range(11))
    results = await asyncio.gather(*calls, return_exceptions=True)

    assert [type(result) for result in results] == [Disconnected] * 11
    await assert_serves(here, "there")


async def test_a_call_is_disconnected_when_its_peer_leaves(pair):
    here, there = pair
    there.serve(mailbox := Mailbox())
    waiting = asyncio.create_task(here.call("there", b"", timeout_ms=WHILE_MS))
    incoming = await mailbox.next()

    there.close()

    with pytest.raises(Disconnected):
        await waiting
    incoming.reply(b"too late")


async def test_a_cancelled_call_leaves_its_link_to_the_others(pair):
    here, there = pair
    there.serve(mailbox := Mailbox())
    cancelled = asyncio.create_task(here.call("there", b"", timeout_ms=WHILE_MS))
    incoming = await mailbox.next()

    cancelled.cancel()
    await asyncio.wait([cancelled])
    incoming.reply(b"late")
    there.serve(Echo())

    assert here.pending == 0
    await assert_serves(here, "there")


@pytest.mark.parametrize("is_same_port", [True, False])
async def test_a_peer_that_comes_back_is_found_again(town, is_same_port):
    here, there = await town.node("here"), await town.node("there")
    await assert_serves(here, "there")
    there.close()
    await there._transport.close()
    with pytest.raises(Disconnected):
        await here.call("there", b"", timeout_ms=WHILE_MS)

    await town.node("there", port=there._transport.port if is_same_port else 0)

    await assert_serves(here, "there")


async def test_a_call_after_a_link_broke_goes_over_a_new_one_at_once(town):
    async def lie_and_stay(socket, _):
        await socket.receive()
        await socket.send_str("no frame")
        await released.wait()  # and so it never says goodbye

    here = await town.node("here")
    released = asyncio.Event()
    await town.stranger("there", lie_and_stay)
    with pytest.raises(Disconnected):
        await here.call("there", b"", timeout_ms=WHILE_MS)
    assert here._transport._lines  # the old link still says goodbye

    await town.node("there")
    await assert_serves(here, "there")
    released.set()


async def test_frames_that_wait_in_a_link_when_its_socket_closes_fail_their_calls(town):
    async def break_off(socket, request):
        await socket.receive()
        came.set()
        await stuck.wait()
        request.transport.abort()

    here = await town.node("here")
    came, stuck = asyncio.Event(), asyncio.Event()
    await town.stranger("there", break_off)
    payloads = [b"", *[bytes(4 * 1024 * 1024)] * 4]
    calls = (here.call("there", payload, timeout_ms=WHILE_MS) for payload in payloads)
    waiting = [asyncio.create_task(call) for call in calls]
    await came.wait()
    (link,) = here._transport._links.values()
    assert link._queue.qsize() == 3

    stuck.set()
    results = await asyncio.gather(*waiting, return_exceptions=True)

    assert [type(result) for result in results] == [Disconnected] * 5


# --- another process -------------------------------------------------------------------------

CHILD = """
import asyncio, sys, time
from runtime.network import Endpoint
from runtime.tracing import Trace
from runtime.websocket import WebSocketTransport

class Receiver:
    def tell(self, message):
        if message.payload != b"wait":
            message.reply(bytes(message.payload)[::-1])
        else:
            print("waiting", flush=True)

async def main():
    async def resolve(name):
        return sys.argv[1]
    trace = Trace(now_s=time.perf_counter, epoch_us=0).at("far")
    transport = WebSocketTransport(resolve, trace)
    await transport.start()
    far = Endpoint("far", transport, trace)
    far.serve(Receiver())
    print(transport.port, flush=True)
    print(bytes(await far.call("here", b"hello", timeout_ms=20_000)).decode(), flush=True)
    await asyncio.Event().wait()

asyncio.run(main())
"""


async def test_a_process_that_is_killed_disconnects_its_callers(town):
    here = await town.node("here")
    child = await asyncio.create_subprocess_exec(
        sys.executable, "-c", CHILD, town.where["here"], stdout=asyncio.subprocess.PIPE
    )
    town.where["far"] = f"127.0.0.1:{int(await child.stdout.readline())}"
    assert await child.stdout.readline() == b"hello\n"
    assert await here.call("far", b"abc", timeout_ms=WHILE_MS) == b"cba"
    waiting = asyncio.create_task(here.call("far", b"wait", timeout_ms=WHILE_MS))
    assert await child.stdout.readline() == b"waiting\n"
    begun = time.monotonic()

    child.kill()

    with pytest.raises(Disconnected):
        await waiting
    assert time.monotonic() - begun < 5
    await child.wait()


# --- hostile input ---------------------------------------------------------------------------


async def refuse(town, connect, message, reason: str) -> None:
    """What is said over a connection of its own ends it, and nobody else's."""
    other = await town.node("other")
    await assert_serves(other, "there")
    async with connect("there") as connection:
        if isinstance(message, str):
            await connection.send_str(message)
        else:
            await connection.send_bytes(message)
        await end_of(connection)
    refusal = await town.refusals.next()
    assert reason in refusal.reason
    assert len(town.refusals.messages) == 1
    (link,) = other._transport._links.values()
    await assert_serves(other, "there")
    assert list(other._transport._links.values()) == [link]


async def test_a_frame_over_the_limit_ends_its_connection(town, raw):
    await town.node("there", max_frame_bytes=10_000)

    await refuse(town, raw, bytes(10_001), "exceeds limit")


async def test_a_frame_of_just_the_limit_is_taken(town, raw):
    size = len(request("raw", "there", bytes(1000)))
    there = await town.node("there", max_frame_bytes=size)
    there.serve(mailbox := Mailbox())

    async with raw("there") as connection:
        await connection.send_bytes(request("raw", "there", bytes(1000)))
        assert (await mailbox.next()).payload == bytes(1000)


async def test_a_text_frame_ends_its_connection(town, raw):
    await town.node("there")

    await refuse(town, raw, "hello", "must be binary")


@pytest.mark.parametrize("noise", [b"", b"\xc1", b"\x91" * 9999, os.urandom(500)], ids=range(4))
async def test_random_bytes_end_their_connection(town, raw, noise):
    await town.node("there")

    await refuse(town, raw, noise, "not a frame")


async def test_a_frame_for_somebody_else_ends_its_connection(town, raw):
    await town.node("there")

    await refuse(town, raw, request("raw", "elsewhere"), "elsewhere, who is not here")


async def test_a_frame_in_the_name_of_a_node_that_lives_here_ends_its_connection(town, raw):
    await town.node("there")

    await refuse(town, raw, request("there", "there"), "in the name of there")


async def test_an_answer_to_no_question_ends_its_connection(town, raw):
    await town.node("there")
    answer = encode_frame(Frame(FrameKind.RESPONSE, 1, "raw", "there", 0, memoryview(b"")))

    await refuse(town, raw, answer, "RESPONSE does not come this way")


async def test_a_connection_belongs_to_one_pair_of_nodes(town, raw):
    await town.node("there")

    async with raw("there") as connection:
        await connection.send_bytes(request("one", "there"))
        assert (await connection.receive()).type is aiohttp.WSMsgType.BINARY
        await connection.send_bytes(request("two", "there"))
        await end_of(connection)

    assert "on a connection of" in (await town.refusals.next()).reason


async def test_a_question_over_a_link_that_we_opened_ends_it(town):
    async def ask_back(socket, _):
        await socket.receive()
        await socket.send_bytes(request("there", "here"))
        await socket.receive()

    here = await town.node("here")
    await town.stranger("there", ask_back)

    with pytest.raises(Disconnected):
        await here.call("there", b"", timeout_ms=WHILE_MS)
    assert (await town.refusals.next()).source == "there"


async def test_two_who_use_one_name_each_get_their_own_answers(town, raw):
    there = await town.node("there")
    there.serve(mailbox := Mailbox())

    async with raw("there") as one, raw("there") as two:
        await one.send_bytes(request("twin", "there", b"one"))
        first = await mailbox.next()
        await two.send_bytes(request("twin", "there", b"two"))
        await mailbox.next()
        first.reply(b"for one")
        answer = await one.receive()

    assert b"for one" in answer.data


async def test_bytes_that_are_not_even_http_harm_nobody(town, pair):
    here, _ = pair
    host, port = town.where["there"].split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(os.urandom(1000) + b"\r\n\r\n")

    await reader.read()
    writer.close()

    await assert_serves(here, "there")


async def test_a_peer_that_dies_is_not_blamed_for_its_frames(town, raw):
    there = await town.node("there")
    connection = await raw("there")
    await connection.send_bytes(request("raw", "there"))
    await connection.receive()
    (line,) = there._transport._lines

    connection._conn.transport.abort()
    await asyncio.wait([line.life])

    assert town.refusals.messages == []


# --- bounds ----------------------------------------------------------------------------------


async def test_a_request_that_is_too_large_fails_alone(town):
    here = await town.node("here", max_frame_bytes=10_000)
    there = await town.node("there", max_frame_bytes=10_000)
    there.serve(mailbox := Mailbox())
    waiting = asyncio.create_task(here.call("there", b"", timeout_ms=WHILE_MS))
    incoming = await mailbox.next()

    with pytest.raises(Disconnected, match="over the limit"):
        await here.call("there", bytes(10_000), timeout_ms=WHILE_MS)

    incoming.reply(b"still here")
    assert await waiting == b"still here"


async def test_an_answer_that_is_too_large_fails_its_call_alone(town):
    class Generous:
        def tell(self, message: Incoming) -> None:
            message.reply(bytes(int(bytes(message.payload))))

    here = await town.node("here", max_frame_bytes=10_000)
    there = await town.node("there", max_frame_bytes=10_000)
    there.serve(Generous())

    large, small = await asyncio.gather(
        here.call("there", b"10000", timeout_ms=WHILE_MS),
        here.call("there", b"10", timeout_ms=WHILE_MS),
        return_exceptions=True,
    )

    assert isinstance(large, Disconnected)
    assert small == bytes(10)
    assert "too large" in (await town.refusals.next()).reason


async def test_one_who_asks_and_does_not_read_is_cut_off(town, raw, monkeypatch):
    monkeypatch.setattr(websocket, "QUEUE_BYTES", 4_000_000)
    monkeypatch.setattr(websocket, "GOODBYE_S", 0.1)
    there = await town.node("there")
    there.serve(Wide())
    other = await town.node("other")
    async with raw("there") as connection:
        await connection.send_bytes(request("raw", "there"))
        await connection.receive()
        (line,) = there._transport._lines

        for _ in range(80):
            await connection.send_bytes(request("raw", "there"))
        async with asyncio.timeout(10):
            await asyncio.wait([line.life])

        assert line not in there._transport._lines
        assert line._queued_bytes <= 4_000_000 + Wide.BYTES
        there.serve(Echo())
        await assert_serves(other, "there")


class Wide:
    """Answers a little with a lot."""

    BYTES = 500_000

    def tell(self, message: Incoming) -> None:
        message.reply(bytes(self.BYTES))


async def test_calls_to_one_who_does_not_read_are_disconnected(town, monkeypatch):
    async def look_away(socket, _):
        await released.wait()

    monkeypatch.setattr(websocket, "QUEUE_BYTES", 4_000_000)
    monkeypatch.setattr(websocket, "GOODBYE_S", 0.1)
    here = await town.node("here")
    released = asyncio.Event()
    await town.stranger("there", look_away)

    results = []
    while not any(isinstance(result, Disconnected) for result in results):
        calls = (here.call("there", bytes(500_000), timeout_ms=100) for _ in range(7))
        results += await asyncio.gather(*calls, return_exceptions=True)

    assert {type(result) for result in results} <= {Disconnected, CallTimedOut}
    released.set()


# --- who may come in -------------------------------------------------------------------------


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "", "10.0.0.1", "example.org"])
@pytest.mark.parametrize("token", [None, ""])
def test_to_listen_off_loopback_needs_a_token(host, token):
    trace = Trace(now_s=lambda: 0, epoch_us=0).at("test")

    with pytest.raises(ValueError, match="a token is needed"):
        WebSocketTransport(Town.resolve, trace, host=host, token=token)
    WebSocketTransport(Town.resolve, trace, host=host, token=TOKEN)


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.8.8", "::1", "localhost"])
def test_to_listen_on_loopback_needs_no_token(host):
    WebSocketTransport(Town.resolve, Trace(now_s=lambda: 0, epoch_us=0).at("test"), host=host)


async def test_those_who_know_the_token_talk(town):
    here, there = await town.node("here", token=TOKEN), await town.node("there", token=TOKEN)

    await assert_serves(here, "there")
    await assert_serves(there, "here")


@pytest.mark.parametrize("token", [None, "wrong", TOKEN + "x", TOKEN[:-1]])
async def test_who_does_not_know_the_token_is_disconnected(town, token):
    await town.node("there", token=TOKEN)
    here = await town.node("here", token=token)

    with pytest.raises(Disconnected, match="401"):
        await here.call("there", b"", timeout_ms=WHILE_MS)
    assert "token" in (await town.refusals.next()).reason


async def test_the_token_is_compared_in_constant_time(town, monkeypatch):
    compared = []
    real = websocket.hmac.compare_digest
    monkeypatch.setattr(
        websocket.hmac, "compare_digest", lambda *both: compared.append(both) or real(*both)
    )
    here, _ = await town.node("here", token=TOKEN), await town.node("there", token=TOKEN)

    await assert_serves(here, "there")

    assert compared == [(b"Bearer s3cret", b"Bearer s3cret")]


async def test_a_token_that_is_no_text_is_refused_like_any_other(town):
    there = await town.node("there", token=TOKEN)
    reader, writer = await asyncio.open_connection("127.0.0.1", there._transport.port)

    writer.write(b"GET %b HTTP/1.1\r\nHost: x\r\nAuthorization: \xff\xfe\r\n\r\n" % PATH.encode())
    status = await reader.readline()
    writer.close()

    assert b"401" in status
    assert "token" in (await town.refusals.next()).reason


async def test_a_page_in_a_browser_is_refused(town, raw):
    await town.node("there")

    with pytest.raises(aiohttp.WSServerHandshakeError, match="403"):
        await raw("there", headers={"Origin": "http://127.0.0.1"})

    assert "browser" in (await town.refusals.next()).reason


# --- the end ---------------------------------------------------------------------------------


async def test_closing_leaves_no_task_and_no_socket_behind():
    def sockets() -> int:
        links = (f"/proc/self/fd/{number}" for number in os.listdir("/proc/self/fd"))
        return sum(
            os.readlink(link).startswith("socket:") for link in links if os.path.lexists(link)
        )

    town = Town()
    tasks, before = asyncio.all_tasks(), sockets()
    here, there = await town.node("here"), await town.node("there")
    await assert_serves(here, "there")
    await assert_serves(there, "here")
    there.serve(Silent())
    waiting = asyncio.create_task(here.call("there", b"", timeout_ms=WHILE_MS))
    opening = asyncio.create_task(here.call("nobody", b"", timeout_ms=WHILE_MS))
    await asyncio.sleep(0)

    await town.close()
    results = await asyncio.gather(waiting, opening, return_exceptions=True)
    await asyncio.sleep(0)
    gc.collect()

    assert [type(result) for result in results] == [Disconnected, Disconnected]
    assert {task for task in asyncio.all_tasks() if not task.done()} == tasks
    assert sockets() == before


async def test_a_transport_that_is_not_open_disconnects_at_once(town):
    here = await town.node("here")
    await here._transport.close()
    await here._transport.close()
    unopened = WebSocketTransport(town.resolve, town.trace.at("test"))
    early = Endpoint("early", unopened, town.trace.at("early"))

    for endpoint in (here, early):
        with pytest.raises(Disconnected, match="not on the network"):
            await endpoint.call("there", b"", timeout_ms=WHILE_MS)
