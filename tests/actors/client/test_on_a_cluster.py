"""Producer and consumer against simulated brokers."""

import pytest

from actors.client.config import ConsumerConfig, ProducerConfig
from actors.client.consumer import Consumer
from actors.client.producer import Producer
from actors.cluster import SimulatedCluster
from actors.names import node_name
from runtime.simulation.simulator import Simulator, run
from wire.ids import TopicPartition

ORDERS_0, ORDERS_1 = TopicPartition("orders", 0), TopicPartition("orders", 1)


class Users:
    """A cluster, and those who use it."""

    def __init__(self, sim, cluster):
        self.sim, self.cluster, self.admin = sim, cluster, cluster.admin()
        self._count = 0

    def producer(self, **config):
        return self._client(Producer, ProducerConfig(**config))

    def consumer(self, **config):
        return self._client(Consumer, ConsumerConfig(**config))

    def _client(self, kind, config):
        self._count += 1
        network, clock = self.sim.client(f"user-{self._count}")
        bootstrap = [node_name(each) for each in self.cluster.brokers]
        return kind(network, clock, bootstrap, name_of=node_name, config=config)


@pytest.fixture
async def users(sim):
    cluster = SimulatedCluster(sim, brokers=3)
    await cluster.start_nodes()
    await sim.settle()
    return Users(sim, cluster)


async def read(consumer, count, timeout_ms=60_000):
    records = []
    while len(records) < count:
        got = await consumer.poll(timeout_ms)
        assert got, f"{len(records)} of {count} records came"
        records += got
    return records


async def test_what_is_produced_is_consumed(sim, users):
    await users.admin.create_topic("orders", partitions=2, replication_factor=3)

    async with users.producer() as producer, users.consumer() as consumer:
        consumer.assign([ORDERS_0, ORDERS_1])
        await consumer.seek_to_beginning()
        sent = [await producer.send("orders", b"%d" % each, b"%d" % each) for each in range(20)]
        records = await read(consumer, 20)

    assert {(each.partition, each.offset, each.value) for each in records} == {
        (each.partition, each.offset, b"%d" % number) for number, each in enumerate(sent)
    }


async def test_a_topic_is_created_by_whoever_writes_to_it_first(sim, users):
    async with users.producer() as producer:
        sent = await producer.send("new", b"x")

    assert (sent.topic, sent.partition, sent.offset) == ("new", 0, 0)


async def test_offsets_are_found_by_time_and_at_both_ends(sim, users):
    await users.admin.create_topic("orders")
    async with users.producer() as producer, users.consumer() as consumer:
        for time in (1_000, 2_000, 3_000):
            await producer.send("orders", b"x", timestamp_ms=time)
        found = await consumer.offsets_for_times({ORDERS_0: 1_500})
        late = await consumer.offsets_for_times({ORDERS_0: 9_000})
        ends = await consumer.beginning_offsets([ORDERS_0]), await consumer.end_offsets([ORDERS_0])

        assert (found[ORDERS_0].offset, found[ORDERS_0].timestamp_ms) == (1, 2_000)
        assert late == {ORDERS_0: None}
        assert ends == ({ORDERS_0: 0}, {ORDERS_0: 3})


async def test_a_position_past_the_end_is_reset(sim, users):
    await users.admin.create_topic("orders")
    async with (
        users.producer() as producer,
        users.consumer(auto_offset_reset="earliest") as consumer,
    ):
        await producer.send("orders", b"x")
        consumer.assign([ORDERS_0])
        await consumer.seek(ORDERS_0, 99)

        assert [each.offset for each in await read(consumer, 1)] == [0]


@pytest.mark.parametrize("fault", ["kill", "pause", "expire_session"])
async def test_nothing_acknowledged_is_lost_and_order_is_kept_when_the_leader_fails(
    sim, users, fault
):
    await users.admin.create_topic(
        "orders", assignments={0: [2, 3, 1]}, configs={"min.insync.replicas": "2"}
    )
    async with users.producer(request_timeout_ms=5_000) as producer, users.consumer() as consumer:
        consumer.assign([ORDERS_0])
        await consumer.seek_to_beginning()
        deliveries = []
        for number in range(60):
            deliveries.append(await producer.enqueue("orders", b"%03d" % number))
            await sim.sleep(20)
            if number == 20:
                getattr(sim, fault)("broker-2")
        acknowledged = [await each for each in deliveries]
        end = (await consumer.end_offsets([ORDERS_0]))[ORDERS_0]
        records = await read(consumer, end)

    values = [each.value for each in records]
    first_seen = list(dict.fromkeys(values))
    assert first_seen == [b"%03d" % each for each in range(60)]  # some may be there twice
    for number, each in enumerate(acknowledged):
        assert values[each.offset] == b"%03d" % number


async def test_a_group_goes_on_where_it_committed(sim, users):
    await users.admin.create_topic("orders", replication_factor=3)
    async with users.producer() as producer:
        for number in range(4):
            await producer.send("orders", b"%d" % number)
    options = {"group_id": "shop", "auto_offset_reset": "earliest"}
    async with users.consumer(**options, max_poll_records=3) as consumer:
        consumer.assign([ORDERS_0])
        await read(consumer, 3)
        await consumer.commit()

    async with users.consumer(**options) as consumer:
        consumer.assign([ORDERS_0])
        records = await read(consumer, 1)
        committed = await consumer.committed([ORDERS_0])

    assert [each.value for each in records] == [b"3"]
    assert committed[ORDERS_0].offset == 3


def test_two_runs_of_a_seed_leave_the_same_trace():
    async def once():
        async with Simulator(seed=11) as sim:
            cluster = SimulatedCluster(sim, brokers=3)
            await cluster.start_nodes()
            users = Users(sim, cluster)
            await users.admin.create_topic("orders", partitions=2, replication_factor=3)
            async with users.producer(linger_ms=3) as producer, users.consumer() as consumer:
                consumer.assign([ORDERS_0, ORDERS_1])
                await consumer.seek_to_beginning()
                for number in range(40):
                    await producer.enqueue("orders", b"%d" % number)
                    await sim.sleep(2)
                    if number == 20:
                        sim.kill("broker-1")
                await producer.flush()
                await read(consumer, 40)
            return sim.trace_bytes()

    assert run(once) == run(once)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_network_that_loses_frames_loses_nothing_acknowledged(seed):
    async def check():
        async with Simulator(seed=seed) as sim:
            cluster = SimulatedCluster(sim, brokers=3)
            await cluster.start_nodes()
            users = Users(sim, cluster)
            await users.admin.create_topic("orders", replication_factor=3)
            options = {"request_timeout_ms": 1_000}
            async with users.producer(**options) as producer, users.consumer(**options) as consumer:
                consumer.assign([ORDERS_0])
                await consumer.seek_to_beginning()
                for user in ("user-1", "user-2"):
                    for broker in map(node_name, cluster.brokers):
                        sim.network.set_conditions(user, broker, loss=0.1)
                        sim.network.set_conditions(broker, user, loss=0.1, duplication=0.1)
                sent = [await producer.send("orders", b"%02d" % each) for each in range(50)]
                sim.heal()
                end = (await consumer.end_offsets([ORDERS_0]))[ORDERS_0]
                values = [each.value for each in await read(consumer, end)]

        assert [values[each.offset] for each in sent] == [b"%02d" % each for each in range(50)]
        assert list(dict.fromkeys(values)) == sorted(set(values))
        assert len(values) > len(sent)  # some answers were lost, so some records are there twice

    run(check)
