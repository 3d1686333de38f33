"""Clients of nodes in other processes, by any address that knows them."""

import time

import aiohttp
import pytest
from aiohttp import web

from runtime.network import Endpoint, Incoming
from runtime.tracing import Trace
from runtime.visitor import NobodyAnswers, Visitor
from runtime.websocket import NODES_PATH, WebSocketTransport

TOKEN = "a-token-of-some-length"
WHILE_MS = 20_000


class Echo:
    def tell(self, message: Incoming) -> None:
        message.reply(message.payload)


async def nowhere(_: str) -> None:
    return None


@pytest.fixture
async def doors():
    opened = []

    async def door(name: str, **options) -> WebSocketTransport:
        trace = Trace(now_s=time.perf_counter, epoch_us=0)
        transport = WebSocketTransport(nowhere, trace.at(name), **options)
        await transport.start()
        opened.append(transport)
        Endpoint(name, transport, trace.at(name)).serve(Echo())
        return transport

    yield door
    for each in opened:
        await each.close()


@pytest.fixture
async def visit():
    visitors = []

    async def enter(*addresses: str, **options) -> Visitor:
        visitor = Visitor(addresses, **options)
        visitors.append(visitor)
        await visitor.start()
        return visitor

    yield enter
    for each in visitors:
        await each.close()


def address_of(door: WebSocketTransport) -> str:
    return f"127.0.0.1:{door.port}"


async def test_a_visitor_calls_a_node_by_the_address_of_its_door(doors, visit):
    door = await doors("broker-1")
    visitor = await visit(address_of(door))

    network, _ = visitor.client("admin-1")

    assert visitor.nodes == {"broker-1": address_of(door)}
    assert bytes(await network.call("broker-1", b"hello", timeout_ms=WHILE_MS)) == b"hello"


async def test_one_door_tells_of_the_others(doors, visit):
    first, second = await doors("broker-1"), await doors("broker-2")
    first.directory = lambda: {"broker-1": address_of(first), "broker-2": address_of(second)}
    visitor = await visit(address_of(first))

    network, _ = visitor.client("admin-1")

    assert bytes(await network.call("broker-2", b"hello", timeout_ms=WHILE_MS)) == b"hello"


async def test_of_several_addresses_one_is_enough(doors, visit):
    door = await doors("broker-1")

    visitor = await visit("127.0.0.1:1", address_of(door))

    assert list(visitor.nodes) == ["broker-1"]


async def test_a_node_that_has_moved_is_found_again(doors, visit):
    guide, first = await doors("broker-9"), await doors("broker-1")
    guide.directory = lambda: {"broker-1": address_of(first)}
    visitor = await visit(address_of(guide))
    network, _ = visitor.client("admin-1")
    await network.call("broker-1", b"hello", timeout_ms=WHILE_MS)

    await first.close()
    second = await doors("broker-1")
    guide.directory = lambda: {"broker-1": address_of(second)}

    assert bytes(await network.call("broker-1", b"again", timeout_ms=WHILE_MS)) == b"again"


async def test_two_visitors_may_name_their_clients_alike(doors, visit):
    door = await doors("broker-1")
    first, second = await visit(address_of(door)), await visit(address_of(door))

    names = {visitor.client("admin-1")[0].address for visitor in (first, second)}

    assert len(names) == 2


async def test_nobody_there_is_a_sentence_for_each_address(visit):
    with pytest.raises(NobodyAnswers) as raised:
        await visit("127.0.0.1:1", "127.0.0.1:2")

    assert str(raised.value) == "127.0.0.1:1: Connection refused; 127.0.0.1:2: Connection refused"


async def test_a_door_with_a_token_tells_nobody_without_it(doors, visit):
    door = await doors("broker-1", token=TOKEN)

    with pytest.raises(NobodyAnswers, match="it demands a token"):
        await visit(address_of(door))
    with pytest.raises(NobodyAnswers, match="it demands a token"):
        await visit(address_of(door), token="another-token-altogether")

    visitor = await visit(address_of(door), token=TOKEN)
    network, _ = visitor.client("admin-1")
    assert bytes(await network.call("broker-1", b"hello", timeout_ms=WHILE_MS)) == b"hello"


async def test_a_page_in_a_browser_learns_nothing_from_a_door(doors):
    door = await doors("broker-1")

    async with aiohttp.ClientSession() as session:
        url = f"http://{address_of(door)}{NODES_PATH}"
        async with session.get(url, headers={"Origin": "http://evil.example"}) as response:
            assert response.status == 403


@pytest.mark.parametrize("answer", ["nothing", "[1]", '{"broker-1": 5}', "{"])
async def test_somebody_else_s_server_is_no_cluster(visit, answer):
    async def serve(_: web.Request) -> web.Response:
        return web.Response(text=answer, content_type="application/json")

    app = web.Application()
    app.router.add_get(NODES_PATH, serve)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        with pytest.raises(NobodyAnswers):
            await visit(f"127.0.0.1:{runner.addresses[0][1]}")
    finally:
        await runner.cleanup()
