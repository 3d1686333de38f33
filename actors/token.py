"""The token that doors demand which are not on loopback, and the users of Kafka's door.

Rule: it comes from a file or from the environment, never from the command line, where everybody on
the machine could read it; and it is never printed.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

VARIABLE: Final = "UNDERSTUDY_TOKEN"
LEAST: Final = 16
MOST: Final = 512


class BadToken(ValueError):
    """It cannot be a token; the sentence does not show it."""


def token_of(file: Path | None, environment: Mapping[str, str]) -> str | None:
    """The token in a file, or else in the environment, or None."""
    if file is not None:
        try:
            text = file.read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is no text"
            raise BadToken(f"the token file {file} cannot be read: {reason}") from None
        return _checked(text, f"the token file {file}")
    text = environment.get(VARIABLE, "")
    return _checked(text, VARIABLE) if text else None


def users_of(file: Path | None) -> tuple[tuple[str, str], ...]:
    """The names and passwords in a file, `name:password` a line; none without a file."""
    if file is None:
        return ()
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is no text"
        raise BadToken(f"the file of users {file} cannot be read: {reason}") from None
    users = {}
    for number, line in enumerate(lines, start=1):
        if not line.strip() or line.startswith("#"):
            continue
        name, colon, password = line.partition(":")
        if not (name and colon and password):
            raise BadToken(f"line {number} of the file of users {file} is not NAME:PASSWORD")
        users[name] = password
    if not users:
        raise BadToken(f"the file of users {file} names nobody")
    return tuple(users.items())


def _checked(token: str, where: str) -> str:
    if not LEAST <= len(token) <= MOST:
        raise BadToken(f"{where} has {len(token)} characters; a token has {LEAST} to {MOST}")
    if not token.isascii() or not token.isprintable() or " " in token:
        raise BadToken(f"{where} must be printable ASCII without spaces")
    return token
