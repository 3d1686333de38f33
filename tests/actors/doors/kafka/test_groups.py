"""Groups over Kafka's protocol, in every version of every API."""

import pytest
from kio.schema.errors import ErrorCode

from actors.doors.kafka.table import APIS
from tests.support.drive import Drive
from tests.support.kafka_caller import KafkaCaller

GROUP = "readers"
NONE = ErrorCode.none
OF = {each.name: range(each.least, each.most + 1) for each in APIS}


class Guild:
    """Somebody who calls the group's coordinator."""

    @classmethod
    async def open(cls, sim):
        guild = cls()
        guild.sim = sim
        guild.drive = await Drive.start(sim, 2, overrides={"offsets_topic_num_partitions": 1})
        await guild.drive.create("orders", {0: [1, 2], 1: [2, 1]})
        first = KafkaCaller(sim, 1)
        await first.ask("FindCoordinator", 3, key=GROUP, key_type=0)
        await guild.drive.settle()
        found = await first.ask("FindCoordinator", 3, key=GROUP, key_type=0)
        guild.coordinator = KafkaCaller(sim, found.node_id)
        guild.other = KafkaCaller(sim, 3 - found.node_id)
        guild.id = found.node_id
        return guild

    async def ask(self, api, version, **given):
        return await self.coordinator.ask(api, version, **given)

    async def join(self, version, *, group=GROUP, **given):
        """In, with an id of its own; the answer."""
        wish = {
            "group_id": group,
            "session_timeout": 10_000,
            "rebalance_timeout": 20_000,
            "member_id": "",
            "group_instance_id": None,
            "protocol_type": "consumer",
            "protocols": [{"name": "range", "metadata": b"wish"}],
            "reason": "a test",
        } | given
        joined = await self.ask("JoinGroup", version, **wish)
        if joined.error_code is ErrorCode.member_id_required:
            joined = await self.ask("JoinGroup", version, **wish | {"member_id": joined.member_id})
        return joined

    async def sync(self, version, joined, *, group=GROUP, **given):
        request = {
            "group_id": group,
            "generation_id": joined.generation_id,
            "member_id": joined.member_id,
            "group_instance_id": None,
            "protocol_type": "consumer",
            "protocol_name": "range",
            "assignments": [{"member_id": joined.member_id, "assignment": b"all"}],
        }
        return await self.ask("SyncGroup", version, **request | given)

    async def leave(self, version, member, *, group=GROUP):
        members = [{"member_id": member, "group_instance_id": None, "reason": "done"}]
        return await self.ask(
            "LeaveGroup", version, group_id=group, member_id=member, members=members
        )

    async def commit(self, version, offset, joined=None, *, group=GROUP):
        partition = {
            "partition_index": 0,
            "committed_offset": offset,
            "committed_leader_epoch": 3,
            "committed_metadata": "note",
        }
        response = await self.ask(
            "OffsetCommit",
            version,
            group_id=group,
            generation_id_or_member_epoch=-1 if joined is None else joined.generation_id,
            member_id="" if joined is None else joined.member_id,
            group_instance_id=None,
            retention_time=-1,
            topics=[{"name": "orders", "partitions": [partition]}],
        )
        (topic,) = response.topics
        (result,) = topic.partitions
        assert (topic.name, result.partition_index) == ("orders", 0)
        return result.error_code


@pytest.fixture
async def guild(sim):
    return await Guild.open(sim)


def groups_in(version, found):
    """The parts of OffsetFetch's answer, one a group."""
    return found.groups if version >= 8 else (found,)


async def fetch(guild, version, caller=None, groups=(GROUP,), partitions=(0, 1)):
    topics = None if partitions is None else [{"name": "orders", "partition_indexes": partitions}]
    parts = [
        {"group_id": each, "member_id": None, "member_epoch": -1, "topics": topics}
        for each in groups
    ]
    found = await (caller or guild.coordinator).ask(
        "OffsetFetch", version, **parts[0], groups=parts, require_stable=False
    )
    return groups_in(version, found)


# --- who coordinates ------------------------------------------------------------------------------


