"""The HTTP server of a cluster: the live page, the admin API, metrics.

Rule: it holds no state of the cluster's. What it shows it asks for, what is done it passes on, and
whatever comes in is bounded and checked before anybody else sees it.
"""

from errno import EADDRINUSE
from hashlib import sha256
from pathlib import Path
from typing import Final
from urllib.parse import parse_qs

from aiohttp import web

from actors.clients import SharedAdmin
from actors.doors.http.answers import json
from actors.doors.http.api import MAX_BODY_BYTES, add_operations, body_of
from actors.doors.http.cluster_routes import cluster_operations
from actors.doors.http.fault_routes import fault_operations
from actors.doors.http.feed import Feed
from actors.doors.http.guard import COOKIE, Guard, Refused
from actors.doors.http.history import History
from actors.doors.http.metrics import exposition
from actors.doors.http.openapi import describe
from actors.doors.http.scenario_routes import ScenarioDoor
from actors.doors.http.source import Source
from actors.faults.injector import Injector
from actors.operations.table import OPERATIONS
from runtime.websocket import is_loopback
from runtime.world import Clock
from wire.ids import NO_BROKER

MAX_LOGIN_BYTES: Final = 4_096
GOODBYE_S: Final = 1
WRONG: Final = "That is not the token."
PAGE: Final = Path(__file__).parent / "page"
TYPES: Final = {
    ".html": "text/html",
    ".css": "text/css",
    ".js": "text/javascript",
    ".svg": "image/svg+xml",
    ".png": "image/png",
}


class PortTaken(Exception):
    """It cannot listen there, most often because somebody else does; the sentence names it."""


class HttpServer:
    """One server for one cluster."""

    def __init__(
        self,
        source: Source,
        *,
        clock: Clock,
        host: str = "127.0.0.1",
        port: int = 0,
        token: str | None = None,
        faults: bool | None = None,
    ) -> None:
        if not is_loopback(host) and not token:
            raise ValueError(f"{host} is not loopback: a token is needed to listen there")
        self.host = host
        self.port = port
        self._source = source
        self._clients = SharedAdmin(source)
        self._history = History()
        self._has_faults = is_loopback(host) if faults is None else faults
        self._feed = Feed(source, self._history, clock, faults_enabled=self._has_faults)
        self._guard = Guard(host, token)
        self._token = token
        self._injector = Injector(source.faults)
        self._scenarios = ScenarioDoor(source, has_faults=self._has_faults)
        self._operations = (
            *OPERATIONS,
            *cluster_operations(source, self._history),
            *fault_operations(self._injector, has_faults=self._has_faults),
            *self._scenarios.operations(),
        )
        self._description = describe(self._operations)
        self._files = {path.name: path.read_bytes() for path in sorted(PAGE.iterdir())}
        self._runner: web.AppRunner | None = None
        self._stop_listening = source.listen(self._history.add)

    @property
    def url(self) -> str:
        """The page's address."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{host}:{self.port}/"

    async def start(self) -> None:
        """Listen; the port is known afterwards."""
        self._runner = web.AppRunner(self._app(), access_log=None, shutdown_timeout=GOODBYE_S)
        await self._runner.setup()
        try:
            await web.TCPSite(self._runner, self.host, self.port).start()
        except OSError as error:
            await self._runner.cleanup()
            where = f"port {self.port} of {self.host}"
            if error.errno == EADDRINUSE:
                raise PortTaken(f"{where} is taken: choose another --http-port") from None
            raise PortTaken(f"nobody may listen on {where}: {error.strerror}") from None
        self.port = self._runner.addresses[0][1]

    async def close(self) -> None:
        """Let everybody go, and stop listening."""
        self._stop_listening()
        self._clients.close()
        await self._feed.close()
        await self._scenarios.close()
        await self._injector.close()
        if self._runner is not None:
            await self._runner.cleanup()

    def _app(self) -> web.Application:
        app = web.Application(client_max_size=MAX_BODY_BYTES, middlewares=[self._guard.middleware])
        app.on_response_prepare.append(self._guard.protect)
        app.router.add_get("/", self._index)
        app.router.add_get("/static/{name}", self._static)
        app.router.add_get("/live", self._feed.serve)
        app.router.add_get("/login", self._login_page)
        app.router.add_post("/login", self._login)
        app.router.add_get("/metrics", self._metrics)
        app.router.add_get("/healthz", self._healthz)
        app.router.add_get("/readyz", self._readyz)
        app.router.add_get("/nodes", self._nodes)
        app.router.add_get("/openapi.json", self._openapi)
        add_operations(app, self._operations, self._clients)
        return app

    # --- the page ---------------------------------------------------------------------------------

    async def _index(self, request: web.Request) -> web.Response:
        return self._file(request, "index.html")

    async def _static(self, request: web.Request) -> web.Response:
        return self._file(request, request.match_info["name"])

    def _file(self, request: web.Request, name: str) -> web.Response:
        content = self._files.get(name)
        if content is None:
            raise web.HTTPNotFound
        tag = f'"{sha256(content).hexdigest()[:16]}"'
        headers = {"ETag": tag, "Cache-Control": "no-cache"}
        if request.headers.get("If-None-Match") == tag:
            return web.Response(status=304, headers=headers)
        kind = TYPES.get(Path(name).suffix, "application/octet-stream")
        charset = "utf-8" if kind.startswith("text/") else None
        return web.Response(body=content, content_type=kind, charset=charset, headers=headers)

    async def _login_page(self, request: web.Request) -> web.Response:
        return self._file(request, "login.html")

    async def _login(self, request: web.Request) -> web.Response:
        """Change a token for a cookie, which no script can read."""
        form = parse_qs((await body_of(request, MAX_LOGIN_BYTES)).decode("utf-8", "replace"))
        shown = form.get("token", [""])[0].strip()
        response = web.Response(status=303, headers={"Location": "/"})
        if self._token is None:
            return response  # nobody needs one here
        if not self._guard.knows(shown):
            if "text/html" not in request.headers.get("Accept", ""):
                raise Refused(401, "UNAUTHORIZED", WRONG)
            page = self._files["login.html"].replace(b"<label", f"<p>{WRONG}</p><label".encode(), 1)
            return web.Response(status=401, body=page, content_type="text/html", charset="utf-8")
        response.set_cookie(COOKIE, shown, httponly=True, samesite="Strict", path="/")
        return response

    # --- for machines -----------------------------------------------------------------------------

    async def _metrics(self, request: web.Request) -> web.Response:
        metrics = await self._source.metrics()
        body, kind = exposition(metrics, request.headers.get("Accept", ""))
        return web.Response(body=body, headers={"Content-Type": kind})

    async def _healthz(self, _: web.Request) -> web.Response:
        return json({"status": "ok"})

    async def _readyz(self, _: web.Request) -> web.Response:
        view = await self._source.look()
        if view.controller == NO_BROKER:
            raise Refused(503, "NOT_READY", "there is no controller")
        if view.offline:
            count = "1 partition has" if view.offline == 1 else f"{view.offline} partitions have"
            raise Refused(503, "NOT_READY", f"{count} no leader")
        return json({"status": "ready"})

    async def _nodes(self, _: web.Request) -> web.Response:
        return json(dict(self._source.addresses()))

    async def _openapi(self, _: web.Request) -> web.Response:
        return json(self._description)
