"""Groups: who is in them, how far behind they are, and where they should go on.

Rule: lag is what a consumer could still read: the high watermark less the committed offset.
"""

from typing import Annotated, Final

from msgspec import Meta, Struct

from actors.client.group import OffsetAndMetadata
from actors.clients import Clients
from actors.operations.given import GroupName, Nothing, OffsetNumber, PartitionNumber, TopicName
from actors.operations.operation import BadInput, Operation
from actors.operations.records import partitions_of
from wire.consumer_protocol import decode_assignment
from wire.errors import ApiError, ErrorCode, exception_of
from wire.groups import DescribedMember
from wire.ids import TopicPartition

PLACES: Final = ("earliest", "latest", "offset")


class GroupNames(Struct):
    """Names, sorted, and the state of each."""

    groups: tuple[str, ...]
    states: tuple[str, ...] = ()


class GroupGiven(Struct, kw_only=True, forbid_unknown_fields=True):
    """Which group."""

    group: GroupName


class GroupOffset(Struct):
    """How far a group has read one partition, and who reads it.

    Without a leader nobody knows where it ends; who has it may have committed nothing yet.
    """

    topic: str
    partition: int
    current_offset: int | None
    log_end_offset: int | None
    lag: int | None
    metadata: str = ""
    member_id: str = ""
    host: str = ""
    client_id: str = ""


class GroupMember(Struct):
    """Who is in a group, and what it reads."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    host: str
    partitions: list[str]


class GroupDescription(Struct):
    """Who is in a group, and all that it has committed."""

    group: str
    offsets: list[GroupOffset]
    state: str = "Empty"
    protocol_type: str = ""
    protocol: str = ""
    members: list[GroupMember] = []


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
    """The groups that have members, or have committed something."""
    found = await clients.admin().list_groups()
    return GroupNames(tuple(each.group_id for each in found), tuple(each.state for each in found))


async def describe_group(clients: Clients, given: GroupGiven) -> GroupDescription:
    """Members, committed offsets, ends, and lag."""
    await _check_known(clients, given.group)
    described = await clients.admin().describe_group(given.group)
    committed = await clients.admin().group_offsets(given.group)
    readers = {at: each for each in described.members for at in _partitions_of(each)}
    offsets = {at: of for at, of in committed.items() if of is not None}
    rows = sorted(offsets.keys() | readers.keys())
    ends = await _ends(clients, tuple(rows))
    return GroupDescription(
        given.group,
        [_row(at, offsets.get(at), ends.get(at), readers.get(at)) for at in rows],
        described.state,
        described.protocol_type,
        described.protocol,
        [
            GroupMember(
                each.member_id,
                each.group_instance_id,
                each.client_id,
                each.client_host,
                [str(at) for at in _partitions_of(each)],
            )
            for each in described.members
        ],
    )


def _row(
    at: TopicPartition,
    committed: OffsetAndMetadata | None,
    end: int | None,
    reader: DescribedMember | None,
) -> GroupOffset:
    offset = None if committed is None else committed.offset
    is_known = offset is not None and end is not None
    return GroupOffset(
        at.topic,
        at.partition,
        offset,
        end,
        max(0, end - offset) if is_known else None,  # type: ignore[operator]  # both are known
        "" if committed is None else committed.metadata,
        "" if reader is None else reader.member_id,
        "" if reader is None else reader.client_host,
        "" if reader is None else reader.client_id,
    )


def _partitions_of(member: DescribedMember) -> tuple[TopicPartition, ...]:
    """What a member reads; none if its assignment is of a kind of its own."""
    try:
        return tuple(sorted(decode_assignment(member.assignment).partitions))
    except ApiError:
        return ()


async def delete_group(clients: Clients, given: GroupGiven) -> None:
    """Forget a group, its offsets and all."""
    await _check_known(clients, given.group)
    await clients.admin().delete_group(given.group)


async def _check_known(clients: Clients, group: str) -> None:
    """Looked for among all: to ask for a coordinator would make the coordinators' topic."""
    known = (await list_groups(clients, Nothing())).groups
    if group not in known:
        hint = f"; there are {', '.join(known[:10])}" if known else "; there is none yet"
        raise exception_of(ErrorCode.GROUP_ID_NOT_FOUND)(
            f"Group {group!r:.100} has no members, and has committed nothing{hint}"
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
    if given.execute:
        await _check_inactive(clients, given.group)
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


async def _check_inactive(clients: Clients, group: str) -> None:
    """As Kafka's tool: members would go on where they are, and commit that."""
    states = {each.group_id: each.state for each in await clients.admin().list_groups()}
    if states.get(group, "Empty") != "Empty":
        raise exception_of(ErrorCode.NON_EMPTY_GROUP)(
            f"Group {group!r:.100} is {states[group]}: stop its members first"
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
        "The groups that have members, or have committed something.",
        Nothing,
        GroupNames,
        list_groups,
    ),
    Operation(
        "describeGroup",
        "GET",
        "/api/groups/{group}",
        "Members, committed offsets, ends of logs, and lag.",
        GroupGiven,
        GroupDescription,
        describe_group,
    ),
    Operation(
        "deleteGroup",
        "DELETE",
        "/api/groups/{group}",
        "Forget a group that nobody is a member of.",
        GroupGiven,
        None,
        delete_group,
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
