"""Bugs that Kafka had with topics: the same schedule, with the guard and without it."""

import pytest

from actors.controller.topics import Topics
from tests.support.drive import Drive
from wire.trace import LeaderElected, ReplicaRoleChanged

HALF_CREATED, NEVER_DELETED = "a partition appears half created", "the deletion never ends"


async def ignoring(topics, topic):
    """As Kafka before 2.0: what is queued for deletion does not grow, but its znode does."""
    found = (await topics._read([topic])).get(topic)
    if found is not None and not topics._context.is_queued_for_deletion(topic):
        await topics._create(topics._context.add_topic(topic, found))


async def creating(topics, topic):
    """As if deletion were nothing special."""
    found = (await topics._read([topic])).get(topic)
    if found is not None:
        await topics._create(topics._context.add_topic(topic, found))


def symptoms(drive):
    """What went wrong with the topic or with the partition that was added to it."""
    created = [
        event
        for _, event in drive.events
        if isinstance(event, LeaderElected | ReplicaRoleChanged) and event.partition == 1
    ]
    left = [
        path
        for path in (
            "/brokers/topics/orders",
            "/config/topics/orders",
            "/admin/delete_topics/orders",
        )
        if drive.exists(path)
    ]
    found = {HALF_CREATED} if created else set()
    return found | {NEVER_DELETED} if left or "orders" in drive.context.topics else found


async def begin_deletion(sim):
    """A topic on brokers 2 and 3 that cannot go yet: 3 is down."""
    drive = await Drive.start(sim, brokers=4)
    await drive.configure("topics", "orders", retention_ms="1000")
    await drive.create("orders", [2, 3])
    await drive.kill(3)
    await drive.delete("orders")
    await drive.settle()
    return drive


@pytest.mark.behaviour("H27")
@pytest.mark.parametrize(
    ("unguarded", "expected"),
    [
        pytest.param(None, set(), id="guarded"),
        pytest.param(ignoring, {NEVER_DELETED}, id="growth is ignored, not undone"),
        pytest.param(creating, {HALF_CREATED, NEVER_DELETED}, id="growth is allowed"),
    ],
)
async def test_a_topic_that_grew_while_being_deleted_is_gone_in_the_end(
    sim, monkeypatch, unguarded, expected
):
    """KAFKA-6612: a failover in between, and a broker that only the new partition would need."""
    if unguarded is not None:
        monkeypatch.setattr(Topics, "on_modification", unguarded)
    drive = await begin_deletion(sim)
    await drive.write_topic("orders", {0: [2, 3], 1: [4, 2]})
    await drive.settle()
    await drive.kill(4)  # and it stays away: the topic has never lived there

    await drive.kill(drive.controller_id)
    assert drive.controller_id == 2
    await drive.restart(3)
    await drive.restart(1)

    assert symptoms(drive) == expected


@pytest.mark.behaviour("H27")
@pytest.mark.parametrize(
    ("unguarded", "expected"),
    [
        pytest.param(None, set(), id="guarded"),
        pytest.param(creating, {HALF_CREATED}, id="growth is allowed"),
    ],
)
async def test_without_a_failover_it_is_gone_as_well(sim, monkeypatch, unguarded, expected):
    if unguarded is not None:
        monkeypatch.setattr(Topics, "on_modification", unguarded)
    drive = await begin_deletion(sim)

    await drive.write_topic("orders", {0: [2, 3], 1: [4, 2]})
    await drive.settle()
    await drive.restart(3)

    assert symptoms(drive) == expected


@pytest.mark.behaviour("H27")
async def test_a_topic_that_grew_while_nobody_reigned_is_gone_in_the_end(sim):
    """Nobody can undo that; the new partition is deleted with the others, and never led."""
    drive = await begin_deletion(sim)
    drive.cluster.kill(1)
    await drive.write_topic("orders", {0: [2, 3], 1: [4, 2]})
    await drive.settle()

    await drive.restart(3)

    assert symptoms(drive) == set()
