"""Who may come in, and how he proves it: PLAIN and SCRAM-SHA-256 (RFC 5802).

Rule: secrets are compared in constant time, and what is wrong is one sentence for all, which does
not say whether there is such a user. A login that has failed does not go on.
"""

import hashlib
import hmac
from base64 import b64decode, b64encode
from binascii import Error as NoBase64
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, Protocol

PLAIN: Final = "PLAIN"
SCRAM: Final = "SCRAM-SHA-256"
MECHANISMS: Final = (PLAIN, SCRAM)
ITERATIONS: Final = 4_096
NONCE_BYTES: Final = 24
SALT_BYTES: Final = 16
MOST_TOKEN_BYTES: Final = 10_000

RandomBytes = Callable[[int], bytes]


class LoginFailed(Exception):
    """Somebody is not who he says, or does not say it in the right form."""

    def __init__(self, mechanism: str) -> None:
        super().__init__(f"Authentication by {mechanism} failed: wrong name or password.")


class Exchange(Protocol):
    """One login under way."""

    def answer(self, token: bytes) -> tuple[bytes, bool]:
        """What is answered, and whether the login is complete; or LoginFailed is raised."""


class Credentials:
    """Names and passwords."""

    def __init__(self, users: Mapping[str, str]) -> None:
        self._users = {name: password.encode() for name, password in users.items()}
        self._keys: dict[str, ScramKeys] = {}

    def begin(self, mechanism: str, random_bytes: RandomBytes) -> Exchange:
        """Begin a login by one of MECHANISMS."""
        return Plain(self) if mechanism == PLAIN else Scram(self, random_bytes)

    def password(self, name: str) -> bytes | None:
        """A user's password, if there is such a user."""
        return self._users.get(name)

    def keys(self, name: str, random_bytes: RandomBytes) -> "ScramKeys | None":
        """What SCRAM wants of a user's password; it takes a while, and so it is kept."""
        password = self._users.get(name)
        if password is None:
            return None
        if name not in self._keys:
            self._keys[name] = ScramKeys.of(password, random_bytes(SALT_BYTES))
        return self._keys[name]


class Plain:
    """The name and the password, as they are (RFC 4616)."""

    def __init__(self, credentials: Credentials) -> None:
        self._credentials = credentials

    def answer(self, token: bytes) -> tuple[bytes, bool]:
        """One token is all."""
        parts = token.split(b"\0")
        if len(parts) != 3:  # noqa: PLR2004 - on whose behalf, name, password
            raise LoginFailed(PLAIN)
        _, name, given = parts
        expected = self._credentials.password(name.decode(errors="replace"))
        if not hmac.compare_digest(given, expected or b"") or not expected:
            raise LoginFailed(PLAIN)
        return b"", True


@dataclass(frozen=True)
class ScramKeys:
    """What a server keeps instead of a password."""

    salt: bytes
    stored: bytes
    server: bytes

    @classmethod
    def of(cls, password: bytes, salt: bytes) -> "ScramKeys":
        """Derived as RFC 5802 says."""
        salted = hashlib.pbkdf2_hmac("sha256", password, salt, ITERATIONS)
        client_key = _hmac(salted, b"Client Key")
        return cls(salt, hashlib.sha256(client_key).digest(), _hmac(salted, b"Server Key"))


class Scram:
    """The proof that one knows the password, without the password."""

    def __init__(self, credentials: Credentials, random_bytes: RandomBytes) -> None:
        self._credentials = credentials
        self._random_bytes = random_bytes
        self._keys: ScramKeys | None = None
        self._nonce = b""
        self._binding = b""  # what was said of channels, which must be said again
        self._said = b""  # of the exchange so far, what is signed

    def answer(self, token: bytes) -> tuple[bytes, bool]:
        """Two tokens, each answered."""
        try:
            return self._first(token) if self._keys is None else self._final(self._keys, token)
        except (KeyError, ValueError, NoBase64):
            raise LoginFailed(SCRAM) from None

    def _first(self, token: bytes) -> tuple[bytes, bool]:
        binding, _, bare = token.split(b",", 2)
        self._binding = b64encode(token.removesuffix(bare))
        if binding not in {b"n", b"y"}:  # no channel that could be bound to
            raise LoginFailed(SCRAM)
        said = _attributes(bare)
        name = said[b"n"].replace(b"=2C", b",").replace(b"=3D", b"=").decode()
        self._keys = self._credentials.keys(name, self._random_bytes)
        if self._keys is None:
            raise LoginFailed(SCRAM)
        self._nonce = said[b"r"] + b64encode(self._random_bytes(NONCE_BYTES))
        salt = b64encode(self._keys.salt)
        answer = b"r=%s,s=%s,i=%d" % (self._nonce, salt, ITERATIONS)
        self._said = bare + b"," + answer
        return answer, False

    def _final(self, keys: ScramKeys, token: bytes) -> tuple[bytes, bool]:
        unproven, _, proof = token.rpartition(b",p=")
        claimed = _attributes(unproven)
        if claimed[b"r"] != self._nonce or claimed[b"c"] != self._binding.rstrip(b"="):
            raise LoginFailed(SCRAM)
        said = self._said + b"," + unproven
        signature, proven = _hmac(keys.stored, said), b64decode(proof, validate=True)
        if len(proven) != len(signature):
            raise LoginFailed(SCRAM)
        client_key = bytes(a ^ b for a, b in zip(proven, signature, strict=True))
        if not hmac.compare_digest(hashlib.sha256(client_key).digest(), keys.stored):
            raise LoginFailed(SCRAM)
        return b"v=" + b64encode(_hmac(keys.server, said)), True


def _attributes(said: bytes) -> dict[bytes, bytes]:
    """`n=name,r=nonce` as a mapping."""
    found = {}
    for each in said.split(b","):
        name, _, value = each.partition(b"=")
        found[name] = value.rstrip(b"=") if name == b"c" else value
    return found


def _hmac(key: bytes, said: bytes) -> bytes:
    return hmac.digest(key, said, "sha256")
