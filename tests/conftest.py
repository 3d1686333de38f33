"""The worlds that tests run in.

A test that takes `sim` runs in virtual time; one that takes `lab` runs twice, once in each world.
"""

import asyncio
from collections.abc import AsyncIterator, Iterator

import pytest

from runtime.simulation.loop import SimulatedLoop
from runtime.simulation.simulator import Simulator
from tests.support.zookeeper import SharedZooKeeper

pytest_plugins = ["tests.support.behaviour_table"]

SIMULATED = {"simulated": SimulatedLoop}
REAL = {"real": asyncio.new_event_loop}


def pytest_asyncio_loop_factories(config, item):
    names = getattr(item, "fixturenames", ())
    if "lab" in names:
        return SIMULATED | REAL
    return SIMULATED if "sim" in names else REAL


@pytest.fixture
async def sim() -> AsyncIterator[Simulator]:
    async with Simulator(seed=7) as simulator:
        yield simulator


@pytest.fixture(scope="session")
def zookeeper() -> Iterator[SharedZooKeeper]:
    """One real server for all tests; each takes a chroot of its own."""
    with SharedZooKeeper() as server:
        yield server
