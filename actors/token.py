"""The token that doors demand which are not on loopback.

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


def _checked(token: str, where: str) -> str:
    if not LEAST <= len(token) <= MOST:
        raise BadToken(f"{where} has {len(token)} characters; a token has {LEAST} to {MOST}")
    if not token.isascii() or not token.isprintable() or " " in token:
        raise BadToken(f"{where} must be printable ASCII without spaces")
    return token