@pytest.mark.parametrize("version", OF["FindCoordinator"])
async def test_a_coordinator_is_found_at_the_listener_of_who_asks(guild, version):
    keys = {"coordinator_keys": [GROUP, "others"]} if version >= 4 else {"key": GROUP}

    found = await guild.other.ask("FindCoordinator", version, key_type=0, **keys)

    results = found.coordinators if version >= 4 else [found]
    assert {each.error_code for each in results} == {NONE}
    assert {each.node_id for each in results} == {guild.id}
    known = guild.drive.node(1).replica_manager.cache.nodes("KAFKA")
    (node,) = (each for each in known if each.id == guild.id)
    assert {(each.host, each.port) for each in results} == {(node.host, node.port)}
    if version >= 4:
        assert [each.key for each in results] == [GROUP, "others"]


@pytest.mark.parametrize("version", [1, 4])
async def test_who_asks_for_a_coordinator_of_an_unknown_kind_is_refused(guild, version):
    keys = {"coordinator_keys": [GROUP]} if version >= 4 else {"key": GROUP}

    found = await guild.other.ask("FindCoordinator", version, key_type=7, **keys)

    result = found.coordinators[0] if version >= 4 else found
    assert (result.error_code, result.node_id) == (ErrorCode.invalid_request, -1)


# --- members --------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", OF["JoinGroup"])
async def test_a_member_joins(guild, version):
    joined = await guild.join(version)

    assert (joined.error_code, joined.generation_id) == (NONE, 1)
    assert joined.leader == joined.member_id
    assert joined.protocol_name == "range"
    assert [(each.member_id, each.metadata) for each in joined.members] == [
        (joined.member_id, b"wish")
    ]
    if version >= 7:
        assert joined.protocol_type == "consumer"
    (group,) = (await guild.ask("DescribeGroups", 2, groups=[GROUP])).groups
    (member,) = group.members
    assert (member.client_id, member.client_host) == ("tests", "/stranger")


@pytest.mark.parametrize("version", OF["JoinGroup"])
async def test_who_may_not_join_is_told_so(guild, version):
    refused = await guild.join(version, session_timeout=1)

    assert refused.error_code is ErrorCode.invalid_session_timeout
    assert (refused.generation_id, list(refused.members)) == (-1, [])
    assert refused.protocol_name == (None if version >= 7 else "")


@pytest.mark.parametrize("version", range(5, OF["JoinGroup"].stop))
async def test_a_static_member_comes_back(guild, version):
    first = await guild.join(version, group_instance_id="one")
    await guild.sync(5, first, group_instance_id="one")

    again = await guild.join(version, group_instance_id="one")

    assert (again.error_code, again.generation_id) == (NONE, 1)
    assert again.member_id != first.member_id
    if version >= 9:
        assert (again.skip_assignment, again.leader) == (True, again.member_id)
    else:
        assert again.leader == first.member_id


@pytest.mark.parametrize("version", OF["SyncGroup"])
async def test_a_member_syncs(guild, version):
    joined = await guild.join(9)

    synced = await guild.sync(version, joined)

    assert (synced.error_code, synced.assignment) == (NONE, b"all")
    if version >= 5:
        assert (synced.protocol_type, synced.protocol_name) == ("consumer", "range")
    stranger = await guild.sync(version, joined, member_id="nobody")
    assert (stranger.error_code, stranger.assignment) == (ErrorCode.unknown_member_id, b"")


@pytest.mark.parametrize("version", OF["Heartbeat"])
async def test_a_member_is_heard(guild, version):
    joined = await guild.join(9)
    beat = {"group_id": GROUP, "member_id": joined.member_id, "group_instance_id": None}

    alive = await guild.ask("Heartbeat", version, generation_id=1, **beat)
    late = await guild.ask("Heartbeat", version, generation_id=0, **beat)

    assert (alive.error_code, late.error_code) == (NONE, ErrorCode.illegal_generation)


@pytest.mark.parametrize("version", OF["LeaveGroup"])
async def test_a_member_leaves(guild, version):
    joined = await guild.join(9)

    left = await guild.leave(version, joined.member_id)
    again = await guild.leave(version, joined.member_id)

    assert left.error_code is NONE
    if version >= 3:
        assert again.error_code is NONE
        assert [each.error_code for each in again.members] == [ErrorCode.unknown_member_id]
    else:
        assert again.error_code is ErrorCode.unknown_member_id


