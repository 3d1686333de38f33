"""The table's rows as routes: what is given, what is refused, and in which form."""

import asyncio
from io import BytesIO
from typing import Annotated

import pytest
from msgspec import Meta, Struct, ValidationError, json

from actors.config import BadConfig
from actors.doors.http import server as server_module
from actors.doors.http.answers import STATUS_OF, refusal_of
from actors.operations.operation import BadInput, Operation
from tests.support.fake_source import FakeSource, served
from wire.errors import (
    ErrorCode,
    InvalidPartitions,
    MessageTooLarge,
    NotController,
    RequestTimedOut,
    TopicAlreadyExists,
    UnknownTopicOrPartition,
    exception_of,
)


class Seen(Struct, kw_only=True, forbid_unknown_fields=True):
    """All kinds of fields."""

    topic: str
    partition: Annotated[int, Meta(ge=0)] = 0
    names: list[str] = []
    brokers: list[int] = []
    is_dry: bool = False
    share: float | None = None


class Records(Struct, kw_only=True, forbid_unknown_fields=True):
    """What may be large."""

    records: list[str]


class Size(Struct):
    """How much it was."""

    bytes: int


async def echo(_, given):
    return given


async def measure(_, given):
    return Size(sum(map(len, given.records)))


async def nothing(_, __):
    return None


ERRORS = {
    "unknown": UnknownTopicOrPartition("there is no topic orders"),
    "exists": TopicAlreadyExists("there is a topic orders already"),
    "partitions": InvalidPartitions("0 partitions are too few"),
    "late": RequestTimedOut("no answer within 30 s"),
    "controller": NotController("it moved"),
    "large": MessageTooLarge("2 MB are too many"),
    "network": exception_of(ErrorCode.NETWORK_EXCEPTION)("nobody is there"),
    "input": BadInput("partitions is 0; it must be 1 or more"),
    "config": BadConfig("retention.ms is x; it must be a number"),
}


async def fail(_, given):
    raise ERRORS[given.topic]


TABLE = (
    Operation("seeByQuery", "GET", "/api/seen/{topic}", "See it.", Seen, Seen, echo),
    Operation("seeByBody", "POST", "/api/seen/{topic}/{partition}", "See.", Seen, Seen, echo),
    Operation("forget", "DELETE", "/api/seen/{topic}", "Forget it.", Seen, None, nothing),
    Operation("send", "POST", "/api/sent", "Send it.", Records, Size, measure),
    Operation("fail", "GET", "/api/failed/{topic}", "Fail.", Seen, Seen, fail),
)


@pytest.fixture
async def client(monkeypatch):
    monkeypatch.setattr(server_module, "OPERATIONS", TABLE)
    async with served(FakeSource()) as (_, client):
        yield client


async def asked(client, method, path, **options):
    async with client.request(method, path, **options) as answer:
        return answer.status, await answer.json()


async def test_a_query_becomes_what_the_fields_are(client):
    status, seen = await asked(
        client,
        "GET",
        "/api/seen/or%2Fders?partition=3&names=12&names=b&brokers=1&brokers=2&is_dry=true&share=0.5",
    )

    assert status == 200
    assert seen == {
        "topic": "or/ders",
        "partition": 3,
        "names": ["12", "b"],
        "brokers": [1, 2],
        "is_dry": True,
        "share": 0.5,
    }


async def test_a_topic_may_be_called_like_a_number_or_a_word_of_json(client):
    for name in ("12", "null", "true"):
        assert (await asked(client, "GET", f"/api/seen/{name}"))[1]["topic"] == name
        assert (await asked(client, "POST", f"/api/seen/{name}/0", json={}))[1]["topic"] == name


async def test_a_body_is_taken_as_it_is_beside_the_address(client):
    status, seen = await asked(client, "POST", "/api/seen/orders/3", json={"brokers": [1]})

    assert (status, seen["topic"], seen["partition"], seen["brokers"]) == (200, "orders", 3, [1])


async def test_what_has_no_answer_is_said_to_be_done(client):
    assert await asked(client, "DELETE", "/api/seen/orders") == (200, {"done": True})


