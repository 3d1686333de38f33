"""Whether a connection may ask for anything yet.

Rule: where credentials are demanded, nothing but ApiVersions and the login itself is served before
it is complete. After a handshake of version 0 tokens come as bare frames, as Kafka has them.
"""

from actors.doors.kafka.credentials import (
    MECHANISMS,
    MOST_TOKEN_BYTES,
    Credentials,
    Exchange,
    LoginFailed,
    RandomBytes,
)
from wire.errors import ErrorCode


class Login:
    """How far one connection is."""

    def __init__(self, credentials: Credentials | None, random_bytes: RandomBytes) -> None:
        self._credentials = credentials
        self._random_bytes = random_bytes
        self._exchange: Exchange | None = None
        self._mechanism = ""
        self.is_complete = credentials is None
        self.takes_bare_tokens = False

    def choose(self, mechanism: str, *, bare_tokens: bool) -> ErrorCode:
        """Begin, by one of the mechanisms."""
        if self._credentials is None or self.is_complete or self._exchange is not None:
            return ErrorCode.ILLEGAL_SASL_STATE
        if mechanism not in MECHANISMS:
            return ErrorCode.UNSUPPORTED_SASL_MECHANISM
        self._mechanism = mechanism
        self._exchange = self._credentials.begin(mechanism, self._random_bytes)
        self.takes_bare_tokens = bare_tokens
        return ErrorCode.NONE

    @property
    def is_begun(self) -> bool:
        """Whether a token is due."""
        return self._exchange is not None

    def take(self, token: bytes) -> bytes:
        """The answer to a token, or LoginFailed."""
        assert self._exchange is not None, "it has begun"
        if len(token) > MOST_TOKEN_BYTES:
            raise LoginFailed(self._mechanism)
        answer, self.is_complete = self._exchange.answer(token)
        if self.is_complete:
            self._exchange = None
            self.takes_bare_tokens = False
        return answer
