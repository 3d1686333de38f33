"""Who may ask, and how.

Rule: loopback is open to whoever is on this machine, but not to the pages of others in a browser
there: a request must be for our own name and come from our own origin. Elsewhere it must show the
token, too. What is refused learns nothing but that.
"""

import hmac
from collections.abc import Awaitable, Callable
from typing import Final
from urllib.parse import urlsplit

from aiohttp import web

from runtime.websocket import is_loopback

COOKIE: Final = "understudy_token"
OPEN_PATHS: Final = frozenset({"/healthz", "/login"})  # they tell nothing that needs a token
SAFE: Final = frozenset({"GET", "HEAD"})
MAX_URL: Final = 8_192
JSON: Final = "application/json"
FORM: Final = "application/x-www-form-urlencoded"
LOGIN: Final = "/login"
HEADERS: Final = {
    "Content-Security-Policy": (
        "default-src 'self'; connect-src 'self'; img-src 'self' data:; frame-ancestors 'none'"
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

    def __init__(self, host: str, token: str | None, names: frozenset[str] = frozenset()) -> None:
        self._token = token
        self._names = frozenset({"localhost", "127.0.0.1", "::1", host.lower(), *names})
        self._is_anywhere = not is_loopback(host)  # reached by names that are not known here

    @web.middleware
    async def middleware(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Check, answer, and say how the answer may be used."""
        try:
            self.check(request)
            response = await handler(request)
        except Refused as refused:
            response = refused_response(refused)
        except web.HTTPException as error:
            if error.status < 400:  # noqa: PLR2004 - a redirection is an answer
                raise
            response = refused_response(Refused(error.status, error.reason, _sentence(error)))
        if not response.prepared:
            response.headers.update(HEADERS)
            response.headers.setdefault("Cache-Control", "no-store")
        return response

    def check(self, request: web.Request) -> None:
        """Raise Refused unless this may be answered."""
        if len(request.raw_path) > MAX_URL:
            raise Refused(414, "URI_TOO_LONG", f"the address is longer than {MAX_URL} characters")
        self._check_host(request)
        self._check_site(request)
        if request.method not in SAFE:
            self._check_form(request)
        if self._token is not None and request.path not in OPEN_PATHS:
            self._check_token(request)

    def _check_host(self, request: web.Request) -> None:
        """A page elsewhere may give its own name our address: such a request is not for us."""
        host = _host_of(f"//{request.headers.get('Host', '')}")
        if self._is_anywhere and self._token is not None:
            return  # behind a name of the user's own, the token keeps strangers' pages out
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
