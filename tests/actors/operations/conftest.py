import pytest

from actors.cluster import SimulatedCluster


@pytest.fixture
async def cluster(sim):
    cluster = SimulatedCluster(sim, brokers=3)
    await cluster.start_nodes()
    await sim.settle()
    return cluster
