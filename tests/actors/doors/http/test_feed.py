import asyncio
import socket as sockets

import pytest
from aiohttp import WSMsgType, WSServerHandshakeError

from actors.doors.http import feed as feed_module
from actors.view import BrokerState
from tests.support.fake_source import FakeSource, partition, served, view_of

SOON_S = 0.5


async def next_of(socket, kind):
    """The next message of a kind, the others skipped."""
    while True:
        message = await socket.receive_json(timeout=10)
        if message["type"] == kind:
            return message


async def test_a_page_is_told_everything_first():
    source = FakeSource(partition(0), partition(1, leader=-1, isr=(), offline=(1, 2)))
    source.faults.cuts = ((1, 2),)
    async with served(source) as (_, client):
        source.tell(7, broker=1)
        async with client.ws_connect("/live") as socket:
            state = await socket.receive_json()

    assert len(state.pop("run")) == 16
    assert state.pop("now_ms") > 1_600_000_000_000
    assert state == {
        "type": "state",
        "faults_enabled": True,
        "zookeeper": "127.0.0.1:2181",
        "controller": {"broker": 1, "epoch": 3},
        "brokers": [
            {
                "id": 1,
                "state": "controller",
                "address": "127.0.0.1:9001",
                "rack": None,
                "epoch": 21,
                "leaders": 2,
                "replicas": 0,
            },
            {
                "id": 2,
                "state": "up",
                "address": "127.0.0.1:9002",
                "rack": "r2",
                "epoch": 22,
                "leaders": 0,
                "replicas": 0,
            },
        ],
        "cuts": [[1, 2]],
        "partitions": [
            {
                "topic": "orders",
                "partition": 0,
                "leader": 1,
                "leader_epoch": 0,
                "partition_epoch": 0,
                "replicas": [1, 2],
                "isr": [1, 2],
                "offline": [],
                "adding": [],
                "removing": [],
            },
            {
                "topic": "orders",
                "partition": 1,
                "leader": -1,
                "leader_epoch": 0,
                "partition_epoch": 0,
                "replicas": [1, 2],
                "isr": [],
                "offline": [1, 2],
                "adding": [],
                "removing": [],
            },
        ],
        "counters": {
            "topics": 1,
            "partitions": 2,
            "offline": 1,
            "under_replicated": 1,
            "messages_per_second": 0.0,
            "bytes_per_second": 0.0,
        },
        "events": [
            {
                "id": 7,
                "time_ms": 1_700_000_000_000,
                "kind": "election",
                "level": "info",
                "text": "it happened",
                "broker": 1,
                "topic": "",
                "partition": -1,
                "count": 1,
                "is_part": False,
            }
        ],
    }


async def test_later_a_page_is_told_only_what_has_changed():
    source = FakeSource(partition(0), partition(1), partition(2))
    async with served(source) as (_, client), client.ws_connect("/live") as socket:
        await next_of(socket, "state")
        source.view = view_of(partition(0), partition(1, leader=2, leader_epoch=1), partition(3))

        change = await next_of(socket, "change")

        assert [(each["partition"], each["leader"]) for each in change["partitions"]] == [
            (1, 2),
            (3, 1),
        ]
        assert change["gone"] == [["orders", 2]]
        assert set(change) == {"type", "now_ms", "partitions", "gone"}

        source.faults.cuts = ((1, 0),)
        change = await next_of(socket, "change")
        assert set(change) == {"type", "now_ms", "cuts"}
        assert change["cuts"] == [[1, 0]]

        source.view = view_of(partition(0), controller=-1)
        change = await next_of(socket, "change")
        assert change["controller"] is None
        assert set(change) >= {"controller", "brokers", "counters", "gone"}


async def test_while_nothing_changes_nothing_is_sent():
    source = FakeSource()
    async with served(source) as (_, client), client.ws_connect("/live") as socket:
        await next_of(socket, "state")
        await source.looked_at(times=3)

        source.tell(1)
        assert (await socket.receive_json(timeout=10))["type"] == "event"


async def test_an_event_is_told_and_looked_into_at_once(monkeypatch):
    monkeypatch.setattr(feed_module, "LOOK_MS", 3_600_000)  # so it is the event that does it
    source = FakeSource()
    async with served(source) as (_, client), client.ws_connect("/live") as socket:
        await next_of(socket, "state")
        source.view = view_of(partition(0, leader=2))
        source.tell(5, "broker 2 leads", topic="orders", partition=0)

        async with asyncio.timeout(SOON_S):
            event = await next_of(socket, "event")
            change = await next_of(socket, "change")

    assert event["event"]["text"] == "broker 2 leads"
    assert change["partitions"][0]["leader"] == 2


async def test_a_burst_of_events_is_looked_into_a_few_times_only(monkeypatch):
    monkeypatch.setattr(feed_module, "LOOK_MS", 3_600_000)
    source = FakeSource()
    async with served(source) as (_, client), client.ws_connect("/live") as socket:
        await next_of(socket, "state")
        before = source.looks
        for number in range(100):
            source.tell(number)
            await asyncio.sleep(0)
        source.tell(100, "the last")
        while (await next_of(socket, "event"))["event"]["text"] != "the last":
            pass
        source.view = view_of(partition(0, leader=2))
        await next_of(socket, "change")

        assert source.looks - before <= 4


