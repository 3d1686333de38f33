"""A history as a file: JSON Lines, one event a line, from any Kafka client.

Rule: a file is read whole or not at all: what is wrong is one sentence with its line. Fields that
are not known here are passed over. Lines need not be in order: their times are.

`event` says which kind it is, and the rest are the fields of that class in events.py:

    {"event":"sent","at_ms":1,"client":"p","id":"p-1","topic":"orders","partition":0,"value":"a"}
    {"event":"acknowledged","at_ms":4,"id":"p-1","offset":0}
    {"event":"sent","at_ms":5,"client":"p","id":"p-2","topic":"orders","partition":0,"value":"b",
     "acks":1,"is_idempotent":false}                                   (on one line, as all are)
    {"event":"failed","at_ms":9,"id":"p-2","error":"timed out","is_certain":false}
    {"event":"positioned","at_ms":10,"client":"c","topic":"orders","partition":0,"offset":0}
    {"event":"polled","at_ms":12,"client":"c","topic":"orders","partition":0,"offset":0,"value":"a"}
    {"event":"end_seen","at_ms":14,"began_ms":11,"client":"c","topic":"orders","partition":0,
     "offset":1}
    {"event":"committed","at_ms":16,"began_ms":15,"client":"c","group":"g","topic":"orders",
     "partition":0,"offset":1}
    {"event":"committed_seen","at_ms":18,"began_ms":17,"client":"c","group":"g","topic":"orders",
     "partition":0,"offset":1}

`acks` is -1 (all), 1 or 0. An offset of -1 is one that nobody said. Without `began_ms` a question
counts as asked when it was answered: give it where clients work at the same time.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO, Final

import msgspec

from actors.faults.history.events import AnyEvent

MOST_LINE_BYTES: Final = 1 << 20
_DECODER: Final = msgspec.json.Decoder(AnyEvent)


class BadHistory(Exception):
    """A history that cannot be judged, and why."""


def read_history(path: Path) -> list[AnyEvent]:
    """The events of a file, as they are there."""
    try:
        with path.open("rb") as file:
            return list(_events_in(path, file))
    except OSError as error:
        raise BadHistory(f"{path} cannot be read: {error.strerror}") from None


def write_history(path: Path, events: Iterable[AnyEvent]) -> None:
    """Write a file that read_history reads."""
    encoder = msgspec.json.Encoder()
    with path.open("wb") as file:
        for each in events:
            file.write(encoder.encode(each))
            file.write(b"\n")


def _events_in(path: Path, file: BinaryIO) -> Iterator[AnyEvent]:
    number = 0
    while line := file.readline(MOST_LINE_BYTES + 1):
        number += 1
        if len(line) > MOST_LINE_BYTES:
            raise BadHistory(
                f"{path}, line {number}: it is longer than {MOST_LINE_BYTES} bytes; "
                "put a hash for a large value"
            )
        if line.isspace():
            continue
        try:
            yield _DECODER.decode(line)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise BadHistory(f"{path}, line {number}: {_reason(error)}") from None


def _reason(error: Exception) -> str:
    """What is wrong, with the field first."""
    if isinstance(error, UnicodeDecodeError):
        return "it is no text"
    what, _, where = str(error).partition(" - at `$.")
    what = what if what[:2].isupper() else f"{what[:1].lower()}{what[1:]}"
    return f"{where.rstrip('`')}: {what}" if where else what
