"""Each refused, and its legitimate twin answered."""

import asyncio
import hmac
import logging

import pytest
from aiohttp import ClientSession, WSServerHandshakeError

from actors.doors.http import guard
from actors.doors.http.server import HttpServer
from runtime.clock import RealClock
from tests.support.fake_source import FakeSource, served

TOKEN = "o pen;ses\u00e4me"  # with all that a cookie must quote
BEARER = {"Authorization": f"Bearer {TOKEN}"}
FAULT = {"fault": "kill", "broker": 1}
SAME, CROSS = {"Sec-Fetch-Site": "same-origin"}, {"Sec-Fetch-Site": "cross-site"}


async def status(client: ClientSession, path: str, headers=None, method="GET", **body) -> int:
    async with client.request(
        method, path, headers=headers, allow_redirects=False, **body
    ) as answer:
        content = await answer.read()
        assert TOKEN.encode() not in content
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
        assert answer.headers["Referrer-Policy"] == "no-referrer"
        assert "frame-ancestors 'none'" in answer.headers["Content-Security-Policy"]
        if answer.status >= 400:
            refusal = await answer.json()
            assert set(refusal) == {"error", "message"}
        return answer.status


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "[::1]", "LOCALHOST"])
async def test_a_request_for_this_machine_is_answered(host):
    async with served(FakeSource()) as (server, client):
        for named in (host, f"{host}:{server.port}", f"{host}:80"):  # a tunnel has other ports
            assert await status(client, "/nodes", {"Host": named}) == 200


@pytest.mark.parametrize(
    "host", ["evil.example", "localhost.evil.example", "evil.example:80", "", "[", "127.0.0.1.nip"]
)
async def test_a_name_that_leads_here_but_is_not_ours_is_refused(host):
    async with served(FakeSource()) as (_, client):
        for path in ("/", "/nodes", "/metrics", "/api/events", "/healthz"):
            assert await status(client, path, {"Host": host}) == 403


async def test_a_page_of_another_site_may_not_ask_anything():
    source = FakeSource()
    async with served(source) as (server, client):
        own = f"http://127.0.0.1:{server.port}"
        foreign = ["http://evil.example", "null", f"http://localhost:{server.port}", own + "0"]
        for origin in foreign:
            headers = {"Origin": origin}
            assert await status(client, "/nodes", headers) == 403
            assert await status(client, "/", headers) == 403
            assert await status(client, "/api/faults", headers, "POST", json=FAULT) == 403
        assert source.faults.done == []

        assert await status(client, "/nodes", {"Origin": own}) == 200
        assert await status(client, "/api/faults", {"Origin": own}, "POST", json=FAULT) == 200
        assert source.faults.done == [("kill", 1)]


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
async def test_what_a_browser_calls_another_site_is_refused_but_for_a_visit(site):
    async with served(FakeSource()) as (_, client):
        visit = {"Sec-Fetch-Site": site, "Sec-Fetch-Mode": "navigate"}
        embedded = {"Sec-Fetch-Site": site, "Sec-Fetch-Mode": "no-cors"}
        assert await status(client, "/", visit) == 200
        assert await status(client, "/", embedded) == 403
        assert await status(client, "/api/events", visit) == 403
        assert await status(client, "/openapi.json", embedded) == 403
        assert await status(client, "/api/faults", visit, "POST", json=FAULT) == 403
        for fine in ({"Sec-Fetch-Site": "same-origin"}, {"Sec-Fetch-Site": "none"}, {}):
            assert await status(client, "/api/events", fine) == 200


async def test_a_form_cannot_change_anything():
    source = FakeSource()
    async with served(source) as (_, client):
        body = b'{"fault":"kill","broker":1}'
        for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data; b=1"):
            headers = {"Content-Type": kind}
            assert await status(client, "/api/faults", headers, "POST", data=body) == 415
        assert source.faults.done == []

        headers = {"Content-Type": "application/json; charset=utf-8"}
        assert await status(client, "/api/faults", headers, "POST", data=body) == 200


async def test_a_websocket_of_another_site_is_refused():
    async with served(FakeSource()) as (server, client):
        for headers in ({"Origin": "http://evil.example"}, CROSS):
            with pytest.raises(WSServerHandshakeError, match="403"):
                await client.ws_connect("/live", headers=headers)

        own = {"Origin": f"http://127.0.0.1:{server.port}"}
        for headers in (own, own | SAME, {}):
            async with client.ws_connect("/live", headers=headers) as socket:
                assert (await socket.receive_json())["type"] == "state"


async def test_with_a_token_nothing_of_the_cluster_is_told_without_it():
    async with served(FakeSource(), token=TOKEN) as (_, client):
        paths = ("/nodes", "/metrics", "/readyz", "/openapi.json", "/api/events", "/live")
        wrong = [{}, {"Authorization": "Bearer x"}, {"Authorization": f"Basic {TOKEN}"}]
        wrong += [{"Cookie": "understudy_token=x"}, {"Authorization": "Bearer \udcff"}]
        for path in paths:
            for headers in wrong:
                assert await status(client, path, headers) == 401
        assert await status(client, "/api/faults", {}, "POST", json=FAULT) == 401
        assert await status(client, "/healthz") == 200

        for path in paths[:-1]:
            assert await status(client, path, BEARER) == 200
        async with client.ws_connect("/live", headers=BEARER) as socket:
            assert (await socket.receive_json())["type"] == "state"