# --- offsets --------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", OF["OffsetCommit"])
async def test_offsets_are_committed(guild, version):
    joined = await guild.join(9)
    await guild.sync(5, joined)

    assert await guild.commit(version, 5, joined) is NONE
    assert await guild.commit(version, 6) is ErrorCode.unknown_member_id
    assert await guild.commit(version, 7, group="others") is NONE

    ((topic,),) = [each.topics for each in await fetch(guild, 9, partitions=None)]
    assert [each.committed_offset for each in topic.partitions] == [5]


@pytest.mark.parametrize("version", OF["OffsetFetch"])
async def test_offsets_are_fetched(guild, version):
    await guild.commit(9, 5)

    groups = (GROUP, "others") if version >= 8 else (GROUP,)
    found, *others = await fetch(guild, version, groups=groups)

    (topic,) = found.topics
    assert [
        (each.partition_index, each.committed_offset, each.metadata, each.error_code)
        for each in topic.partitions
    ] == [(0, 5, "note", NONE), (1, -1, "", NONE)]
    assert [each.group_id for each in others] == ["others"][: len(others)]
    if version >= 5:
        assert [each.committed_leader_epoch for each in topic.partitions] == [3, -1]
    if version >= 2:
        ((everything,),) = [each.topics for each in await fetch(guild, version, partitions=None)]
        assert [each.partition_index for each in everything.partitions] == [0]


@pytest.mark.parametrize("version", OF["OffsetFetch"])
async def test_who_does_not_coordinate_says_so(guild, version):
    (found,) = await fetch(guild, version, caller=guild.other)

    if version >= 2:
        assert found.error_code is ErrorCode.not_coordinator
    else:
        (topic,) = found.topics
        assert {each.error_code for each in topic.partitions} == {ErrorCode.not_coordinator}


# --- those who look after groups ------------------------------------------------------------------


@pytest.mark.parametrize("version", OF["DescribeGroups"])
async def test_groups_are_described(guild, version):
    joined = await guild.join(9)
    await guild.sync(5, joined)

    found = await guild.ask(
        "DescribeGroups", version, groups=[GROUP, "nobody"], include_authorized_operations=True
    )

    known, unknown = found.groups
    assert (known.error_code, known.group_state) == (NONE, "Stable")
    assert (known.protocol_type, known.protocol_data) == ("consumer", "range")
    (member,) = known.members
    assert (member.member_metadata, member.member_assignment) == (b"wish", b"all")
    is_error = version >= 6
    assert unknown.error_code is (ErrorCode.group_id_not_found if is_error else NONE)
    assert unknown.group_state == "Dead"


@pytest.mark.parametrize("version", OF["ListGroups"])
async def test_groups_are_listed(guild, version):
    await guild.sync(5, await guild.join(9))
    await guild.commit(9, 5, group="simple")

    found = await guild.ask("ListGroups", version, states_filter=[], types_filter=[])

    assert found.error_code is NONE
    assert [(each.group_id, each.protocol_type) for each in found.groups] == [
        (GROUP, "consumer"),
        ("simple", ""),
    ]
    if version >= 4:
        stable = await guild.ask("ListGroups", version, states_filter=["Stable"], types_filter=[])
        assert [(each.group_id, each.group_state) for each in stable.groups] == [(GROUP, "Stable")]
    if version >= 5:
        assert {each.group_type for each in found.groups} == {"classic"}
        others = await guild.ask("ListGroups", version, states_filter=[], types_filter=["share"])
        assert list(others.groups) == []


@pytest.mark.parametrize("version", OF["DeleteGroups"])
async def test_groups_are_deleted(guild, version):
    await guild.join(9)
    await guild.commit(9, 5, group="simple")

    found = await guild.ask("DeleteGroups", version, groups_names=[GROUP, "simple", "nobody"])

    assert {each.group_id: each.error_code for each in found.results} == {
        GROUP: ErrorCode.non_empty_group,
        "simple": NONE,
        "nobody": ErrorCode.group_id_not_found,
    }


async def test_offsets_are_deleted(guild):
    await guild.commit(9, 5)
    topics = [{"name": "orders", "partitions": [{"partition_index": 0}, {"partition_index": 1}]}]

    found = await guild.ask("OffsetDelete", 0, group_id=GROUP, topics=topics)
    missing = await guild.ask("OffsetDelete", 0, group_id="nobody", topics=topics)

    ((topic,), code) = found.topics, found.error_code
    assert (code, [each.error_code for each in topic.partitions]) == (NONE, [NONE, NONE])
    assert missing.error_code is ErrorCode.group_id_not_found
