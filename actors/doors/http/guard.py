"""Who may ask, and how.

Rule: loopback is open to whoever is on this machine, but not to the pages of others in a browser
there: a request must be for our own name and come from our own origin. Elsewhere it must show the
token, too. What is refused learns nothing but that, and nobody is worked for without end.

With a token the Host header may be any: a page elsewhere that gives its own name our address has
no cookie for that name.
"""

import hmac
from collections.abc import Awaitable, Callable
from typing import Final
from urllib.parse import urlsplit

from aiohttp import web

from runtime.tasks import within
from runtime.websocket import is_loopback

COOKIE: Final = "understudy_token"
OPEN_PATHS: Final = frozenset({"/healthz", "/login"})  # they tell nothing that needs a token
OPEN_FOLDER: Final = "/static/"  # what everybody may read who has this program
ENDLESS: Final = "/live"
LIMIT_MS: Final = 60_000  # more than any client of ours waits for a broker
SAFE: Final = frozenset({"GET", "HEAD"})
MAX_URL: Final = 4_096
JSON: Final = "application/json"
FORM: Final = "application/x-www-form-urlencoded"
LOGIN: Final = "/login"
HEADERS: Final = {
    "Content-Security-Policy": (
        "default-src 'self'; connect-src 'self'; img-src 'self' data:; frame-ancestors 'none'; "
        "base-uri 'none'; form-action 'self'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
}
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Refused(Exception):
    """The request is not answered; the sentence says why."""

    def __init__(self, status: int, error: str, sentence: str) -> None:
        super().__init__(sentence)
        self.status = status
        self.error = error


def refused_response(refused: Refused) -> web.Response:
    """A refusal as JSON."""
    content = {"error": refused.error, "message": str(refused)}
    return web.json_response(content, status=refused.status)


class Guard:
    """A middleware before every route."""

    def __init__(self, host: str, token: str | None, *, limit_ms: float = LIMIT_MS) -> None:
        self._token = token
        self._limit_ms = limit_ms
        self._names = frozenset({"localhost", "127.0.0.1", "::1", host.lower()})
        self._is_anywhere = not is_loopback(host)  # reached by names that are not known here

    @web.middleware
    async def middleware(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Check, then have it answered in time."""
        try:
            self.check(request)
            if request.path == ENDLESS:
                return await handler(request)
            return await within(self._limit_ms, handler(request))
        except Refused as refused:
            return refused_response(refused)
        except TimeoutError:
            sentence = f"there was no answer within {self._limit_ms / 1000:g} s"
            return refused_response(Refused(503, "REQUEST_TIMED_OUT", sentence))
        except web.HTTPException as error:
            if error.status < 400:  # noqa: PLR2004 - a redirection is an answer
                raise
            name = error.reason.upper().replace(" ", "_")
            response = refused_response(Refused(error.status, name, _sentence(error)))
            if "Allow" in error.headers:
                response.headers["Allow"] = error.headers["Allow"]
            return response

    async def protect(self, _: web.Request, response: web.StreamResponse) -> None:
        """Say how an answer may be used: every answer, also one that aiohttp gives by itself."""
        response.headers.update(HEADERS)
        response.headers.setdefault("Cache-Control", "no-store")

    def check(self, request: web.Request) -> None:
        """Raise Refused unless this may be answered."""
        if len(request.raw_path) > MAX_URL:
            raise Refused(414, "URI_TOO_LONG", f"the address is longer than {MAX_URL} characters")
        self._check_host(request)
        self._check_site(request)
        if request.method not in SAFE:
            self._check_form(request)
        if self._token is not None and not _is_open(request.path):
            self._check_token(request)

    def _check_host(self, request: web.Request) -> None:
        """A page elsewhere may give its own name our address: such a request is not for us."""
        host = _host_of(f"//{request.headers.get('Host', '')}")
        if self._is_anywhere and self._token is not None:
            return
        if host not in self._names:
            raise Refused(403, "FORBIDDEN", "the Host header does not name this server")

    def _check_site(self, request: web.Request) -> None:
        origin = request.headers.get("Origin")
        if origin is not None and origin != f"{request.scheme}://{request.headers.get('Host')}":
            raise Refused(403, "FORBIDDEN", "the request comes from another site")
        site = request.headers.get("Sec-Fetch-Site", "none")
        is_visit = request.headers.get("Sec-Fetch-Mode") == "navigate" and request.method == "GET"
        if site in ("cross-site", "same-site") and not (is_visit and request.path == "/"):
            raise Refused(403, "FORBIDDEN", "the request comes from another site")

    def _check_form(self, request: web.Request) -> None:
        """No form of a strange page can send JSON, not without asking us first."""
        wanted = FORM if request.path == LOGIN else JSON
        has_body = request.can_read_body
        if (has_body or request.method == "POST") and request.content_type != wanted:
            raise Refused(415, "UNSUPPORTED_MEDIA_TYPE", f"the Content-Type must be {wanted}")

    def _check_token(self, request: web.Request) -> None:
        if not self.knows(shown_by(request)):
            if request.path == "/":  # a person, who can type it
                raise web.HTTPSeeOther(LOGIN)
            raise Refused(401, "UNAUTHORIZED", "a token is needed here")

    def knows(self, shown: str) -> bool:
        """Whether it is the token; takes as long for a wrong one as for the right one."""
        assert self._token is not None
        given = shown.encode("utf-8", "surrogateescape")
        return hmac.compare_digest(given, self._token.encode())


def shown_by(request: web.Request) -> str:
    """The token that a request shows, in its header or its cookie."""
    kind, _, token = request.headers.get("Authorization", "").partition(" ")
    if kind.lower() == "bearer":
        return token.strip()
    return request.cookies.get(COOKIE, "")


def _is_open(path: str) -> bool:
    return path in OPEN_PATHS or path.startswith(OPEN_FOLDER)


def _host_of(url: str) -> str:
    try:
        return (urlsplit(url).hostname or "").lower()
    except ValueError:
        return ""


def _sentence(error: web.HTTPException) -> str:
    match error.status:
        case 404:
            return "there is nothing at this address"
        case 405:
            return "this address does not take that method"
        case 413:
            return "the request is too large"
    return error.reason.lower()
