"""How often the leader epoch rises, one kind of change at a time: B075.

As Kafka's ControllerIntegrationTest counts it, with broker 1 as the controller throughout.
"""

import pytest

from tests.support.drive import Drive
from tests.support.states import state
from wire.control import ControlledShutdown, ControlledShutdownResponse
from wire.ids import NO_LEADER

pytestmark = pytest.mark.behaviour("B075")


@pytest.fixture
async def drive(sim):
    # No election but those that a test asks for.
    return await Drive.start(sim, brokers=4, overrides={"auto_leader_rebalance_enable": False})


async def test_a_new_partition_begins_with_0(drive):
    await drive.create("orders", [2, 3])

    assert drive.state("orders") == state(2, 0, 2, 3)
    assert drive.version("orders") == 0


async def test_the_death_of_the_leader_adds_1(drive):
    await drive.create("orders", [2, 3])

    await drive.kill(2)

    assert drive.state("orders") == state(3, 1, 3)
    assert drive.version("orders") == 1


async def test_the_death_of_an_in_sync_follower_adds_1(drive):
    await drive.create("orders", [2, 3])

    await drive.kill(3)

    assert drive.state("orders") == state(2, 1, 2)
    assert drive.version("orders") == 1


async def test_the_death_of_a_replica_that_is_not_in_sync_adds_nothing(drive):
    orders = await drive.create("orders", [2, 3, 4])
    drive.shrink(4, orders)
    await drive.settle()
    assert drive.state("orders") == state(2, 0, 2, 3)
    version = drive.version("orders")

    await drive.kill(4)

    assert drive.state("orders") == state(2, 0, 2, 3)
    assert drive.version("orders") == version


async def test_the_death_of_the_only_replica_adds_1_and_keeps_it_in_the_isr(drive):
    await drive.create("orders", [2])

    await drive.kill(2)

    assert drive.state("orders") == state(NO_LEADER, 1, 2)
    assert drive.version("orders") == 1


async def test_the_return_of_the_only_replica_adds_1(drive):
    await drive.create("orders", [2])
    await drive.kill(2)

    await drive.restart(2)

    assert drive.state("orders") == state(2, 2, 2)


@pytest.mark.parametrize("replicas", [[2, 3], [3, 2]], ids=["a leader", "a follower"])
async def test_a_controlled_shutdown_adds_1_and_the_exit_after_it_nothing(drive, replicas):
    await drive.create("orders", replicas)
    drive.sim.cut("broker-2", "broker-3")  # as 2.8, a leader lets it back into the ISR: KAFKA-14140
    goodbye = ControlledShutdown(broker_id=2, broker_epoch=drive.node(2).broker_epoch)

    await drive.ask(1, goodbye, ControlledShutdownResponse)
    await drive.settle()

    assert drive.state("orders") == state(3, 1, 3)
    version = drive.version("orders")

    await drive.kill(2)

    assert drive.state("orders") == state(3, 1, 3)
    assert drive.version("orders") == version == 1


async def test_a_controlled_shutdown_of_the_leader_as_a_whole_adds_1(drive):
    await drive.create("orders", [2, 3])
    drive.sim.cut("broker-2", "broker-3")

    await drive.stop(2)

    assert drive.state("orders") == state(3, 1, 3)


async def test_the_death_of_a_leader_that_is_the_controller_adds_2(drive):
    # Since 2.4: the new controller takes it out of the ISR, then elects. Before, it only elected.
    await drive.create("orders", [1, 2])

    await drive.kill(1)

    assert drive.controller_id != 1
    assert drive.state("orders") == state(2, 2, 2, controller_epoch=2)
    assert drive.version("orders") == 2


async def test_a_preferred_election_adds_1(drive):
    orders = await drive.create("orders", [2, 3])
    await drive.kill(2)
    await drive.restart(2)
    assert drive.state("orders") == state(3, 1, 3, 2)

    await drive.prefer(orders)
    await drive.settle()

    assert drive.state("orders") == state(2, 2, 3, 2)


async def test_a_move_from_one_broker_to_another_adds_3(drive):
    orders = await drive.create("orders", [2])

    await drive.reassign({orders: [3]})
    await drive.settle()

    assert drive.assignment("orders").replicas == (3,)
    assert drive.state("orders") == state(3, 3, 3)


async def test_a_move_that_waits_for_its_target_to_start_adds_4(drive):
    orders = await drive.create("orders", [2])
    await drive.kill(3)

    await drive.reassign({orders: [3]})
    await drive.settle()
    assert drive.state("orders") == state(2, 1, 2)

    await drive.restart(3)

    assert drive.assignment("orders").replicas == (3,)
    assert drive.state("orders") == state(3, 4, 3)


async def test_a_move_that_only_adds_a_replica_adds_2(drive):
    orders = await drive.create("orders", [2])

    await drive.reassign({orders: [2, 3]})
    await drive.settle()

    assert drive.assignment("orders").replicas == (2, 3)
    assert drive.state("orders") == state(2, 2, 2, 3)
