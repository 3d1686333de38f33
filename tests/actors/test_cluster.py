"""What a cluster tells a person, and what it is told."""

import gc
import weakref

import pytest

from actors.cluster import Cluster, SimulatedCluster
from actors.config import BadConfig
from actors.node_cluster import TOPICS_KNOWN_MS
from runtime.keeper import KeeperError
from wire.znodes import TopicsZNode


async def test_whoever_stops_is_told_one_by_one(sim):
    told: list[str] = []
    cluster = SimulatedCluster(sim, brokers=3)
    cluster._announce = told.append
    await cluster.start_nodes()
    await sim.settle()
    cluster.kill(2)

    await cluster.stop_nodes()

    assert told == ["broker 3 has stopped", "broker 1 has stopped"]


async def test_a_broker_keeps_its_port_from_one_life_to_the_next(zookeeper):
    hosts = zookeeper.hosts + zookeeper.chroot()
    async with Cluster(1, zookeeper=hosts, session_timeout_ms=1_000) as cluster:
        before = cluster.addresses()
        cluster.kill(1)
        assert cluster.addresses() == {}

        await cluster.start_broker(1)

        assert cluster.addresses() == before


async def test_of_a_dead_node_nothing_is_kept(sim):
    cluster = SimulatedCluster(sim, brokers=2)
    await cluster.start_nodes()
    dead = weakref.ref(cluster.nodes[2])

    cluster.kill(2)
    await cluster.start_broker(2)
    await sim.settle()
    gc.collect()

    assert dead() is None


# --- what it is told ------------------------------------------------------------------------------


@pytest.mark.parametrize("key", ["num.partitions", "num_partitions"])
async def test_a_setting_may_have_kafkas_name(sim, key):
    cluster = SimulatedCluster(sim, brokers=1, overrides={key: 3})
    node = await cluster.start_broker(1)

    assert node.config.num_partitions == 3


@pytest.mark.parametrize(
    ("overrides", "sentence"),
    [
        ({"num.partition": 3}, "^there is no setting num.partition; num.partitions is the nearest"),
        ({"num.partitions": "three"}, "^num.partitions is 'three'; it must be a whole number"),
        ({"num.partitions": 0}, "^num.partitions is 0; it must be 1 or more"),
        ({"broker.rack": "north"}, "^broker.rack is 'north'; it must not be given"),
    ],
)
@pytest.mark.parametrize("is_real", [False, True])
async def test_a_cluster_that_could_not_start_is_none(sim, is_real, overrides, sentence):
    with pytest.raises(BadConfig, match=sentence):
        Cluster(3, overrides=overrides) if is_real else SimulatedCluster(sim, overrides=overrides)


async def test_options_of_clients_are_checked_by_name(sim):
    cluster = SimulatedCluster(sim, brokers=1)

    with pytest.raises(BadConfig, match=r"^there is no setting linger; linger.ms is the nearest"):
        cluster.producer(linger=5)
    with pytest.raises(BadConfig, match=r"^batch.size is 'x'; it must be a whole number"):
        cluster.producer(batch_size="x")
    with pytest.raises(BadConfig, match=r"^there is no setting groupid; group.id is the nearest"):
        cluster.consumer(groupid="shop")
    with pytest.raises(BadConfig, match=r"^group.id is 5; it must be text or None"):
        cluster.consumer(group_id=5)
    async with cluster.producer(**{"acks": "all", "linger.ms": 5}) as producer:
        assert (producer._config.acks, producer._config.linger_ms) == (-1, 5)


# --- when it is up --------------------------------------------------------------------------------


async def test_topics_are_known_to_all_when_they_were_waited_for(sim):
    cluster = SimulatedCluster(sim, brokers=3)
    await cluster.start_nodes()
    await sim.settle()
    await cluster.admin().create_topic("orders", partitions=1, replication_factor=3)
    await cluster.stop_nodes()
    cluster = SimulatedCluster(sim, brokers=3)
    await cluster.start_nodes()
    caches = [node.replica_manager.cache for node in cluster.nodes.values()]
    assert any("orders" not in each.topics for each in caches)  # else this shows nothing

    await cluster.await_topics()

    assert all("orders" in each.topics for each in caches)


async def test_topics_that_could_not_be_read_once_are_read_again(sim, monkeypatch):
    cluster = SimulatedCluster(sim, brokers=1)
    await cluster.start_nodes()
    await sim.settle()
    keeper = cluster.nodes[1].world.keeper
    children, asked = keeper.children, []

    async def late(path):
        asked.append(path)
        if len(asked) == 1:
            raise KeeperError(path)
        return await children(path)

    monkeypatch.setattr(keeper, "children", late)
    await cluster.await_topics()

    assert asked == [TopicsZNode.path()] * 2


async def test_a_topic_that_nobody_can_read_is_not_waited_for_without_end(sim):
    cluster = SimulatedCluster(sim, brokers=2)
    await cluster.start_nodes()
    await sim.settle()
    keeper = cluster.nodes[1].world.keeper
    await keeper.create(f"{TopicsZNode.path()}/odd", b"no json")
    begun = sim.now_ms

    await cluster.await_topics()

    assert TOPICS_KNOWN_MS <= sim.now_ms - begun < TOPICS_KNOWN_MS + 100


async def test_nobody_is_waited_for_where_all_are_dead(sim):
    cluster = SimulatedCluster(sim, brokers=1)
    await cluster.start_nodes()
    cluster.kill(1)

    await cluster.await_topics()


@pytest.mark.parametrize("first", [1, 2, 3])
async def test_whoever_shall_be_first_is_the_controller(sim, first):
    cluster = SimulatedCluster(sim, brokers=3)

    await cluster.start_nodes(first)

    assert cluster.controller is cluster.nodes[first]
    assert sorted(cluster.nodes) == [1, 2, 3]