async def test_parts_of_what_is_told_as_one_are_not_told():
    source = FakeSource()
    async with served(source) as (_, client), client.ws_connect("/live") as socket:
        await next_of(socket, "state")
        source.tell(1, "many", count=4)
        source.tell(1, "one of many", is_part=True)
        source.tell(2, "next")

        texts = [(await next_of(socket, "event"))["event"]["text"] for _ in range(2)]

    assert texts == ["many", "next"]


async def test_nobody_is_looked_at_while_nobody_looks():
    source = FakeSource()
    async with served(source) as (_, client):
        assert source.looks == 0
        async with client.ws_connect("/live") as socket:
            await next_of(socket, "state")
        async with client.ws_connect("/live") as socket:  # the first loop may still be about to end
            await next_of(socket, "state")
        async with asyncio.timeout(10):
            before = -1
            while before != source.looks:
                before = source.looks
                await asyncio.sleep(2 * feed_module.LOOK_MS / 1000)


async def test_many_pages_cost_one_look():
    source = FakeSource()
    async with served(source) as (_, client):
        pages = [await client.ws_connect("/live") for _ in range(5)]
        for page in pages:
            await next_of(page, "state")
        before = source.looks
        source.view = view_of(partition(0, leader=2))
        for page in pages:
            assert (await next_of(page, "change"))["partitions"][0]["leader"] == 2

        assert source.looks - before <= 3
        for page in pages:
            await page.close()


async def test_a_long_look_is_followed_by_a_long_rest():
    class Slow(FakeSource):
        async def look(self, **given):
            await asyncio.sleep(0.1)
            return await super().look(**given)

    source = Slow()
    async with served(source) as (_, client), client.ws_connect("/live") as socket:
        await next_of(socket, "state")
        loop = asyncio.get_running_loop()
        begun, before = loop.time(), source.looks
        while source.looks < before + 3:
            source.tell(1)  # not even events hurry it
            await asyncio.sleep(0.01)

        assert loop.time() - begun > 1.0  # two rests of half a second


async def test_rates_are_what_was_counted_in_a_second(monkeypatch):
    monkeypatch.setattr(feed_module, "MEASURE_MS", 100)
    source = FakeSource()
    async with served(source) as (_, client), client.ws_connect("/live") as socket:
        await next_of(socket, "state")
        source.messages_in = 500
        counters = (await next_of(socket, "change"))["counters"]
        assert 500 < counters["messages_per_second"] <= 5_000

        source.messages_in = 0  # the broker has begun anew
        assert (await next_of(socket, "change"))["counters"]["messages_per_second"] == 0


async def test_there_are_so_many_pages_and_no_more(monkeypatch):
    monkeypatch.setattr(feed_module, "MOST_PAGES", 2)
    source = FakeSource()
    async with served(source) as (_, client), client.ws_connect("/live"):
        second = await client.ws_connect("/live")
        with pytest.raises(WSServerHandshakeError, match="503"):
            await client.ws_connect("/live")
        await second.close()
        await source.looked_at(times=2)  # by then it is known to be gone

        async with client.ws_connect("/live") as third:
            assert (await next_of(third, "state"))["brokers"]


async def test_a_page_may_say_little_and_nothing_long():
    async with served(FakeSource()) as (_, client):
        async with client.ws_connect("/live") as socket:
            await socket.send_json({"type": "ping"})
            assert (await next_of(socket, "state"))["controller"]
        async with client.ws_connect("/live") as socket:
            await next_of(socket, "state")
            await socket.send_str("x" * 2_000)
            message = await socket.receive(timeout=10)
            assert message.type is WSMsgType.CLOSE
            assert message.data == 1009  # too large


HANDSHAKE = (
    "GET /live HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n"
)


async def test_a_page_that_does_not_read_is_dropped_and_the_others_go_on():
    source = FakeSource()
    async with served(source) as (server, client), client.ws_connect("/live") as reading:
        await next_of(reading, "state")
        deaf = sockets.socket()
        deaf.setsockopt(sockets.SOL_SOCKET, sockets.SO_RCVBUF, 4_096)
        deaf.setblocking(False)
        loop = asyncio.get_running_loop()
        await loop.sock_connect(deaf, ("127.0.0.1", server.port))
        await loop.sock_sendall(deaf, HANDSHAKE.encode())
        assert (await loop.sock_recv(deaf, 12)) == b"HTTP/1.1 101"
        pages = server._feed._pages
        await source.looked_at()  # for the page that has come
        await source.looked_at(times=2)
        assert len(pages) == 2
        number = 0
        while len(pages) == 2:
            number += 1
            source.tell(number, "x" * 50_000)
            await next_of(reading, "event")
        assert number < 1_000  # some in the kernel's buffers, then a bounded number here

        source.tell(number + 1, "still there")
        assert (await next_of(reading, "event"))["event"]["text"] == "still there"
        deaf.close()


async def test_when_the_server_closes_pages_are_told():
    async with served(FakeSource()) as (server, client), client.ws_connect("/live") as socket:
        await next_of(socket, "state")
        closing = asyncio.ensure_future(server.close())
        message = await socket.receive(timeout=10)
        await closing

    assert message.type is WSMsgType.CLOSE
    assert message.data == 1001  # going away


async def test_a_broker_that_dies_is_seen_to_be_down():
    source = FakeSource()
    async with served(source) as (_, client), client.ws_connect("/live") as socket:
        await next_of(socket, "state")
        brokers = dict(source.view.brokers)
        brokers[2] = type(brokers[2])(2, BrokerState.DOWN)
        source.view = view_of(partition(), brokers=brokers)

        change = await next_of(socket, "change")

    assert [each["state"] for each in change["brokers"]] == ["controller", "down"]
