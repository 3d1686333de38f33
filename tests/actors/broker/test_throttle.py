"""Replicas that are copied no faster than is allowed, on a whole cluster: B167, KIP-73."""

import pytest

from tests.support.data import MIB, batch_of, produce, values_on
from tests.support.drive import Drive
from tests.support.led import ORDERS, Led
from wire.configs import (
    AlterConfigOperation,
    ConfigChange,
    ConfigChanges,
    ConfigResource,
    ConfigResourceType,
    IncrementalAlterConfigs,
    IncrementalAlterConfigsResponse,
)
from wire.errors import ErrorCode
from wire.ids import TopicPartition

pytestmark = pytest.mark.behaviour("B167")
RATE = 2_000  # bytes a second
VALUE = b"x" * 400
BATCH = len(batch_of(VALUE))
RECORDS = 100  # 47 kB: more than 20 seconds at that rate
FETCH = 1_000  # bytes at once, so that the rate shows
LEADER, FOLLOWER = "leader", "follower"


@pytest.fixture
async def drive(sim):
    overrides = {"replica_fetch_max_bytes": FETCH, "auto_leader_rebalance_enable": False}
    return await Drive.start(sim, 3, overrides=overrides)


async def alter(drive, kind: ConfigResourceType, name: str, **config: str) -> None:
    changes = tuple(
        ConfigChange(key.replace("_", "."), AlterConfigOperation.SET, value)
        for key, value in config.items()
    )
    request = IncrementalAlterConfigs(
        resources=(ConfigChanges(ConfigResource(kind, name), changes),)
    )
    response = await drive.ask(1, request, IncrementalAlterConfigsResponse)
    assert [each.error_code for each in response.resources] == [ErrorCode.NONE]
    await drive.sim.sleep(500)


async def throttle(drive, side: str, replicas: str, topic: str = "orders") -> None:
    """Let some replicas of a topic be copied at the rate, by all brokers."""
    for broker in (1, 2, 3):
        rate = {f"{side}_replication_throttled_rate": str(RATE)}
        await alter(drive, ConfigResourceType.BROKER, str(broker), **rate)
    named = {f"{side}_replication_throttled_replicas": replicas}
    await alter(drive, ConfigResourceType.TOPIC, topic, **named)


async def fill(drive, topic: str) -> TopicPartition:
    """A topic at broker 1 alone, with much in it."""
    partition = await drive.create(topic, [1])
    for _ in range(RECORDS):
        await produce(drive, partition, VALUE)
    return partition


class Speed:
    """How much of a partition a broker has, measured each second."""

    def __init__(self, drive, broker: int, partition: TopicPartition) -> None:
        self._drive, self._broker, self._partition = drive, broker, partition
        self.begun_ms = drive.sim.now_ms
        self.sizes = [0]

    @property
    def is_done(self) -> bool:
        state = self._drive.state(self._partition.topic)
        return self._broker in state.isr

    async def measure(self) -> float:
        """Until it is in sync; the seconds that it took."""
        while not self.is_done:
            await self._drive.sim.sleep(1_000)
            replica = self._drive.replica(self._broker, self._partition.topic)
            self.sizes.append(0 if replica is None else replica.log_end_offset * BATCH)
            assert len(self.sizes) < 300, "it does not get there"
        return float((self._drive.sim.now_ms - self.begun_ms) / 1_000)

    @property
    def most_in_five_seconds(self) -> int:
        return max(b - a for a, b in zip(self.sizes, self.sizes[5:], strict=False))


async def move(drive, partition: TopicPartition, target: list[int]) -> Speed:
    speed = Speed(drive, target[-1], partition)
    response = await drive.alter({partition: target})
    assert response.partitions[0].error_code is ErrorCode.NONE
    return speed


@pytest.mark.parametrize(
    ("side", "replicas"), [(LEADER, "0:1"), (LEADER, "*"), (FOLLOWER, "0:2"), (FOLLOWER, "*")]
)
async def test_a_replica_that_catches_up_is_copied_no_faster_than_the_rate(drive, side, replicas):
    orders = await fill(drive, "orders")
    await throttle(drive, side, replicas)

    speed = await move(drive, orders, [1, 2])
    seconds = await speed.measure()

    assert seconds == pytest.approx(RECORDS * BATCH / RATE, rel=0.25)
    assert speed.most_in_five_seconds <= 5 * RATE * 1.5 + FETCH
    assert values_on(drive, 2, orders) == [VALUE] * RECORDS


@pytest.mark.parametrize(
    ("side", "replicas"), [(LEADER, "0:2"), (FOLLOWER, "0:1"), (LEADER, "1:1")]
)
async def test_a_replica_that_is_not_named_is_copied_as_fast_as_can_be(drive, side, replicas):
    orders = await fill(drive, "orders")
    await throttle(drive, side, replicas)

    speed = await move(drive, orders, [1, 2])

    assert await speed.measure() < 5


@pytest.mark.parametrize("side", [LEADER, FOLLOWER])
async def test_other_partitions_of_the_same_line_go_on(drive, side):
    orders, sales = await fill(drive, "orders"), await fill(drive, "sales")
    await throttle(drive, side, "*", "orders")

    slow, fast = await move(drive, orders, [1, 2]), await move(drive, sales, [1, 2])

    assert await fast.measure() < 5
    assert not slow.is_done
    assert await slow.measure() > 15


@pytest.mark.parametrize("side", [LEADER, FOLLOWER])
async def test_replicas_in_sync_are_not_held_back(drive, side):
    orders = await drive.create("orders", [1, 2, 3])
    await drive.settle()
    await throttle(drive, side, "*")
    begun_ms = drive.sim.now_ms

    for _ in range(RECORDS):
        result = await produce(drive, orders, VALUE, acks=-1)
        assert result.error_code is ErrorCode.NONE

    assert drive.sim.now_ms - begun_ms < 3_000
    assert drive.state("orders").isr == (1, 2, 3)


async def test_a_greater_rate_counts_at_once(drive):
    orders = await fill(drive, "orders")
    await throttle(drive, LEADER, "*")
    speed = await move(drive, orders, [1, 2])
    await drive.sim.sleep(5_000)
    assert not speed.is_done

    rate = {"leader_replication_throttled_rate": str(MIB)}
    await alter(drive, ConfigResourceType.BROKER, "1", **rate)

    assert await speed.measure() < 10


@pytest.mark.behaviour("B166")
async def test_an_offset_that_is_not_read_from_for_the_throttle_must_be_in_the_log_all_the_same(
    sim,
):
    led = await Led.start(
        sim, isr=[1], leader_replication_throttled_replicas="*", min_insync_replicas="1"
    )
    await led.produce(b"a")
    quota = led.manager.leading.serving.quota
    quota.rate = 1
    quota.record(10_000, sim.now_ms)

    beyond = await led.ask_fetch({ORDERS: 99}, by=8)
    within = await led.ask_fetch({ORDERS: 0}, by=8)
    await sim.sleep(100)

    assert [each.error_code for each in beyond.partitions] == [ErrorCode.OFFSET_OUT_OF_RANGE]
    assert within.partitions == ()
    assert led.isr == (1,)
