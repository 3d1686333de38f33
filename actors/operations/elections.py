"""Electing leaders on request.

Rule: a partition that needs no election is no error, as in Kafka.
"""

from typing import Annotated, Final

from msgspec import Meta, Struct

from actors.clients import Clients
from actors.operations.given import PartitionGiven
from actors.operations.operation import BadInput, Operation
from wire.admin import ElectionType
from wire.errors import ErrorCode
from wire.ids import TopicPartition

TYPES: Final = {each.name.lower(): each for each in ElectionType}


class ElectGiven(Struct, kw_only=True, forbid_unknown_fields=True):
    """Which kind of election, and for whom; without partitions: for all."""

    election_type: str
    partitions: Annotated[list[PartitionGiven], Meta(max_length=100_000)] | None = None


class NotElected(Struct):
    """A partition for which nobody was elected."""

    topic: str
    partition: int
    error: str
    message: str


class ElectionsHeld(Struct):
    """How it went."""

    elected: list[PartitionGiven]
    not_needed: list[PartitionGiven]
    failed: list[NotElected]


async def elect_leaders(clients: Clients, given: ElectGiven) -> ElectionsHeld:
    """Elect, and answer when the leaders lead."""
    kind = TYPES.get(given.election_type.lower())
    if kind is None:
        known = ", ".join(TYPES)
        raise BadInput(f"election_type is {given.election_type!r:.50}; it must be one of {known}")
    wanted = None
    if given.partitions is not None:
        wanted = [TopicPartition(each.topic, each.partition) for each in given.partitions]
    results = await clients.admin().elect_leaders(kind, wanted)
    held = ElectionsHeld([], [], [])
    for at, error in sorted(results.items()):
        named = PartitionGiven(topic=at.topic, partition=at.partition)
        if error is None:
            held.elected.append(named)
        elif error.code is ErrorCode.ELECTION_NOT_NEEDED:
            held.not_needed.append(named)
        else:
            held.failed.append(NotElected(at.topic, at.partition, error.code.name, str(error)))
    return held


OPERATIONS: Final = (
    Operation(
        "electLeaders",
        "POST",
        "/api/elections",
        "Elect preferred leaders, or unclean ones where nobody leads.",
        ElectGiven,
        ElectionsHeld,
        elect_leaders,
    ),
)
