"""Moving partitions: propose, begin, verify, list, cancel.

Rule: a plan is Kafka's JSON, as an object or as the text of a file, and is read whole before
anything is done.
"""

import json
from typing import Annotated, Any, Final

from msgspec import Meta, Struct

from actors.administration.plans import MalformedPlan
from actors.client import reassign
from actors.client.reassign import MoveState, Placed
from actors.clients import Clients
from actors.operations.given import Brokers, Nothing, Text, TopicName
from actors.operations.operation import BadInput, Operation

PlanGiven = dict[str, Any] | Text


class PlannedPartition(Struct):
    """Where one partition is, or shall be."""

    topic: str
    partition: int
    replicas: tuple[int, ...]


class Plan(Struct):
    """What kafka-reassign-partitions reads and writes."""

    partitions: list[PlannedPartition]
    version: int = 1


class GenerateGiven(Struct, kw_only=True, forbid_unknown_fields=True):
    """Which topics, and to which brokers."""

    topics: Annotated[list[TopicName], Meta(min_length=1, max_length=10_000)] | PlanGiven
    broker_list: Brokers
    rack_aware: bool = True


class Proposal(Struct):
    """Where the partitions are, and where they could be."""

    current: Plan
    proposed: Plan


class ExecuteGiven(Struct, kw_only=True, forbid_unknown_fields=True):
    """A plan to be carried out."""

    plan: PlanGiven
    throttle: Annotated[int, Meta(ge=1)] | None = None  # bytes a second, for each broker
    additional: bool = False


class Begun(Struct):
    """The moves have begun; this plan would take them back."""

    previous: Plan


class VerifyGiven(Struct, kw_only=True, forbid_unknown_fields=True):
    """A plan that was carried out."""

    plan: PlanGiven
    preserve_throttles: bool = False


class PartitionMoved(Struct):
    """How far one partition is: in progress, completed, failed."""

    topic: str
    partition: int
    state: str


class Verified(Struct):
    """How far the plan is."""

    is_complete: bool
    partitions: list[PartitionMoved]


class Move(Struct):
    """One partition on the move."""

    topic: str
    partition: int
    replicas: tuple[int, ...]
    adding: tuple[int, ...]
    removing: tuple[int, ...]


class Cancelled(Struct):
    """The moves that were taken back."""

    cancelled: list[PlannedPartition]


def _text(given: Any) -> str:
    return given if isinstance(given, str) else json.dumps(given)


def _plan(placed: Placed) -> Plan:
    return Plan([PlannedPartition(at.topic, at.partition, of) for at, of in sorted(placed.items())])


async def generate(clients: Clients, given: GenerateGiven) -> Proposal:
    """Where topics could be on these brokers."""
    topics: Any = given.topics
    if isinstance(topics, list):
        topics = {"version": 1, "topics": [{"topic": each} for each in topics]}
    try:
        current, proposed = await reassign.generate(
            clients.admin(), _text(topics), given.broker_list, given.rack_aware
        )
    except MalformedPlan as error:
        raise BadInput(str(error)) from None
    return Proposal(_plan(current), _plan(proposed))


async def execute(clients: Clients, given: ExecuteGiven) -> Begun:
    """Begin the moves."""
    try:
        previous = await reassign.execute(
            clients.admin(), _text(given.plan), given.throttle, given.additional
        )
    except MalformedPlan as error:
        raise BadInput(str(error)) from None
    return Begun(_plan(previous))


async def verify(clients: Clients, given: VerifyGiven) -> Verified:
    """How far a plan is; when nothing moves any more, throttles are removed."""
    try:
        states = await reassign.verify(clients.admin(), _text(given.plan), given.preserve_throttles)
    except MalformedPlan as error:
        raise BadInput(str(error)) from None
    return Verified(
        all(state is MoveState.COMPLETED for state in states.values()),
        [
            PartitionMoved(at.topic, at.partition, state.value)
            for at, state in sorted(states.items())
        ],
    )


async def list_moves(clients: Clients, _: Nothing) -> list[Move]:
    """All that is on the move."""
    moves = await reassign.moves(clients.admin())
    return [
        Move(at.topic, at.partition, of.replicas, of.adding_replicas, of.removing_replicas)
        for at, of in sorted(moves.items())
    ]


async def cancel(clients: Clients, given: VerifyGiven) -> Cancelled:
    """Take back those moves of a plan that still go on."""
    try:
        moving = await reassign.cancel(clients.admin(), _text(given.plan), given.preserve_throttles)
    except MalformedPlan as error:
        raise BadInput(str(error)) from None
    return Cancelled([PlannedPartition(at.topic, at.partition, ()) for at in moving])


OPERATIONS: Final = (
    Operation(
        "listReassignments",
        "GET",
        "/api/reassignments",
        "All partitions on the move.",
        Nothing,
        list[Move],
        list_moves,
    ),
    Operation(
        "generateReassignment",
        "POST",
        "/api/reassignments/proposal",
        "Where topics could be on some brokers.",
        GenerateGiven,
        Proposal,
        generate,
    ),
    Operation(
        "executeReassignment",
        "POST",
        "/api/reassignments",
        "Begin to move partitions.",
        ExecuteGiven,
        Begun,
        execute,
    ),
    Operation(
        "verifyReassignment",
        "POST",
        "/api/reassignments/verification",
        "How far a plan is; removes throttles when nothing moves any more.",
        VerifyGiven,
        Verified,
        verify,
    ),
    Operation(
        "cancelReassignment",
        "POST",
        "/api/reassignments/cancellation",
        "Take back the moves of a plan that still go on.",
        VerifyGiven,
        Cancelled,
        cancel,
    ),
)
