"""Topics created because a client or a coordinator needs them, by whichever broker is asked."""

import pytest

from actors.broker.administrator import AutoCreateTopics, CreateInternalTopic, OfficeChanged
from runtime.keeper import Create, Delete
from tests.support.desk import Desk
from wire.trace import TopicNotCreated


class AnyDesk(Desk):
    """The administrator of a broker that is not the controller."""

    def start(self, **config):
        super().start(**config)
        self.ref.tell(OfficeChanged(is_active=False))

    async def need(self, *topics):
        await self.tell(AutoCreateTopics(topics))

    async def tell(self, message):
        self.ref.tell(message)
        await self.sim.settle()
        assert self.system.is_up

    def replicas(self, topic):
        """How many of each partition."""
        partitions = self.json(f"/brokers/topics/{topic}")["partitions"]
        return [len(set(partitions[number])) for number in sorted(partitions, key=int)]


@pytest.fixture
async def desk(sim):
    desk = await AnyDesk.open(sim)
    desk.refused = []

    def listen(_, event):
        if isinstance(event, TopicNotCreated):
            desk.refused.append((event.topic, event.error))

    sim.trace.listeners.append(listen)
    return desk


async def test_what_clients_need_is_created_with_the_brokers_defaults(desk):
    desk.start(num_partitions=3, default_replication_factor=2)

    await desk.need("orders", "sales", "orders")

    assert desk.tree.children("/brokers/topics") == ("orders", "sales")
    assert desk.replicas("orders") == [2, 2, 2]
    assert desk.json("/config/topics/orders") == {"version": 1, "config": {}}
    assert desk.json("/brokers/topics/orders")["topic_id"]
    assert desk.refused == []


async def test_an_internal_topic_is_created_as_its_coordinator_says(desk):
    configs = (("cleanup.policy", "compact"), ("segment.bytes", "1000"))

    await desk.tell(CreateInternalTopic("__consumer_offsets", 5, 3, configs))

    assert desk.replicas("__consumer_offsets") == [3] * 5
    assert desk.json("/config/topics/__consumer_offsets")["config"] == dict(configs)


async def test_a_client_that_needs_the_offsets_topic_does_not_get_a_topic_like_any_other(desk):
    desk.start(offsets_topic_num_partitions=4)

    await desk.need("__consumer_offsets")

    assert desk.replicas("__consumer_offsets") == [3] * 4
    config = desk.json("/config/topics/__consumer_offsets")["config"]
    assert config["cleanup.policy"] == "compact"


async def test_a_name_that_cannot_be_does_not_hinder_the_others(desk):
    await desk.need("a b", "", "orders")

    assert desk.tree.children("/brokers/topics") == ("orders",)
    assert desk.refused == [("a b", "INVALID_TOPIC_EXCEPTION"), ("", "INVALID_TOPIC_EXCEPTION")]


@pytest.mark.parametrize("marked", [False, True], ids=["there", "being deleted"])
async def test_a_topic_that_is_there_stays_as_it_is_and_that_is_no_error(desk, marked):
    await desk.tell(CreateInternalTopic("orders", 2, 3, (("retention.ms", "5"),)))
    if marked:
        await desk.world.keeper.create("/admin/delete_topics/orders")
    before = desk.tree.zxid

    await desk.need("orders")
    await desk.tell(CreateInternalTopic("orders", 9, 1))

    assert desk.tree.zxid == before
    assert desk.refused == []


async def test_a_topic_that_another_broker_creates_at_the_same_time_is_no_error(desk):
    path = "/brokers/topics/orders"
    desk.meanwhile(path, Create(path, b"by another broker"))

    await desk.need("orders", "sales")

    assert desk.tree.get(path).data == b"by another broker"
    assert desk.tree.children("/brokers/topics") == ("orders", "sales")
    assert desk.refused == []


async def test_too_few_brokers_leave_a_trace_and_no_topic_until_there_are_enough(desk):
    desk.start(default_replication_factor=4)
    before = desk.tree.zxid

    await desk.need("orders")
    assert desk.refused == [("orders", "INVALID_REPLICATION_FACTOR")]
    assert desk.tree.zxid == before

    await desk.register(4)
    await desk.need("orders")
    assert desk.replicas("orders") == [4]


async def test_an_internal_topic_that_cannot_be_leaves_a_trace(desk):
    await desk.tell(CreateInternalTopic("offsets", 1, 9))
    await desk.tell(CreateInternalTopic("offsets", 0, 1))
    await desk.tell(CreateInternalTopic("offsets", 1, 1, (("no.such", "1"),)))

    assert desk.refused == [
        ("offsets", "INVALID_REPLICATION_FACTOR"),
        ("offsets", "INVALID_PARTITIONS"),
        ("offsets", "INVALID_CONFIG"),
    ]
    assert desk.tree.children("/brokers/topics") == ()


async def test_a_folder_that_is_missing_leaves_a_trace(desk):
    path = "/config/topics"
    desk.meanwhile(f"{path}/orders", Delete(path))

    await desk.need("orders", "a b")

    assert desk.refused == [
        ("orders", "UNKNOWN_SERVER_ERROR"),
        ("a b", "INVALID_TOPIC_EXCEPTION"),
    ]


@pytest.mark.parametrize("after_ms", [0, 0.3, 0.6, 0.9, 1.2, 1.5, 2, 3, 4])
async def test_a_session_lost_meanwhile_costs_no_more_than_the_topic(sim, desk, after_ms):
    desk.ref.tell(AutoCreateTopics(("orders",)))
    await sim.sleep(after_ms)
    sim.expire_session("broker-1")
    await sim.settle()
    assert desk.system.is_up
    assert desk.refused in ([], [("orders", "NOT_CONTROLLER")])

    await desk.world.keeper.renew()
    await desk.need("orders")

    assert desk.replicas("orders") == [1]
