"""A topic that is made anew does not meet the records of its namesake (I-15)."""

import pytest

from actors.broker.log.identity import FILE, read_topic_id
from actors.names import node_name
from tests.support.data import produce, values_on
from tests.support.drive import Drive


@pytest.fixture
async def drive(sim) -> Drive:
    return await Drive.start(sim, 4)


def topic_id_on(drive: Drive, broker: int, folder: str) -> str | None:
    return read_topic_id(drive.sim._disks[node_name(broker)], folder)


async def make_anew_while_away(drive: Drive, broker: int) -> None:
    """A replica is moved away and its topic deleted, while its broker is away (L-8)."""
    orders = await drive.create("orders", [2, broker])
    for value in (b"old 0", b"old 1", b"old 2"):
        await produce(drive, orders, value, acks=-1)
    await drive.stop(broker)
    await drive.alter({orders: [2, 4]})
    await drive.settle()
    await drive.delete("orders")
    await drive.settle()
    await drive.create("orders", [2, 4, broker])
    for number in range(5):
        await produce(drive, orders, f"new {number}".encode(), acks=-1)


async def test_a_log_says_of_which_topic_it_is(drive):
    orders = await drive.create("orders", [2, 3])

    await produce(drive, orders, b"a", acks=-1)

    identity = drive.context.topic_ids["orders"]
    assert [topic_id_on(drive, broker, "orders-0") for broker in (2, 3)] == [identity] * 2


@pytest.mark.behaviour("B135")
async def test_the_log_of_a_namesake_is_removed_before_the_new_topic_is_followed(drive):
    await make_anew_while_away(drive, 3)

    await drive.restart(3)

    orders = next(iter(drive.node(3).replica_manager.replicas))
    assert values_on(drive, 3, orders) == [f"new {number}".encode() for number in range(5)]
    assert values_on(drive, 2, orders) == values_on(drive, 3, orders)
    assert sorted(drive.state("orders").isr) == [2, 3, 4]
    assert topic_id_on(drive, 3, "orders-0") == drive.context.topic_ids["orders"]


async def test_a_log_that_does_not_say_it_is_used_as_before(drive):
    orders = await drive.create("orders", [2, 3])
    await produce(drive, orders, b"a", acks=-1)
    await drive.stop(3)
    drive.sim._disks[node_name(3)].remove(f"orders-0/{FILE}")

    await drive.restart(3)

    assert values_on(drive, 3, orders) == [b"a"]


@pytest.mark.parametrize("data", [b"", b"version: 1\n", b"version: 0\ntopic_id: short\n", b"\xff"])
async def test_a_file_that_says_nothing_sensible_says_nothing(drive, data):
    orders = await drive.create("orders", [2, 3])
    await produce(drive, orders, b"a", acks=-1)
    disk = drive.sim._disks[node_name(3)]
    disk.remove(f"orders-0/{FILE}")
    file = disk.open(f"orders-0/{FILE}", create=True)
    file.append(data)
    file.close()

    assert topic_id_on(drive, 3, "orders-0") is None
