"""A simulated cluster with a topic, and somebody who calls its first broker."""

import pytest

from tests.support.drive import Drive
from tests.support.kafka_caller import KafkaCaller


@pytest.fixture
async def drive(sim):
    drive = await Drive.start(sim, brokers=2)
    await drive.create("orders", [1, 2])
    return drive


@pytest.fixture
def caller(sim, drive):
    return KafkaCaller(sim)
