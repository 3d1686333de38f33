"""Groups: who has committed what, how far that is behind, and where it should go on.

Rule: lag is what a consumer could still read: the high watermark less the committed offset.
"""

from typing import Annotated, Final

from msgspec import Meta, Struct

from actors.clients import Clients
from actors.operations.given import GroupName, Nothing, OffsetNumber, PartitionNumber, TopicName
from actors.operations.operation import BadInput, Operation
from actors.operations.records import partitions_of
from wire.errors import ErrorCode, exception_of
from wire.ids import TopicPartition

PLACES: Final = ("earliest", "latest", "offset")


class GroupNames(Struct):
    """Names, sorted."""

    groups: tuple[str, ...]


class GroupGiven(Struct, kw_only=True, forbid_unknown_fields=True):
    """Which group."""

    group: GroupName


class GroupOffset(Struct):
    """How far a group has read one partition; without a leader nobody knows where that ends."""

    topic: str
    partition: int
    current_offset: int
    log_end_offset: int | None
    lag: int | None
    metadata: str = ""


class GroupDescription(Struct):
    """All that a group has committed."""

    group: str
    offsets: list[GroupOffset]


class ResetGiven(Struct, kw_only=True, forbid_unknown_fields=True):
    """Where a group should go on; without a topic: wherever it has committed something."""

    group: GroupName
    to: str
    offset: OffsetNumber | None = None
    topic: TopicName | None = None
    partitions: Annotated[list[PartitionNumber], Meta(min_length=1, max_length=10_000)] | None = (
        None
    )
    execute: bool = False  # False: only say what would be


class NewOffset(Struct):
    """Where the group goes on in one partition."""

    topic: str
    partition: int
    new_offset: int


class OffsetsReset(Struct):
    """What was done, or would be."""

    group: str
    is_executed: bool
    offsets: list[NewOffset]


async def list_groups(clients: Clients, _: Nothing) -> GroupNames:
    """The groups that have committed something."""
    return GroupNames(await clients.admin().list_groups())


async def describe_group(clients: Clients, given: GroupGiven) -> GroupDescription:
    """Committed offsets, ends, and lag."""
    # Listed first: to ask for a coordinator would make the coordinators' topic.
    known = (await list_groups(clients, Nothing())).groups
    committed = await clients.admin().group_offsets(given.group) if given.group in known else {}
    found = {at: of for at, of in sorted(committed.items()) if of is not None}
    if not found:
        hint = f"; there are {', '.join(known[:10])}" if known else "; there is none yet"
        raise exception_of(ErrorCode.GROUP_ID_NOT_FOUND)(
            f"Group {given.group!r:.100} has committed nothing{hint}"
        )
    ends = await _ends(clients, tuple(found))
    return GroupDescription(
        given.group,
        [
            GroupOffset(
                at.topic,
                at.partition,
                of.offset,
                ends.get(at),
                max(0, ends[at] - of.offset) if at in ends else None,
                of.metadata,
            )
            for at, of in found.items()
        ],
    )


async def _ends(
    clients: Clients, partitions: tuple[TopicPartition, ...]
) -> dict[TopicPartition, int]:
    """The ends of those that have a leader: the others would be waited for."""
    described = await clients.admin().describe_topics(sorted({each.topic for each in partitions}))
    led = {
        TopicPartition(topic, each.partition)
        for topic, found in described.items()
        if not isinstance(found, Exception)
        for each in found.partitions
        if each.leader >= 0
    }
    wanted = [each for each in partitions if each in led]
    async with clients.consumer() as consumer:
        return dict(await consumer.end_offsets(wanted)) if wanted else {}


async def reset_offsets(clients: Clients, given: ResetGiven) -> OffsetsReset:
    """Have a group go on elsewhere."""
    if given.to not in PLACES:
        raise BadInput(f"to is {given.to!r:.30}; it must be one of {', '.join(PLACES)}")
    if (given.to == "offset") is (given.offset is None):
        raise BadInput("offset must be given if, and only if, to is offset")
    if given.partitions is not None and given.topic is None:
        raise BadInput("partitions are given without their topic")
    partitions = await _partitions(clients, given)
    async with clients.consumer(group_id=given.group) as consumer:
        first = dict(await consumer.beginning_offsets(partitions))
        last = dict(await consumer.end_offsets(partitions))
        chosen = {"earliest": first, "latest": last}.get(given.to)
        if chosen is None:
            wanted = given.offset or 0
            # As Kafka: an offset that is not there becomes the nearest that is.
            chosen = {at: type(last[at])(min(max(wanted, first[at]), last[at])) for at in last}
        if given.execute:
            await consumer.commit(chosen)
    return OffsetsReset(
        given.group,
        given.execute,
        [NewOffset(at.topic, at.partition, of) for at, of in sorted(chosen.items())],
    )


async def _partitions(clients: Clients, given: ResetGiven) -> list[TopicPartition]:
    if given.topic is None:
        committed = await clients.admin().group_offsets(given.group)
        if not committed:
            raise BadInput(f"group {given.group} has committed nothing: name a topic")
        return sorted(committed)
    known = await partitions_of(clients, given.topic)
    if given.partitions is None:
        return known
    wanted = [TopicPartition(given.topic, each) for each in given.partitions]
    if missing := [each for each in wanted if each not in known]:
        raise BadInput(f"topic {given.topic} has no partition {missing[0].partition}")
    return wanted


OPERATIONS: Final = (
    Operation(
        "listGroups",
        "GET",
        "/api/groups",
        "The groups that have committed something.",
        Nothing,
        GroupNames,
        list_groups,
    ),
    Operation(
        "describeGroup",
        "GET",
        "/api/groups/{group}",
        "Committed offsets, ends of logs, and lag.",
        GroupGiven,
        GroupDescription,
        describe_group,
    ),
    Operation(
        "resetOffsets",
        "POST",
        "/api/groups/{group}/offsets",
        "Have a group go on elsewhere; without execute, only say where.",
        ResetGiven,
        OffsetsReset,
        reset_offsets,
    ),
)
