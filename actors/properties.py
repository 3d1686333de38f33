"""Broker settings as people write them: key=value on a command line, or a server.properties.

Rule: pure but for the file. A value becomes what its field is, or a sentence says what it must be.
On a command line an unknown key is a mistake; in a file that was written for Kafka it is told and
passed over, since Kafka has many keys that mean nothing here.
"""

from collections.abc import Iterable, Mapping
from dataclasses import fields
from pathlib import Path
from types import NoneType
from typing import Any, Final, get_args

from actors.config import BadConfig, BrokerConfig, options_of

MAX_FILE_BYTES: Final = 1 << 20
BOOLEANS: Final = {"true": True, "false": False}
# Kafka's keys with other units, and which of ours they mean; the finer unit wins, as in Kafka.
COARSER: Final[Mapping[str, tuple[str, int]]] = {
    "log.retention.hours": ("log.retention.ms", 3_600_000),
    "log.retention.minutes": ("log.retention.ms", 60_000),
    "log.roll.hours": ("log.roll.ms", 3_600_000),
}
_KINDS: Final = {
    each.name.replace("_", "."): tuple(
        kind for kind in (get_args(each.type) or (each.type,)) if kind is not NoneType
    )
    for each in fields(BrokerConfig)
}


def read_overrides(pairs: Iterable[str]) -> dict[str, Any]:
    """What `--override key=value` says, each once."""
    settings: dict[str, Any] = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals or not key.strip():
            raise BadConfig(f"{pair!r} is no KEY=VALUE")
        name = key.strip().replace("_", ".")
        options_of(BrokerConfig, {name: value})  # an unknown key is told by its nearest
        if name in settings:
            raise BadConfig(f"{name} is given twice")
        settings[name] = typed(name, value.strip())
    return settings


def read_properties(file: Path) -> tuple[dict[str, Any], list[str]]:
    """What a server.properties says, and which of its keys mean nothing here."""
    try:
        if file.stat().st_size > MAX_FILE_BYTES:
            raise BadConfig(f"{file} is larger than {MAX_FILE_BYTES} bytes")
        text = file.read_text(encoding="utf-8")
    except OSError as error:
        raise BadConfig(f"{file} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise BadConfig(f"{file} is no text") from None
    settings: dict[str, Any] = {}
    coarse: dict[str, Any] = {}
    ignored: list[str] = []
    for number, line in enumerate(_joined(text), start=1):
        key, value = _pair(file, number, line)
        if key in COARSER:
            name, times = COARSER[key]
            coarse[name] = _times(key, value, times)
        elif key in _KINDS:
            settings[key] = typed(key, value)
        else:
            ignored.append(key)
    return {**coarse, **settings}, ignored


def typed(key: str, text: str) -> Any:
    """A setting's value from its text."""
    kinds = _KINDS[key]
    if bool in kinds:
        if text.lower() not in BOOLEANS:
            raise BadConfig(f"{key} is {text!r}; it must be true or false")
        return BOOLEANS[text.lower()]
    for kind, must_be in ((int, "a whole number"), (float, "a number")):
        if kind in kinds:
            try:
                return kind(text)
            except ValueError:
                raise BadConfig(f"{key} is {text!r}; it must be {must_be}") from None
    return text


def _times(key: str, text: str, times: int) -> int:
    try:
        value = int(text)
    except ValueError:
        raise BadConfig(f"{key} is {text!r}; it must be a whole number") from None
    return value if value < 0 else value * times


def _joined(text: str) -> list[str]:
    """Lines without comments; a backslash at the end joins two, as in Java's properties."""
    lines: list[str] = []
    pending = ""
    for line in text.splitlines():
        stripped = line.strip()
        if not pending and (not stripped or stripped[0] in "#!"):
            continue
        if stripped.endswith("\\"):
            pending += stripped[:-1]
            continue
        lines.append(pending + stripped)
        pending = ""
    return [*lines, pending] if pending else lines


def _pair(file: Path, number: int, line: str) -> tuple[str, str]:
    ends = [at for at in (line.find("="), line.find(":")) if at > 0]
    if not ends:
        raise BadConfig(f"{file}: {line!r:.80} (setting {number}) is no key=value")
    at = min(ends)
    return line[:at].strip(), line[at + 1 :].strip()
