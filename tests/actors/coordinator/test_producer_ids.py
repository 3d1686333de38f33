"""Producer ids: given once in the life of a cluster, whatever ZooKeeper does."""

import pytest

from actors.asked import Asked
from actors.broker.registration import make_paths
from actors.config import BrokerConfig
from actors.coordinator.transaction_coordinator import TransactionCoordinator
from runtime.system import System
from wire.errors import ErrorCode, MalformedZNode
from wire.ids import BrokerId
from wire.producer_znodes import ProducerIdBlockZNode, next_block
from wire.transactions import InitProducerId
from wire.znodes import PERSISTENT_ROOTS

PATH = "/latest_producer_id_block"


class Nobody:
    """Who has no replicas."""

    def tell(self, message):
        raise AssertionError(message)


class Desk:
    """A transaction coordinator alone with ZooKeeper."""

    @classmethod
    async def open(cls, sim, broker=1):
        desk = cls()
        desk.sim, desk.world = sim, sim.world(f"broker-{broker}")
        await desk.world.keeper.start()
        await make_paths(desk.world.keeper, PERSISTENT_ROOTS)
        desk.system = System(f"broker-{broker}", desk.world.trace)
        sim.adopt(desk.system)
        coordinator = TransactionCoordinator(
            desk.world, BrokerConfig(broker_id=broker), Nobody(), lambda: None, str
        )
        desk.ref = desk.system.start("transaction-coordinator", coordinator)
        return desk

    def send(self, count):
        answers = []
        for _ in range(count):
            self.ref.tell(Asked(InitProducerId(), "client", answers.append))
        return answers

    async def ids(self, count):
        answers = self.send(count)
        await self.sim.sleep(200)
        assert self.system.is_up, self.system.error
        assert all(each.error_code is ErrorCode.NONE for each in answers)
        assert all(each.producer_epoch == 0 for each in answers)
        return [each.producer_id for each in answers]

    def block(self):
        return self.sim.zookeeper.tree.get(PATH).data


async def test_ids_follow_each_other_from_a_block_of_a_thousand(sim):
    desk = await Desk.open(sim)

    assert await desk.ids(3) == [0, 1, 2]
    assert desk.block() == b'{"version":1,"broker":1,"block_start":"0","block_end":"999"}'
    assert await desk.ids(1_000) == list(range(3, 1_003))
    assert desk.block() == b'{"version":1,"broker":1,"block_start":"1000","block_end":"1999"}'


async def test_brokers_give_different_ids(sim):
    one, other = await Desk.open(sim, 1), await Desk.open(sim, 2)
    first, second = one.send(1_500), other.send(1_500)

    await sim.sleep(500)

    found = [each.producer_id for each in (*first, *second)]
    assert len(set(found)) == 3_000
    assert all(each.error_code is ErrorCode.NONE for each in (*first, *second))


async def test_a_block_whose_answer_was_lost_is_left_unused(sim):
    desk = await Desk.open(sim)
    keeper = desk.world.keeper
    refused, real_set = [], keeper.set

    async def set_twice(path, data, *, version=-1):
        """As a client that sends a write again because it heard no answer."""
        stat = await real_set(path, data, version=version)
        if not refused:
            refused.append(data)
            return await real_set(path, data, version=version)
        return stat

    keeper.set = set_twice

    assert await desk.ids(2) == [1_000, 1_001]
    assert len(refused) == 1


async def test_without_zookeeper_a_producer_is_told_to_ask_again(sim):
    desk = await Desk.open(sim)
    sim.expire_session("broker-1")
    await sim.sleep(100)
    answers = desk.send(2)

    await sim.sleep(100)
    assert {each.error_code for each in answers} == {ErrorCode.COORDINATOR_NOT_AVAILABLE}
    assert len(answers) == 2
    await desk.world.keeper.renew()

    assert await desk.ids(1) == [0]


async def test_a_znode_that_nobody_can_read_gives_no_ids(sim):
    desk = await Desk.open(sim)
    await desk.world.keeper.set(PATH, b"{")
    answers = desk.send(1)

    await sim.sleep(100)

    assert [each.error_code for each in answers] == [ErrorCode.COORDINATOR_NOT_AVAILABLE]
    await desk.world.keeper.set(PATH, b"")
    assert await desk.ids(1) == [0]


@pytest.mark.parametrize(
    "data",
    [
        b"[]",
        b'{"version":1,"broker":1,"block_start":"10","block_end":"9"}',
        b'{"version":1,"broker":1,"block_start":"-1","block_end":"9"}',
        b'{"version":1,"broker":1,"block_start":0,"block_end":9}',
    ],
)
def test_a_block_that_cannot_be_is_malformed(data):
    with pytest.raises(MalformedZNode):
        ProducerIdBlockZNode.decode(data)


def test_a_block_is_read_as_it_was_written():
    block = next_block(None, BrokerId(3))

    assert ProducerIdBlockZNode.decode(ProducerIdBlockZNode.encode(block)) == block
    assert ProducerIdBlockZNode.decode(b"") is None
