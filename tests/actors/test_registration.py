"""A broker's znode: B018, B020 and the ZooKeeper layout."""

import json

import pytest

from actors.broker.registration import BrokerIdTaken
from actors.cluster import SimulatedCluster
from wire.trace import BrokerRegistered
from wire.znodes import PERSISTENT_ROOTS


@pytest.fixture
async def cluster(sim):
    cluster = SimulatedCluster(sim, brokers=3)
    cluster.registered = []
    sim.trace.listeners.append(
        lambda _, event: isinstance(event, BrokerRegistered) and cluster.registered.append(event)
    )
    await cluster.start_nodes()
    return cluster


def ids(sim):
    return sim.zookeeper.tree.children("/brokers/ids")


async def test_each_broker_has_a_znode_in_kafkas_form(sim, cluster):
    znode = sim.zookeeper.tree.get("/brokers/ids/2")

    assert ids(sim) == ("1", "2", "3")
    assert json.loads(znode.data) == {
        "version": 5,
        "host": "broker-2",
        "port": 9092,
        "jmx_port": -1,
        "timestamp": str(json.loads(znode.data)["timestamp"]),
        "endpoints": ["INTERNAL://broker-2:9092", "KAFKA://broker-2:9093"],
        "listener_security_protocol_map": {"INTERNAL": "PLAINTEXT", "KAFKA": "PLAINTEXT"},
        "features": {},
    }
    assert znode.stat.ephemeral_owner != 0
    assert b" " not in znode.data


async def test_the_persistent_roots_are_there(sim, cluster):
    assert all(sim.zookeeper.tree.stat(path) for path in PERSISTENT_ROOTS)


async def test_the_broker_epoch_is_the_creation_zxid_of_the_znode(sim, cluster):
    stat = sim.zookeeper.tree.stat("/brokers/ids/1")

    assert BrokerRegistered(1, stat.czxid, 1) in cluster.registered


@pytest.mark.behaviour("B018")
async def test_an_expired_session_is_followed_by_a_new_registration_with_a_new_epoch(sim, cluster):
    before = sim.zookeeper.tree.stat("/brokers/ids/2")

    sim.expire_session("broker-2")
    await sim.settle()

    after = sim.zookeeper.tree.stat("/brokers/ids/2")
    assert after.czxid > before.czxid
    assert after.ephemeral_owner != before.ephemeral_owner
    assert cluster.registered[-1] == BrokerRegistered(2, after.czxid, 2)


@pytest.mark.behaviour("B018")
async def test_a_paused_broker_loses_its_znode_and_registers_again_when_it_goes_on(sim, cluster):
    sim.pause("broker-2")
    await sim.sleep(10_000)
    assert ids(sim) == ("1", "3")

    sim.resume("broker-2")
    await sim.settle()

    assert ids(sim) == ("1", "2", "3")


async def test_a_killed_broker_keeps_its_znode_until_its_session_times_out(sim, cluster):
    cluster.kill(2)
    await sim.sleep(5_000)
    assert ids(sim) == ("1", "2", "3")

    await sim.sleep(1_001)

    assert ids(sim) == ("1", "3")


async def test_a_restarted_broker_waits_for_its_former_session_to_end(sim, cluster):
    before = sim.zookeeper.tree.stat("/brokers/ids/2")
    cluster.kill(2)

    await cluster.start_broker(2)

    assert sim.zookeeper.tree.stat("/brokers/ids/2").czxid > before.czxid


@pytest.mark.behaviour("B020")
async def test_a_znode_of_the_previous_session_is_replaced(sim, cluster):
    node = cluster.nodes[2]
    keeper = node.world.keeper
    sim.zookeeper.cut("broker-2")
    await sim.sleep(20_000)
    # The server is slow to remove what the dead session owned: as in KAFKA-7165.
    stranger = sim.world("stranger").keeper
    await stranger.start()
    stranger._session.id = keeper.session_id
    await stranger.create("/brokers/ids/2", b"mine, of the session before", ephemeral=True)

    sim.heal()
    await sim.settle()

    stat = sim.zookeeper.tree.stat("/brokers/ids/2")
    assert stat.ephemeral_owner == keeper.session_id != keeper.previous_session_id
    assert sim.zookeeper.tree.get("/brokers/ids/2").data != b"mine, of the session before"


@pytest.mark.behaviour("B020")
async def test_a_broker_whose_id_another_holds_does_not_start(sim, cluster):
    stranger = sim.world("stranger").keeper
    await stranger.start()
    await stranger.create("/brokers/ids/9", b"somebody else", ephemeral=True)

    with pytest.raises(BrokerIdTaken, match="broker 9 is registered by session"):
        await cluster.start_broker(9)

    assert sim.zookeeper.tree.get("/brokers/ids/9").data == b"somebody else"
    assert not cluster.nodes[9].system.is_up


@pytest.mark.behaviour("B020", "B021")
async def test_a_registration_whose_reply_is_lost_finds_its_own_znode(sim, cluster):
    sim.expire_session("broker-2")
    sim.lose_reply("broker-2")  # of the create that follows
    await sim.settle()

    stat = sim.zookeeper.tree.stat("/brokers/ids/2")
    assert stat.ephemeral_owner == cluster.nodes[2].world.keeper.session_id
    assert cluster.registered[-1] == BrokerRegistered(2, stat.czxid, 2)


async def test_a_stopped_broker_leaves_at_once(sim, cluster):
    await cluster.stop_nodes()

    assert ids(sim) == ()


@pytest.mark.behaviour("B018", "B021")
async def test_a_registration_lost_while_it_is_made_is_made_by_the_next_session(sim, cluster):
    for _ in range(3):
        sim.expire_session("broker-3")
        await sim.sleep(22)  # about when the next session is being opened
    await sim.settle()

    assert ids(sim) == ("1", "2", "3")
