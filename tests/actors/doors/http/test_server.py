import pytest

from actors.doors.http.server import HttpServer, PortTaken
from actors.view import ClusterView
from runtime.clock import RealClock
from tests.support.fake_source import FakeSource, partition, served, view_of


async def fetched(client, path, expected=200, **options):
    async with client.request(options.pop("method", "GET"), path, **options) as answer:
        content = await answer.json()
        assert answer.status == expected, content
        return content


async def test_a_taken_port_is_named():
    async with served(FakeSource()) as (server, _):
        other = HttpServer(FakeSource(), clock=RealClock(), port=server.port)
        with pytest.raises(PortTaken, match=f"port {server.port} of 127.0.0.1 is taken"):
            await other.start()
        await other.close()


async def test_an_address_of_somebody_else_is_named():
    other = HttpServer(FakeSource(), clock=RealClock(), host="192.0.2.1", token="secret")
    with pytest.raises(PortTaken, match=r"port 0 of 192\.0\.2\.1"):
        await other.start()
    await other.close()


async def test_the_url_is_known_after_the_start():
    async with served(FakeSource()) as (server, _):
        assert server.port > 0
        assert server.url == f"http://127.0.0.1:{server.port}/"


async def test_after_the_end_nobody_listens():
    source = FakeSource()
    async with served(source):
        assert len(source.listeners) == 1
    assert source.listeners == {}


async def test_the_page_and_its_files_are_served_and_not_sent_twice():
    async with served(FakeSource()) as (_, client):
        for path, kind in (
            ("/", "text/html"),
            ("/static/page.js", "text/javascript"),
            ("/static/page.css", "text/css"),
        ):
            async with client.get(path) as answer:
                assert answer.status == 200
                assert answer.content_type == kind
                tag = answer.headers["ETag"]
                assert answer.headers["Cache-Control"] == "no-cache"
            async with client.get(path, headers={"If-None-Match": tag}) as answer:
                assert answer.status == 304
                assert await answer.read() == b""
            async with client.get(path, headers={"If-None-Match": '"other"'}) as answer:
                assert answer.status == 200


async def test_who_is_there_can_be_asked_by_clients():
    async with served(FakeSource()) as (_, client):
        assert await fetched(client, "/nodes") == {"broker-1": "127.0.0.1:9001"}


async def test_it_lives_whatever_becomes_of_the_cluster():
    source = FakeSource()
    source.view = ClusterView()
    async with served(source) as (_, client):
        assert await fetched(client, "/healthz") == {"status": "ok"}


async def test_it_is_ready_when_somebody_cares_and_all_partitions_are_led():
    source = FakeSource(partition(0), partition(1))
    async with served(source) as (_, client):
        assert await fetched(client, "/readyz") == {"status": "ready"}

        source.view = view_of(partition(0), partition(1, leader=-1))
        refusal = await fetched(client, "/readyz", 503)
        assert refusal == {"error": "NOT_READY", "message": "1 partition has no leader"}

        source.view = view_of(partition(0), controller=-1)
        assert (await fetched(client, "/readyz", 503))["message"] == "there is no controller"


async def test_a_partition_is_described_with_its_history():
    source = FakeSource(partition(0), partition(1))
    async with served(source) as (_, client):
        source.tell(1, "first", topic="orders", partition=0)
        source.tell(2, "of another", topic="orders", partition=1)
        source.tell(3, "part", topic="orders", partition=0, is_part=True)

        described = await fetched(client, "/api/partitions/orders/0")

        assert described["partition"]["isr"] == [1, 2]
        assert described["offsets"] == {
            "log_start_offset": 0,
            "high_watermark": 10,
            "ends": {"1": 10, "2": 9},
        }
        assert [each["text"] for each in described["history"]] == ["first", "part"]

        refusal = await fetched(client, "/api/partitions/orders/7", 404)
        assert refusal["error"] == "UNKNOWN_TOPIC_OR_PARTITION"
        assert "orders-7" in refusal["message"]
        for wrong in ("x", "-1", "99999999999"):
            refusal = await fetched(client, f"/api/partitions/orders/{wrong}", 400)
            assert "partition" in refusal["message"]


async def test_the_last_events_are_told_and_no_more_are_kept():
    source = FakeSource()
    async with served(source) as (server, client):
        for number in range(1, 6_001):
            source.tell(number, topic="orders", partition=number % 2)
        told = await fetched(client, "/api/events")
        assert [each["id"] for each in told] == list(range(5_801, 6_001))
        assert [each["id"] for each in await fetched(client, "/api/events?after=5998")] == [
            5_999,
            6_000,
        ]
        assert len(server._history._events) == 5_000
        assert (await fetched(client, "/api/events?after=x", 400))["error"] == "INVALID_REQUEST"


@pytest.mark.parametrize(
    ("given", "done"),
    [
        ({"fault": "kill", "broker": 1}, ("kill", 1)),
        ({"fault": "restart", "broker": 2}, ("restart", 2)),
        ({"fault": "pause", "broker": 1}, ("pause", 1)),
        ({"fault": "resume", "broker": 1}, ("resume", 1)),
        ({"fault": "shut-down", "broker": 1}, ("shut_down", 1)),
        ({"fault": "expire-session", "broker": 1}, ("expire_session", 1)),
        ({"fault": "cut", "broker": 1, "other": 0}, ("cut", 1, 0)),
        ({"fault": "heal"}, ("heal",)),
    ],
)
async def test_every_fault_can_be_had(given, done):
    source = FakeSource()
    async with served(source) as (_, client):
        answer = await fetched(client, "/api/faults", method="POST", json=given)

    assert source.faults.done == [done]
    assert answer["done"]


@pytest.mark.parametrize(
    ("given", "status", "culprit"),
    [
        ({"fault": "kill", "broker": 9}, 409, "there is no broker 9"),
        ({"fault": "kill"}, 400, "broker"),
        ({"fault": "cut", "broker": 1}, 400, "other"),
        ({"fault": "explode", "broker": 1}, 400, "explode"),
        ({"fault": "kill", "broker": "1"}, 400, "broker"),
        ({"fault": "kill", "broker": -1}, 400, "broker"),
        ({"fault": "kill", "broker": 1, "hard": True}, 400, "hard"),
        ({"broker": 1}, 400, "fault"),
        ([1], 400, "object"),
    ],
)
async def test_a_fault_that_cannot_be_had_is_refused_with_a_sentence(given, status, culprit):
    source = FakeSource()
    async with served(source) as (_, client):
        refusal = await fetched(client, "/api/faults", status, method="POST", json=given)

    assert culprit in refusal["message"]
    assert source.faults.done == []
