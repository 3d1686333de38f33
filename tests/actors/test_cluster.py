"""What a cluster tells a person."""

import gc
import weakref

from actors.cluster import SimulatedCluster


async def cluster_of(sim, told):
    cluster = SimulatedCluster(sim, brokers=3)
    cluster._announce = told.append
    for broker in cluster.brokers:  # whoever is first wins
        await cluster.start_broker(broker)
        await sim.settle()
    return cluster


def controllers(told):
    return [line for line in told if line.startswith("the controller is")]


async def test_each_controller_is_news(sim):
    told = []
    cluster = await cluster_of(sim, told)

    cluster.kill(1)
    await sim.sleep(10_000)

    (heir,) = [broker for broker, node in cluster.nodes.items() if node.is_controller]
    assert controllers(told) == ["the controller is broker 1", f"the controller is broker {heir}"]


async def test_who_takes_over_while_all_stop_is_no_news(sim):
    told = []
    cluster = await cluster_of(sim, told)
    cluster.kill(1)
    await sim.sleep(10_000)
    await cluster.start_broker(1)  # it stops last: whoever reigns now stops before it
    await sim.settle()
    told.clear()
    stop_broker = cluster.stop_broker

    async def stop_slowly(broker, **options):
        await stop_broker(broker, **options)
        await sim.settle()  # there is time to elect another

    cluster.stop_broker = stop_slowly
    await cluster.stop_nodes()

    assert controllers(told) == []
    assert told[-1].endswith("has stopped")


async def test_of_a_dead_node_nothing_is_kept(sim):
    cluster = SimulatedCluster(sim, brokers=2)
    await cluster.start_nodes()
    dead = weakref.ref(cluster.nodes[2])

    cluster.kill(2)
    await cluster.start_broker(2)
    await sim.settle()
    gc.collect()

    assert dead() is None
