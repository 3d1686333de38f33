"""bin/dump-log: what is in a log's files, as kafka-dump-log prints it.

Rule: it only reads, and reads files of any age: what is wrong in one is told with its place, and
the rest is still shown.
"""

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from struct import Struct
from typing import Any, Final

import msgspec

from actors.broker.log.names import LOG, OFFSET_INDEX, TIME_INDEX, parse_name
from actors.commands.parser import Parser
from actors.operations.logs import MOST_BYTES, Unreadable, batches_in, describe, record_rows
from runtime.main import INTERRUPTED

INDEX_ENTRY: Final = Struct("!II")
TIME_ENTRY: Final = Struct("!qI")
EPOCHS: Final = "leader-epoch-checkpoint"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command."""
    parser = Parser(
        prog="dump-log",
        description="Show what is in the files of a log: batches, records, indexes.",
        epilog="example: bin/dump-log --files data/broker-1/orders-0/00000000000000000000.log "
        "--print-data-log",
    )
    parser.add_argument("--files", required=True, metavar="FILE,…", help=".log, .index, .timeindex")
    parser.add_argument("--deep-iteration", action="store_true", help="show records, too")
    parser.add_argument("--print-data-log", action="store_true", help="and their keys and values")
    parser.add_argument("--json", action="store_true", help="a JSON object a line")
    given = parser.parse_args(arguments)
    try:
        code = _dump_all(given)
        sys.stdout.flush()
    except BrokenPipeError:  # whoever read it has enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except KeyboardInterrupt:
        return INTERRUPTED
    return code


def _dump_all(given: argparse.Namespace) -> int:
    code = 0
    for name in given.files.split(","):
        try:
            _dump(Path(name.strip()), given)
        except Unreadable as error:
            sys.stderr.write(f"dump-log: {error}\n")
            code = 1
    return code


def _dump(path: Path, given: argparse.Namespace) -> None:
    try:
        if path.stat().st_size > MOST_BYTES:
            raise Unreadable(f"{path} is larger than {MOST_BYTES} bytes")
        content = path.read_bytes()
    except OSError as error:
        raise Unreadable(f"{path} cannot be read: {error.strerror}") from None
    if not given.json:
        _say(f"Dumping {path}")
    if path.suffix == LOG:
        _dump_log(path, content, given)
    elif path.suffix == OFFSET_INDEX:
        base = _base(path)
        for offset, position in INDEX_ENTRY.iter_unpack(_whole(path, content, INDEX_ENTRY.size)):
            _entry(given, "offset: {} position: {}", offset=base + offset, position=position)
    elif path.suffix == TIME_INDEX:
        base = _base(path)
        for time_ms, offset in TIME_ENTRY.iter_unpack(_whole(path, content, TIME_ENTRY.size)):
            _entry(given, "timestamp: {} offset: {}", timestamp=time_ms, offset=base + offset)
    elif path.name == EPOCHS:
        _say(content.decode(errors="replace").rstrip())
    else:
        raise Unreadable(f"{path} is none of {LOG}, {OFFSET_INDEX}, {TIME_INDEX}, {EPOCHS}")


def _dump_log(path: Path, content: bytes, given: argparse.Namespace) -> None:
    if not given.json:
        _say(f"Starting offset: {_base(path)}")
    is_deep = given.deep_iteration or given.print_data_log
    for batch in batches_in(path, content):
        shown = describe(batch)
        if given.json:
            records = record_rows(batch, with_data=given.print_data_log) if is_deep else None
            _say_json({**shown, "records": records} if is_deep else shown)
            continue
        _say(" ".join(f"{name}: {_value(of)}" for name, of in shown.items()))
        for row in record_rows(batch, with_data=given.print_data_log) if is_deep else ():
            _say("| " + " ".join(f"{name}: {_value(of)}" for name, of in row.items()))


def _base(path: Path) -> int:
    parsed = parse_name(path.name)
    if parsed is None:
        raise Unreadable(f"{path}: its name must be the first offset, in 20 digits")
    return parsed[0]


def _whole(path: Path, content: bytes, size: int) -> bytes:
    if len(content) % size:
        raise Unreadable(f"{path} has {len(content)} bytes; entries have {size}")
    return content


def _entry(given: argparse.Namespace, words: str, **fields: int) -> None:
    if given.json:
        _say_json(fields)
    else:
        _say(words.format(*fields.values()))


def _value(of: Any) -> str:
    if isinstance(of, bool):
        return str(of).lower()
    return f"[{','.join(of)}]" if isinstance(of, list) else str(of)


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")


def _say_json(content: dict[str, Any]) -> None:
    _say(msgspec.json.encode(content).decode())
