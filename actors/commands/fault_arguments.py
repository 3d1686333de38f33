"""Faults on the command line, made from the vocabulary.

Rule: a fault's flags are its fields, by the same names with dashes; what they may be is the
vocabulary's business. Nothing of it is written down a second time.
"""

import re
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator
from typing import Any, Final

import msgspec

from actors.faults.every import INVARIANTS
from actors.faults.hand import FaultRefused
from actors.faults.vocabulary import KINDS, AnyFault, Fault, fault_of

NUMBER: Final = re.compile(r"-?[0-9]{1,20}")
WHO: Final = "N|ROLE"
METAVARS: Final = {
    "broker": WHO,
    "other": WHO + "|zookeeper",
    "source": WHO + "|CLIENT",
    "to": WHO + "|CLIENT",
    "message": "TYPE",
    "path": "PATH",
    "topic": "TOPIC",
    "probability": "P",
}
ROLES: Final = '"controller", "leader of orders-0" or "follower of orders-0"'


def add_fields(parser: ArgumentParser, kind: type[Fault]) -> None:
    """A flag for each field."""
    for field in msgspec.structs.fields(kind):
        flag, is_switch = f"--{dashed(field.name)}", field.type is bool
        if is_switch:
            parser.add_argument(flag, action="store_true")
        else:
            default = None if field.required else field.default
            said = "" if default in (None, "") else f"default: {default}"
            metavar = METAVARS.get(field.name, "MS" if field.name.endswith("ms") else "N")
            parser.add_argument(flag, metavar=metavar, required=field.required, help=said or None)


def add_invariants(parser: ArgumentParser, said: str) -> None:
    """Which of them look on."""
    parser.add_argument(
        "--invariant", action="append", default=[], choices=INVARIANTS, metavar="NAME", help=said
    )


def fault_given(name: str, given: Namespace) -> AnyFault:
    """The fault that was asked for, or FaultRefused."""
    table: dict[str, Any] = {"fault": name}
    for field in msgspec.structs.fields(KINDS[name]):
        value = getattr(given, field.name)
        if value is not None and value is not False:
            table[field.name] = _value(value)
    try:
        return fault_of(table)
    except FaultRefused as error:
        raise FaultRefused(re.sub(r"\b([a-z]+)_(?=[a-z])", r"\1-", str(error))) from None


def _value(text: Any) -> Any:
    """As a scenario would have it: what looks like a number is one."""
    if not isinstance(text, str):
        return text
    if NUMBER.fullmatch(text):
        return int(text)
    try:
        return float(text)
    except ValueError:
        return text


def vocabulary_lines() -> Iterator[str]:
    """Every fault: what it does, and its flags."""
    for name, kind in KINDS.items():
        yield f"{name:18} {about(kind)}"
        flags = " ".join(_flag(field) for field in msgspec.structs.fields(kind))
        if flags:
            yield f"{'':18}   {flags}"


def about(kind: type[Fault]) -> str:
    """What a fault does, in a sentence."""
    return (kind.__doc__ or "").strip().splitlines()[0]


def dashed(name: str) -> str:
    """As a flag spells it."""
    return name.replace("_", "-")


def _flag(field: msgspec.structs.FieldInfo) -> str:
    flag = f"--{dashed(field.name)}"
    if field.type is not bool:
        flag += " " + METAVARS.get(field.name, "MS" if field.name.endswith("ms") else "N")
    return flag if field.required else f"[{flag}]"
