"""Who coordinates a group (B175)."""

import pytest

from tests.actors.coordinator.office import GROUP, NONE, PARTITIONS, SHARD, Office
from wire.errors import ErrorCode
from wire.groups import CoordinatorType, FindCoordinator
from wire.ids import LEADER_DURING_DELETE, NO_LEADER, Node

pytestmark = pytest.mark.behaviour("B175")
NOT_AVAILABLE = ErrorCode.COORDINATOR_NOT_AVAILABLE


@pytest.fixture
async def office(sim):
    return await Office.open(sim)


async def test_the_leader_of_the_groups_partition_coordinates(office):
    await office.make_topic()
    office.show({number: 2 if number == SHARD else 1 for number in range(PARTITIONS)})

    found = await office.find()

    assert (found.error_code, found.coordinator) == (NONE, Node(2, "host-2", 9))
    assert office.topics_asked_for == 0


async def test_the_topic_is_made_on_first_use(office):
    office.show({})

    before = await office.find()
    assert (before.error_code, before.coordinator) == (NOT_AVAILABLE, None)
    assert office.topics_asked_for == 1

    await office.make_topic()
    unseen = await office.find()
    assert unseen.error_code is NOT_AVAILABLE
    assert office.topics_asked_for == 1

    office.show(dict.fromkeys(range(PARTITIONS), 1))
    assert (await office.find()).coordinator.id == 1


async def test_many_who_ask_at_once_ask_for_one_topic_and_are_all_answered(office):
    keeper, reads = office.world.keeper, []
    get = keeper.get
    keeper.get = lambda path: reads.append(path) or get(path)

    answers = [office.send(FindCoordinator(key=f"group-{number}")) for number in range(20)]
    await office.rest()

    assert [[each.error_code for each in answer] for answer in answers] == [[NOT_AVAILABLE]] * 20
    assert (len(reads), office.topics_asked_for) == (1, 1)


@pytest.mark.parametrize("leader", [NO_LEADER, 7], ids=["nobody", "somebody dead"])
async def test_a_partition_without_a_live_leader_has_no_coordinator(office, leader):
    await office.make_topic()
    office.show(dict.fromkeys(range(PARTITIONS), leader))

    assert (await office.find()).error_code is NOT_AVAILABLE


async def test_partitions_that_metadata_lacks_count_nevertheless(office):
    await office.make_topic()
    office.show({number: 1 for number in range(PARTITIONS) if number != SHARD})

    assert (await office.find()).error_code is NOT_AVAILABLE


async def test_a_topic_that_is_gone_is_made_again_with_whatever_partitions(office, sim):
    await office.make_topic()
    office.show(dict.fromkeys(range(PARTITIONS), 1))
    await office.find()
    office.show(dict.fromkeys(range(PARTITIONS), LEADER_DURING_DELETE))
    await office.world.keeper.delete("/brokers/topics/__consumer_offsets")

    assert [(await office.find()).error_code for _ in range(2)] == [NOT_AVAILABLE] * 2
    assert office.topics_asked_for == 1

    await office.make_topic(partitions=1)
    office.show({0: 2})
    assert (await office.find()).coordinator.id == 2


async def test_a_lost_session_is_answered(office, sim):
    sim.expire_session("broker-1")
    await sim.sleep(10_000)

    assert (await office.find()).error_code is NOT_AVAILABLE


async def test_a_malformed_topic_is_answered(office):
    await office.world.keeper.create("/brokers/topics/__consumer_offsets", b"strange")

    assert (await office.find()).error_code is NOT_AVAILABLE


@pytest.mark.parametrize(
    ("request_", "code"),
    [
        (FindCoordinator(key=""), ErrorCode.INVALID_GROUP_ID),
        (FindCoordinator(key="x" * 40_000), ErrorCode.INVALID_GROUP_ID),
        (
            FindCoordinator(key=GROUP, key_type=CoordinatorType.TRANSACTION),
            ErrorCode.INVALID_REQUEST,
        ),
    ],
    ids=["no name", "a long name", "a transaction"],
)
async def test_what_nobody_coordinates_is_refused(office, request_, code):
    assert (await office.ask(request_)).error_code is code


async def test_a_full_inbox_is_answered(office):
    await office.make_topic()
    office.show(dict.fromkeys(range(PARTITIONS), 1))
    await office.find()
    office.replicas.ref._limit = 0

    assert (await office.find()).error_code is NOT_AVAILABLE
