"""What those who look after groups are told.

Rule: nothing is changed here. A group that only has offsets is Empty, one that nobody knows Dead.
"""

from actors.coordinator.group import Group
from actors.coordinator.group_states import DEAD, EMPTY, STABLE
from actors.coordinator.records import OFFSETS_TOPIC
from actors.coordinator.requests import check_group
from actors.coordinator.shards import Shard, Shards
from wire.errors import ApiError, CoordinatorLoadInProgress
from wire.groups import (
    DescribedGroup,
    DescribedMember,
    DescribeGroups,
    DescribeGroupsResponse,
    ListedGroup,
    ListGroups,
    ListGroupsResponse,
)


def list_groups(shards: Shards, request: ListGroups) -> ListGroupsResponse:
    """As Kafka: if any partition is still being read, the list would be short of its groups."""
    if len(shards.loaded()) < len(shards.all()):
        raise CoordinatorLoadInProgress(f"{OFFSETS_TOPIC} is being read.")
    wanted = {each.lower() for each in request.states}
    found = sorted(each for shard in shards.all() for each in _groups_of(shard))
    return ListGroupsResponse(
        groups=tuple(each for each in found if not wanted or each.state.lower() in wanted)
    )


def _groups_of(shard: Shard) -> list[ListedGroup]:
    names = {*shard.groups, *shard.offsets.groups()}
    return [_in_short(name, shard.groups.get(name)) for name in names]


def _in_short(name: str, group: Group | None) -> ListedGroup:
    if group is None:
        return ListedGroup(name, "", EMPTY.value)
    return ListedGroup(name, group.protocol_type, group.state.value)


def describe_groups(shards: Shards, request: DescribeGroups) -> DescribeGroupsResponse:
    """One answer a group, whatever is wrong with others."""
    return DescribeGroupsResponse(groups=tuple(_describe(shards, each) for each in request.groups))


def _describe(shards: Shards, name: str) -> DescribedGroup:
    try:
        check_group(name)
        shard = shards.of(name)
    except ApiError as error:
        return DescribedGroup(group_id=name, error_code=error.code)
    group = shard.groups.get(name)
    if group is None:
        state = EMPTY if shard.offsets.knows(name) else DEAD
        return DescribedGroup(group_id=name, state=state.value)
    is_stable = group.state is STABLE
    return DescribedGroup(
        group_id=name,
        state=group.state.value,
        protocol_type=group.protocol_type,
        protocol=(group.protocol or "") if is_stable else "",
        members=tuple(
            DescribedMember(
                member_id=each.member_id,
                group_instance_id=each.group_instance_id,
                client_id=each.client_id,
                client_host=each.client_host,
                # Before the next generation is complete nobody can say what these will be.
                metadata=each.metadata(group.protocol) if is_stable else b"",
                assignment=each.assignment if is_stable else b"",
            )
            for each in group.members.values()
        ),
    )
