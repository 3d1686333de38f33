"""What all commands that talk to a cluster share.

Rule: arguments are checked before anybody is called. A failure is one sentence on standard error
and exit code 1; answers go to standard output, as words or, with --json, as JSON.
"""

import argparse
import json
import os
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec

from actors.clients import Clients, SharedAdmin
from actors.commands.parser import Parser
from actors.config import BadConfig
from actors.operations.operation import BadInput
from actors.remote import ClusterUnreachable, RemoteCluster
from actors.token import BadToken, token_of
from runtime.main import INTERRUPTED, Sentence, run
from wire.errors import ApiError, MalformedMessage

Work = Callable[[Clients, argparse.Namespace], Awaitable[int | None]]


def command_parser(name: str, description: str, example: str) -> Parser:
    """A parser with what every command takes."""
    parser = Parser(
        prog=name,
        description=description,
        epilog=f"example: bin/{name} {example}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--bootstrap-server",
        required=True,
        metavar="HOST:PORT",
        help="any broker, or the live page",
    )
    parser.add_argument(
        "--token-file",
        type=Path,
        metavar="FILE",
        help="what the cluster demands if it is not on loopback; or UNDERSTUDY_TOKEN",
    )
    return parser


def run_command(
    parser: Parser, given: argparse.Namespace, work: Work, *, interrupted: int = INTERRUPTED
) -> int:
    """Connect, do it, and answer the exit code; work that Ctrl-C has cut short is not done."""
    try:
        code = run(_connected(given, work), name=parser.prog, interrupted=interrupted)
        sys.stdout.flush()
    except BrokenPipeError:  # whoever read the answer has enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    return code


async def _connected(given: argparse.Namespace, work: Work) -> int | None:
    try:
        token = token_of(given.token_file, os.environ)
        async with RemoteCluster(given.bootstrap_server, token=token) as cluster:
            return await work(SharedAdmin(cluster), given)
    except (ClusterUnreachable, BadToken, BadInput, BadConfig) as error:
        raise Sentence(str(error)) from None
    except ApiError as error:
        raise Sentence(f"{error} ({error.code.name})") from None
    except MalformedMessage as error:
        raise Sentence(f"the answer makes no sense: {error}") from None


def given_as(kind: type[Any], **fields: Any) -> Any:
    """What an operation is given, if it is within its bounds; None is left out."""
    try:
        return msgspec.convert({k: v for k, v in fields.items() if v is not None}, kind)
    except msgspec.ValidationError as error:
        what, _, where = str(error).partition(" - at `$.")
        raise BadInput(f"{where.strip('`') or 'the arguments'}: {what}") from None


def print_json(answer: Any) -> None:
    """An answer for programs."""
    text = msgspec.json.format(msgspec.json.encode(answer), indent=2)
    say(text.decode())


def say(line: str = "") -> None:
    """An answer for people."""
    sys.stdout.write(line + "\n")


def many(count: int, one: str, several: str = "") -> str:
    """1 seed, 2 seeds."""
    return f"{count} {one if count == 1 else several or one + 's'}"


def warn(line: str) -> None:
    """Something a person should know that is no answer."""
    sys.stderr.write(line + "\n")


def read_file(path: Path) -> str:
    """A small file's text."""
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise BadInput(f"{path} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise BadInput(f"{path} is no text") from None
    return text


def read_json(path: Path) -> str:
    """The text of a small file, if it is JSON; what is wrong is told with its place."""
    text = read_file(path)
    try:
        json.loads(text)
    except json.JSONDecodeError as error:
        reason = f"{error.msg[0].lower()}{error.msg[1:]}"
        # Python tells what it would like to see after the comma, not that there is one too many.
        after_comma, here = text[: error.pos].rstrip().endswith(","), text[error.pos :][:1]
        if after_comma and here in ("]", "}"):
            reason = f"a comma before {here!r}; it must be removed"
        raise BadInput(f"{path}, line {error.lineno}, column {error.colno}: {reason}") from None
    except (ValueError, RecursionError) as error:  # too long a number, too deep a nesting
        raise BadInput(f"{path}: {error}") from None
    return text


def key_values(text: str) -> dict[str, str]:
    """`a=1,b=[x,y]` as kafka-configs reads it: brackets keep the commas of a list."""
    found: dict[str, str] = {}
    for part in _split(text):
        key, equals, value = part.partition("=")
        if not equals or not key.strip():
            raise BadInput(f"{part!r:.80} is no KEY=VALUE")
        value = value.strip()
        if value.startswith("[") and value.endswith("]"):
            value = value[1:-1]
        if key.strip() in found:
            raise BadInput(f"{key.strip()} is given twice")
        found[key.strip()] = value
    return found


def _split(text: str) -> list[str]:
    parts, depth = [""], 0
    for letter in text:
        depth += (letter == "[") - (letter == "]")
        if letter == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += letter
    return parts


def config_pairs(pairs: list[str]) -> dict[str, str]:
    """`--config key=value`, each once."""
    found: dict[str, str] = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals or not key.strip():
            raise BadInput(f"{pair!r:.80} is no KEY=VALUE")
        if key.strip() in found:
            raise BadInput(f"{key.strip()} is given twice")
        found[key.strip()] = value.strip()
    return found


def one_of(given: argparse.Namespace, parser: Parser, *names: str) -> str:
    """The one action that was asked for."""
    chosen = [name for name in names if getattr(given, name)]
    if len(chosen) != 1:
        flags = ", ".join(f"--{name.replace('_', '-')}" for name in names)
        parser.error(f"exactly one of {flags} must be given")
    return chosen[0]


def client_options(pairs: list[str]) -> dict[str, Any]:
    """`--producer-property key=value`: numbers become numbers, true and false what they are."""
    options: dict[str, Any] = {}
    for key, value in config_pairs(pairs).items():
        if value.lower() in ("true", "false"):
            options[key] = value.lower() == "true"
        else:
            options[key] = int(value) if value.lstrip("-").isdecimal() else value
    return options
