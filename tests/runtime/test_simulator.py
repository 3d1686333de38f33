"""Faults hit somebody, or say why not."""

import pytest

from runtime.simulation.simulator import UnknownNode


@pytest.fixture
def nodes(sim):
    for name in ("alpha", "beta"):
        sim.world(name)


@pytest.mark.parametrize("fault", ["kill", "pause", "resume", "expire_session", "lose_reply"])
async def test_a_fault_to_a_node_that_does_not_live_names_those_that_do(sim, nodes, fault):
    with pytest.raises(UnknownNode, match="'gamma' does not live here; alpha, beta do"):
        getattr(sim, fault)("gamma")


@pytest.mark.parametrize("fault", ["cut", "hold"])
@pytest.mark.parametrize("link", [("alpha", "gamma"), ("gamma", "beta")])
async def test_a_link_leads_between_nodes_that_were_ever_there(sim, nodes, fault, link):
    with pytest.raises(UnknownNode, match="no 'gamma'; there are alpha, beta, zookeeper"):
        getattr(sim, fault)(*link)


async def test_a_link_to_a_dead_node_can_be_cut(sim, nodes):
    await sim.world("delta").keeper.start()
    sim.kill("delta")

    sim.cut("alpha", "delta")

    assert sim.network.is_cut("alpha", "delta")
