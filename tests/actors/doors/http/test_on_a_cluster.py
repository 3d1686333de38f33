"""The door of real brokers on a real ZooKeeper."""

import asyncio

import pytest

from actors.broker.log.names import file_name
from actors.doors.http import dump as dump_module
from actors.doors.http.dump import dump
from actors.operations.operation import BadInput
from actors.source import NodeSource
from tests.support.data import batch_of
from tests.support.fake_source import FakeSource, served
from tests.support.real_cluster import real_cluster
from wire.ids import LeaderEpoch, Offset
from wire.records import assign

LIMIT_S = 60


async def answer_to(client, method, path, expected=200, **body):
    async with client.request(method, path, **body) as answer:
        content = await answer.json()
        assert answer.status == expected, content
        return content


class Page:
    """What a page shows: the first state with all that was told since."""

    def __init__(self, socket):
        self._socket = socket
        self.partitions = {}
        self.brokers = {}
        self.events = []

    async def until(self, holds):
        async with asyncio.timeout(LIMIT_S):
            while not holds():
                message = await self._socket.receive_json()
                for each in message.get("partitions", ()):
                    self.partitions[each["topic"], each["partition"]] = each
                self.brokers |= {each["id"]: each["state"] for each in message.get("brokers", ())}
                self.events += message.get("events", [])
                self.events += [message["event"]] if "event" in message else []

    def leader(self, topic, partition=0):
        return self.partitions.get((topic, partition), {}).get("leader")

    def has_heard(self, text):
        return any(text in each["text"] for each in self.events)


async def test_a_person_makes_a_topic_writes_reads_kills_and_sees_all_of_it(zookeeper):
    async with (
        real_cluster(zookeeper, session_timeout_ms=3_000) as drive,
        served(NodeSource(drive.cluster, zookeeper="here")) as (_, client),
        client.ws_connect("/live") as socket,
    ):
        page = Page(socket)
        await answer_to(client, "GET", "/readyz")
        new = {"topic": "orders", "replica_assignment": [[3, 2, 1]]}
        await answer_to(client, "POST", "/api/topics", json=new)
        records = {"records": [{"key": "k", "value": f"v{n}"} for n in range(3)]}
        await answer_to(client, "POST", "/api/topics/orders/records", json=records)
        await page.until(lambda: page.leader("orders") == 3)

        details = await answer_to(client, "GET", "/api/partitions/orders/0")
        assert details["offsets"]["ends"]["3"] == 3
        dumped = await answer_to(client, "GET", "/api/logs/3/orders/0?records=true")
        found = [each for batch in dumped["batches"] for each in batch["records"]]
        assert [each["payload"] for each in found] == ["v0", "v1", "v2"]
        assert all(batch["isvalid"] for batch in dumped["batches"])

        killing = {"fault": "kill", "broker": 3}
        await answer_to(client, "POST", "/api/faults", json=killing)
        await page.until(lambda: page.leader("orders") == 2 and page.has_heard("broker 2 leads"))
        assert page.brokers == {1: "controller", 2: "up", 3: "down"}
        details = await answer_to(client, "GET", "/api/partitions/orders/0")
        assert any("broker 2 leads" in each["text"] for each in details["history"])
        assert "broker-3" not in await answer_to(client, "GET", "/nodes")
        async with client.get("/metrics") as answer:
            lines = (await answer.text()).splitlines()
        assert 'kafka_server_replicamanager_underreplicatedpartitions{broker="2"} 1.0' in lines
        refusal = await answer_to(client, "POST", "/api/faults", 409, json=killing)
        assert "3" in refusal["message"]


# --- dumps of logs that are written meanwhile -----------------------------------------------------


def batch(offset, value=b"value"):
    content = batch_of(value)
    assign(content, base_offset=Offset(offset), leader_epoch=LeaderEpoch(0))
    return bytes(content)


@pytest.fixture
def log(tmp_path):
    """Two segments: offsets 0 to 9 and 10 to 14, in batches of one record."""
    folder = tmp_path / "orders-0"
    folder.mkdir()
    for base, count in ((0, 10), (10, 5)):
        content = b"".join(batch(base + number) for number in range(count))
        (folder / file_name(base, ".log")).write_bytes(content)
    return folder


def offsets(log, **given):
    options = {"offset": 0, "most": 100, "with_records": False, **given}
    return [each["baseOffset"] for each in dump(log, **options)]


def test_a_dump_begins_at_its_offset_and_goes_on_over_segments(log):
    assert offsets(log) == list(range(15))
    assert offsets(log, offset=8) == list(range(8, 15))
    assert offsets(log, offset=12, most=2) == [12, 13]
    assert offsets(log, offset=99) == []


def test_what_is_still_written_is_left_out(log):
    last = log / file_name(10, ".log")
    last.write_bytes(last.read_bytes()[:-1])

    assert offsets(log) == list(range(14))


def test_files_are_read_in_parts_and_places_are_those_in_the_file(log, monkeypatch):
    whole = dump(log, offset=0, most=100, with_records=True)
    monkeypatch.setattr(dump_module, "WINDOW_BYTES", 200)

    assert dump(log, offset=0, most=100, with_records=True) == whole
    assert whole[1]["position"] == whole[0]["size"]


def test_a_batch_larger_than_a_part_is_passed_over(log, monkeypatch):
    (log / file_name(0, ".log")).write_bytes(batch(0, b"x" * 500) + batch(1))
    monkeypatch.setattr(dump_module, "WINDOW_BYTES", 200)

    assert offsets(log)[0] == 1


def test_nobody_is_kept_waiting_for_a_dump(log, monkeypatch):
    monkeypatch.setattr(dump_module, "MOST_SHOWN_BYTES", 1)
    assert offsets(log) == [0]

    monkeypatch.setattr(dump_module, "MOST_SKIPPED", 3)
    assert offsets(log, offset=3) == [3]
    with pytest.raises(BadInput, match="offset 5 lies too deep"):
        offsets(log, offset=5)


async def test_no_name_leads_out_of_the_folder(log):
    class Folders(FakeSource):
        def log_folder(self, broker):
            return log.parent / "broker-1" if broker == 1 else None

    (log.parent / "broker-1").mkdir()
    (log.parent / "broker-1" / "own-0").mkdir()
    async with served(Folders()) as (_, client):
        assert (await answer_to(client, "GET", "/api/logs/1/own/0"))["batches"] == []
        for name in ("..%2forders", "%2e%2e%2forders", "a%2f..%2f..%2forders", "..", "a%00b"):
            async with client.get(f"/api/logs/1/{name}/0") as answer:
                assert answer.status in {400, 404}
        for path in ("/api/logs/1/orders/0", "/api/logs/2/own/0", "/api/logs/9/own/0"):
            refusal = await answer_to(client, "GET", path, 404)
            assert refusal["error"] == "UNKNOWN_TOPIC_OR_PARTITION"
