"""Scenarios that hold in the simulator hold on a real cluster with real ZooKeeper as well.

Three are played here, which are over soon and hang on no session's end; bin/inject-fault plays any.
"""

from pathlib import Path

import pytest

from actors.cluster import Cluster
from actors.faults.node_hand import NodeHand
from actors.faults.play import Play
from actors.faults.scenario import read_scenario

FOLDER = Path(__file__).parent


@pytest.mark.parametrize(
    "name",
    [
        "rolling-restart",
        "h39-produce-that-waits-for-the-dead",
        "h47-request-in-the-queue-of-a-dead-session",
    ],
)
async def test_what_a_scenario_expects_comes_true_on_a_real_cluster(zookeeper, name):
    scenario = read_scenario(FOLDER / f"{name}.toml")
    assert "real" in scenario.worlds
    cluster = Cluster(
        scenario.brokers,
        zookeeper=zookeeper.hosts + zookeeper.chroot(),
        session_timeout_ms=scenario.session_timeout_ms,
        overrides=scenario.overrides,
        first=scenario.controller,
    )

    async with cluster:
        play = Play(scenario, cluster, NodeHand(cluster))
        await play.run()

    assert play.account.refused == 0
    assert play.account.acknowledged >= scenario.expect.acknowledged
