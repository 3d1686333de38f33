"""Faults over HTTP: every one of the vocabulary, those that are active, and healing one of them.

Rule: a body is a fault as a scenario writes it; what it may say is the vocabulary's business, and
so is its description.
"""

from typing import Annotated, Any

from msgspec import Meta, Struct

from actors.clients import Clients
from actors.doors.http.guard import Refused
from actors.faults.hand import FaultRefused
from actors.faults.injector import Injected, Injector
from actors.faults.vocabulary import AnyFault, Heal, as_table, fault_of
from actors.operations.given import Nothing
from actors.operations.operation import BadInput, Operation


class FaultDone(Struct):
    """It was done."""

    done: str
    number: int  # by which it can be healed; 0: it mends, and nobody had broken what it mends


class ActiveFault(Struct):
    """A fault that is not mended."""

    number: int
    fault: dict[str, Any]  # as a scenario would write it
    text: str


class NumberGiven(Struct, kw_only=True, forbid_unknown_fields=True):
    """Which fault."""

    number: Annotated[int, Meta(ge=1, le=2**62)]


def fault_given(table: dict[str, Any]) -> AnyFault:
    """The fault that a body describes."""
    if "fault" not in table:
        raise BadInput("fault is missing: what shall be broken, or mended?")
    try:
        return fault_of(table)
    except FaultRefused as error:
        raise BadInput(str(error)) from None


class FaultDoor:
    """What the rows run."""

    def __init__(self, injector: Injector, *, has_faults: bool) -> None:
        self._injector = injector
        self._has_faults = has_faults

    async def inject(self, _: Clients, fault: AnyFault) -> FaultDone:
        """Break it, or mend it."""
        self._check()
        return _done(await self._injector.inject(fault))

    async def list_active(self, _: Clients, __: Nothing) -> list[ActiveFault]:
        """What is broken now."""
        self._check()
        return [
            ActiveFault(number, as_table(each.fault), each.sentence)
            for number, each in sorted(self._injector.active.items())
        ]

    async def heal(self, _: Clients, given: NumberGiven) -> FaultDone:
        """Undo one."""
        self._check()
        return _done(await self._injector.inject(Heal(number=given.number)))

    def _check(self) -> None:
        if not self._has_faults:
            raise Refused(403, "FORBIDDEN", "faults are off here: start with --faults")


def _done(injected: Injected) -> FaultDone:
    return FaultDone(injected.sentence, injected.number)


def fault_operations(injector: Injector, *, has_faults: bool) -> tuple[Operation, ...]:
    """The rows."""
    door = FaultDoor(injector, has_faults=has_faults)
    return (
        Operation(
            "injectFault",
            "POST",
            "/api/faults",
            "Break a broker, a link, a message, a watch, a disk, a clock or ZooKeeper; or heal.",
            AnyFault,
            FaultDone,
            door.inject,
            fault_given,
        ),
        Operation(
            "listFaults",
            "GET",
            "/api/faults",
            "The faults that are not mended, by their numbers.",
            Nothing,
            list[ActiveFault],
            door.list_active,
        ),
        Operation(
            "healFault",
            "DELETE",
            "/api/faults/{number}",
            "Undo one fault.",
            NumberGiven,
            FaultDone,
            door.heal,
        ),
    )