async def test_a_person_logs_in_and_has_a_cookie_that_no_script_can_read():
    async with (
        served(FakeSource(), token=TOKEN) as (server, _),
        ClientSession(f"http://localhost:{server.port}") as browser,
    ):
        async with browser.get("/") as answer:
            assert answer.url.path == "/login"
            assert 'name="token"' in await answer.text()
        async with browser.get("/static/page.css") as answer:
            assert answer.status == 200
        html = {"Accept": "text/html"}
        async with browser.post("/login", data={"token": "x"}, headers=html) as answer:
            assert answer.status == 401
            assert "That is not the token." in await answer.text()
            assert "Set-Cookie" not in answer.headers
        assert await status(browser, "/login", method="POST", data={"token": "x"}) == 401

        right = {"token": TOKEN}
        async with browser.post("/login", data=right, allow_redirects=False) as answer:
            cookie = answer.headers["Set-Cookie"]
            assert answer.status == 303
            assert {"HttpOnly", "SameSite=Strict", "Path=/"} <= set(cookie.split("; "))
        assert await status(browser, "/nodes") == 200
        async with browser.get("/", allow_redirects=False) as answer:
            assert answer.status == 200


async def test_another_site_cannot_log_anybody_in():
    async with served(FakeSource(), token=TOKEN) as (_, client):
        given = {"method": "POST", "data": {"token": TOKEN}}
        assert await status(client, "/login", {"Origin": "http://evil.example"}, **given) == 403
        assert await status(client, "/login", CROSS, **given) == 403
        assert await status(client, "/login", SAME, **given) == 303


async def test_a_login_is_small():
    async with served(FakeSource(), token=TOKEN) as (_, client):
        given = {"token": "x" * 10_000}
        assert await status(client, "/login", method="POST", data=given) == 413


async def test_a_token_is_compared_in_constant_time(monkeypatch):
    compared = []
    truly = hmac.compare_digest

    def compare(given, known):
        compared.append(given)
        return truly(given, known)

    monkeypatch.setattr(guard.hmac, "compare_digest", compare)
    async with served(FakeSource(), token=TOKEN) as (_, client):
        await status(client, "/nodes", {"Authorization": "Bearer x"})
        await status(client, "/nodes", BEARER)

    assert compared == [b"x", TOKEN.encode()]


async def test_nothing_is_logged_of_what_comes_in(caplog):
    caplog.set_level(logging.DEBUG)
    async with served(FakeSource(), token=TOKEN) as (_, client):
        await status(client, "/nodes", BEARER)
        await status(client, "/login", method="POST", data={"token": TOKEN})

    assert TOKEN not in caplog.text
    assert "nodes" not in caplog.text


@pytest.mark.parametrize("host", ["0.0.0.0", "192.0.2.1", "example.org", "::"])
def test_elsewhere_than_on_loopback_a_token_is_needed(host):
    with pytest.raises(ValueError, match=f"{host} is not loopback: a token is needed"):
        HttpServer(FakeSource(), clock=RealClock(), host=host)


async def test_elsewhere_the_token_stands_for_the_name_and_faults_are_off():
    source = FakeSource()
    async with served(source, host="0.0.0.0", token=TOKEN) as (_, client):
        named = {"Host": "cluster.example:8080"}
        assert await status(client, "/nodes", named) == 401
        assert await status(client, "/nodes", named | BEARER) == 200
        assert await status(client, "/api/faults", BEARER, "POST", json=FAULT) == 403
        assert source.faults.done == []


async def test_faults_may_be_on_elsewhere_and_off_here():
    source = FakeSource()
    async with served(source, host="0.0.0.0", token=TOKEN, faults=True) as (_, client):
        assert await status(client, "/api/faults", BEARER, "POST", json=FAULT) == 200
    async with served(source, faults=False) as (_, client):
        assert await status(client, "/api/faults", None, "POST", json=FAULT) == 403
        async with client.ws_connect("/live") as socket:
            assert (await socket.receive_json())["faults_enabled"] is False
    assert source.faults.done == [("kill", 1)]


async def test_addresses_have_a_limit():
    async with served(FakeSource()) as (_, client):
        assert await status(client, "/nodes?x=" + "0" * 4_000) == 200
        assert await status(client, "/nodes?x=" + "0" * 5_000) == 414


async def test_what_is_not_there_is_said_so():
    async with served(FakeSource()) as (_, client):
        for path in ("/nothing", "/static/nothing.js", "/static/..%2fserver.py", "/api/"):
            assert await status(client, path) == 404
        assert await status(client, "/nodes", method="DELETE") == 405


async def test_an_answer_that_does_not_come_is_not_waited_for_without_end(monkeypatch):
    class Silent(FakeSource):
        async def look(self, **_):
            await asyncio.Event().wait()

    monkeypatch.setattr(guard.Guard.__init__, "__kwdefaults__", {"limit_ms": 20})
    async with served(Silent()) as (_, client), client.get("/readyz") as answer:
        assert answer.status == 503
        assert (await answer.json())["message"] == "there was no answer within 0.02 s"


async def test_a_bug_is_answered_without_saying_what_it_was():
    class Buggy(FakeSource):
        async def look(self, **_):
            raise KeyError("secret")

    async with served(Buggy()) as (_, client), client.get("/readyz") as answer:
        assert answer.status == 500
        assert "secret" not in await answer.text()
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