@pytest.mark.parametrize(
    ("method", "path", "body", "culprit"),
    [
        ("GET", "/api/seen/orders?partition=x", None, "partition"),
        ("GET", "/api/seen/orders?partition=-1", None, "partition"),
        ("GET", "/api/seen/orders?is_dry=perhaps", None, "is_dry"),
        ("GET", "/api/seen/orders?brokers=1&brokers=b", None, "brokers"),
        ("GET", "/api/seen/orders?color=red", None, "color"),
        ("GET", "/api/seen/orders?partition=1&partition=2", None, "partition"),
        ("GET", "/api/seen/orders?topic=other", None, "topic"),
        ("GET", "/api/seen/orders?" + "&".join(f"a{n}=" for n in range(201)), None, "200"),
        ("POST", "/api/seen/orders/x", b"{}", "partition"),
        ("POST", "/api/seen/orders/0", b'{"is_dry":"true"}', "is_dry"),
        ("POST", "/api/seen/orders/0", b'{"brokers":["1"]}', "brokers"),
        ("POST", "/api/seen/orders/0", b'{"color":1}', "color"),
        ("POST", "/api/seen/orders/0", b'{"topic":"other"}', "topic"),
        ("POST", "/api/seen/orders/0?is_dry=true", b"{}", "is_dry"),
        ("POST", "/api/seen/orders/0", b"{", "JSON"),
        ("POST", "/api/seen/orders/0", b"\xff", "JSON"),
        ("POST", "/api/seen/orders/0", b"[" * 100_000, "body"),
        ("POST", "/api/seen/orders/0", b"[]", "object"),
        ("POST", "/api/sent", b"{}", "records"),
    ],
)
async def test_what_cannot_be_is_refused_with_a_sentence_that_names_it(
    client, method, path, body, culprit
):
    headers = {} if body is None else {"Content-Type": "application/json"}
    status, refusal = await asked(client, method, path, data=body, headers=headers)

    assert status == 400
    assert refusal["error"] == "INVALID_REQUEST"
    assert culprit in refusal["message"]


@pytest.mark.parametrize(
    ("name", "status", "code"),
    [
        ("unknown", 404, "UNKNOWN_TOPIC_OR_PARTITION"),
        ("exists", 409, "TOPIC_ALREADY_EXISTS"),
        ("partitions", 400, "INVALID_PARTITIONS"),
        ("late", 503, "REQUEST_TIMED_OUT"),
        ("controller", 503, "NOT_CONTROLLER"),
        ("large", 413, "MESSAGE_TOO_LARGE"),
        ("network", 503, "NETWORK_EXCEPTION"),
        ("input", 400, "INVALID_REQUEST"),
        ("config", 400, "INVALID_REQUEST"),
    ],
)
async def test_an_error_has_its_status_its_code_and_its_sentence(client, name, status, code):
    refused = await asked(client, "GET", f"/api/failed/{name}")

    assert refused == (status, {"error": code, "message": str(ERRORS[name])})


def test_what_may_pass_is_no_fault_of_the_one_who_asks():
    passing = [code for code in ErrorCode if code.is_retriable and code in STATUS_OF]

    assert {STATUS_OF[code] for code in passing} <= {404, 409, 503}


async def test_bodies_are_bounded_and_records_may_be_larger(client):
    headers = {"Content-Type": "application/json"}

    async def sent(path, field, size):
        body = BytesIO(json.encode({field: ["x" * size]}))
        return await asked(client, "POST", path, data=body, headers=headers)

    assert await sent("/api/sent", "records", 2_000_000) == (200, {"bytes": 2_000_000})
    assert (await sent("/api/seen/orders/0", "names", 1_000_000))[0] == 200
    for path, field, size in (
        ("/api/sent", "records", 9_000_000),
        ("/api/seen/orders/0", "names", 1_100_000),
    ):
        status, refusal = await sent(path, field, size)
        assert (status, refusal["error"]) == (413, "MESSAGE_TOO_LARGE")


async def test_a_body_without_a_length_is_bounded_too(client):
    async def endless():
        while True:
            yield b" " * 65_536
            await asyncio.sleep(0)

    headers = {"Content-Type": "application/json"}
    async with client.post("/api/seen/orders/0", data=endless(), headers=headers) as answer:
        assert answer.status == 413


def test_the_sentence_of_a_nested_field_names_its_place():
    refusal = refusal_of(ValidationError("Expected `int`, got `str` - at `$.brokers[0]`"))

    assert str(refusal) == "brokers[0]: Expected `int`, got `str`"
