"""Brokers hear of changed configuration: B183, B063."""

import pytest

from actors.broker.config_watcher import ConfigWatcher
from actors.broker.registration import Registered, make_paths
from actors.broker.settings import BrokerConfigChanged, TopicConfigChanged
from actors.config import BrokerConfig
from actors.controller.events import UncleanElectionEnabled
from runtime.ref import InboxFull
from runtime.system import System
from tests.support.mailbox import Mailbox
from wire.config_znodes import (
    ConfigChangeNotificationZNode,
    ConfigEntity,
    ConfigEntityType,
    ConfigEntityZNode,
)
from wire.trace import ConfigChanged, ZNodeSkipped
from wire.znodes import PERSISTENT_ROOTS

UNCLEAN = {"unclean.leader.election.enable": "true"}
MINUTE_MS = 60_000


class Busy(Mailbox):
    """A receiver whose inbox may be full."""

    is_full = False

    def tell(self, message):
        if self.is_full:
            raise InboxFull("busy")
        super().tell(message)


class Post:
    """A watcher, what it told others and the trace, and somebody who changes things."""

    def __init__(self, sim):
        self.sim = sim
        self.controller = Mailbox()
        self.replica_manager = Busy()
        self.heard, self.skipped = [], []
        sim.trace.listeners.append(self.on_trace)

    def on_trace(self, _, event):
        match event:
            case ConfigChanged(entity):
                self.heard.append(entity)
            case ZNodeSkipped(path, _):
                self.skipped.append(path)

    async def open(self):
        self.world = self.sim.world("broker-1")
        self.keeper = self.sim.world("somebody").keeper
        await self.world.keeper.start()
        await self.keeper.start()
        await make_paths(self.keeper, PERSISTENT_ROOTS)
        system = self.system = System("broker-1", self.world.trace)
        self.sim.adopt(system)
        config = BrokerConfig(broker_id=1)
        watcher = ConfigWatcher(self.world, config, self.controller, self.replica_manager)
        self.ref = system.start("config-watcher", watcher)
        return self

    async def register(self):
        self.ref.tell(Registered(7))
        await self.sim.settle()

    async def write(self, entity_type, name, config):
        path = ConfigEntityZNode.path(ConfigEntity(entity_type, name))
        await make_paths(self.keeper, [path])
        await self.keeper.set(path, ConfigEntityZNode.encode(config))

    def told(self):
        """What the replica manager has heard since the last time."""
        messages = self.replica_manager.messages[:]
        self.replica_manager.messages.clear()
        return messages

    async def change(self, entity_type, name, config=None, settle=True):
        entity = ConfigEntity(entity_type, name)
        if config is not None:
            await self.write(entity_type, name, config)
        await self.notify(ConfigChangeNotificationZNode.encode(entity))
        if settle:
            await self.sim.settle()

    async def notify(self, data):
        path = ConfigChangeNotificationZNode.prefix_path()
        await self.keeper.create(path, data, sequential=True)

    def notifications(self):
        return self.sim.zookeeper.tree.children("/config/changes")


@pytest.fixture
async def post(sim):
    return await Post(sim).open()


TOPICS, BROKERS = ConfigEntityType.TOPICS, ConfigEntityType.BROKERS


@pytest.mark.behaviour("B183")
async def test_each_change_is_heard_once_and_in_order(sim, post):
    await post.register()

    for name in ("b", "a", "c"):
        await post.change(TOPICS, name, {}, settle=False)
    await sim.settle()
    await post.change(TOPICS, "a", {})

    assert post.heard == ["topics/b", "topics/a", "topics/c", "topics/a"]


async def test_what_was_changed_before_the_broker_came_is_not_heard(sim, post):
    await post.change(TOPICS, "old", UNCLEAN)
    assert post.heard == []

    await post.register()
    await post.change(TOPICS, "new", {})

    assert post.heard == ["topics/new"]
    assert post.controller.messages == []


@pytest.mark.behaviour("B063")
@pytest.mark.parametrize(
    ("entity_type", "name", "config", "told"),
    [
        (TOPICS, "orders", UNCLEAN, [UncleanElectionEnabled("orders")]),
        (TOPICS, "orders", {"unclean.leader.election.enable": "false"}, []),
        (TOPICS, "orders", {}, []),
        (TOPICS, "orders", None, []),
        (BROKERS, "<default>", UNCLEAN, [UncleanElectionEnabled(None)]),
        (BROKERS, "1", UNCLEAN, [UncleanElectionEnabled(None)]),
        (BROKERS, "2", UNCLEAN, []),
        (BROKERS, "1", {"leader.replication.throttled.rate": "1"}, []),
        (ConfigEntityType.CLIENTS, "orders", UNCLEAN, []),
    ],
)
async def test_the_controller_is_told_what_may_now_elect_uncleanly(
    post, entity_type, name, config, told
):
    await post.register()

    await post.change(entity_type, name, config)

    assert post.controller.messages == told
    assert post.heard == [f"{entity_type}/{name}"]


async def test_a_folder_that_somebody_removed_is_made_again_and_watched(sim, post):
    await post.register()
    await post.keeper.delete("/config/changes")
    await sim.settle()
    assert post.system.is_up

    await post.change(TOPICS, "orders", {})

    assert post.heard == ["topics/orders"]


async def test_malformed_notifications_are_passed_over(sim, post):
    await post.register()

    await post.notify(b"strange")
    await post.keeper.create("/config/changes/odd", b"{}")
    await post.notify(b'{"version":1,"entity_type":"topics","entity_name":"orders"}')
    await sim.settle()
    await post.change(TOPICS, "after", {})

    assert post.heard == ["topics/orders", "topics/after"]
    assert sorted(post.skipped) == [
        "/config/changes/config_change_0000000000",
        "/config/changes/odd",
    ]
    assert post.system.is_up


async def test_a_malformed_configuration_is_passed_over(sim, post):
    await post.register()
    await post.keeper.create("/config/topics/orders", b"strange")

    await post.change(TOPICS, "orders")

    assert post.skipped == ["/config/topics/orders"]
    assert post.heard == ["topics/orders"]


@pytest.mark.behaviour("B183")
async def test_a_new_session_hears_what_came_in_between(sim, post):
    await post.register()
    await post.change(TOPICS, "before", {})
    sim.expire_session("broker-1")
    await sim.settle()
    await post.change(TOPICS, "between", {})
    assert post.heard == ["topics/before"]

    await post.world.keeper.renew()
    await post.register()
    await post.change(TOPICS, "after", {})

    assert post.heard == ["topics/before", "topics/between", "topics/after"]


@pytest.mark.parametrize("after_ms", [0, 0.3, 0.6, 0.9, 1.2, 1.5])
async def test_a_session_lost_while_listening_ends_it_quietly_and_nothing_is_lost(
    sim, post, after_ms
):
    await post.register()
    await post.change(TOPICS, "orders", UNCLEAN, settle=False)
    await sim.sleep(after_ms)
    sim.expire_session("broker-1")
    await sim.settle()
    assert post.system.is_up

    await post.world.keeper.renew()
    await post.register()

    assert post.heard == ["topics/orders"]
    assert post.controller.messages == [UncleanElectionEnabled("orders")]


@pytest.mark.behaviour("B183")
async def test_notifications_are_purged_after_fifteen_minutes(sim, post):
    await post.change(TOPICS, "before the broker came", {})
    await post.register()
    await post.change(TOPICS, "old", {})
    await sim.sleep(14 * MINUTE_MS)
    await post.change(TOPICS, "young", {})
    assert len(post.notifications()) == 3

    await sim.sleep(2 * MINUTE_MS)
    assert len(post.notifications()) == 3  # nothing happens until something changes
    await post.change(TOPICS, "new", {})

    assert post.notifications() == ("config_change_0000000002", "config_change_0000000003")
    assert post.heard == ["topics/old", "topics/young", "topics/new"]


async def test_a_broker_whose_clock_is_wrong_purges_nothing_too_early(sim, post):
    post.world.clock.skew_ms = 3 * 60 * MINUTE_MS
    await post.register()

    await post.change(TOPICS, "a", {})
    await post.change(TOPICS, "b", {})

    assert len(post.notifications()) == 2


async def test_a_notification_of_what_no_path_can_name_is_passed_over(sim, post):
    await post.register()

    await post.notify(b'{"version":2,"entity_path":"topics/.."}')
    await sim.settle()
    await post.change(TOPICS, "after", {})

    assert post.system.is_up
    assert post.heard == ["topics/after"]
    assert post.skipped == ["/config/changes/config_change_0000000000"]


# --- what the replica manager hears ---------------------------------------------------------------

RATE = "leader.replication.throttled.rate"


@pytest.mark.behaviour("B183")
async def test_the_replica_manager_hears_all_that_is_set_for_a_changed_topic(sim, post):
    await post.register()
    post.told()

    await post.change(TOPICS, "orders", {"retention.ms": "5", "segment.ms": "6"})
    await post.change(TOPICS, "orders", {"segment.ms": "6"})
    await post.keeper.delete("/config/topics/orders")
    await post.change(TOPICS, "orders")

    assert post.told() == [
        TopicConfigChanged("orders", {"retention.ms": "5", "segment.ms": "6"}),
        TopicConfigChanged("orders", {"segment.ms": "6"}),
        TopicConfigChanged("orders", {}),
    ]


async def test_at_its_start_a_broker_hears_what_is_set_for_it_and_nothing_of_topics(post):
    await post.write(BROKERS, "<default>", {RATE: "1", "min.insync.replicas": "2"})
    await post.write(BROKERS, "1", {RATE: "3"})
    await post.write(BROKERS, "2", {RATE: "4"})
    await post.write(TOPICS, "orders", {"retention.ms": "5"})

    await post.register()

    assert post.told() == [BrokerConfigChanged({RATE: "3", "min.insync.replicas": "2"})]
    assert post.heard == []


async def test_a_broker_for_which_nothing_is_set_hears_so(post):
    await post.register()

    assert post.told() == [BrokerConfigChanged({})]


@pytest.mark.behaviour("B183")
@pytest.mark.parametrize(
    ("name", "merged"),
    [("1", {RATE: "7"}), ("<default>", {RATE: "3", "log.roll.ms": "9"})],
)
async def test_a_change_for_this_broker_or_for_every_one_is_merged(post, name, merged):
    await post.write(BROKERS, "1", {RATE: "3"})
    await post.register()
    post.told()

    await post.change(
        BROKERS, name, {RATE: "7"} if name == "1" else {RATE: "7", "log.roll.ms": "9"}
    )

    assert post.told() == [BrokerConfigChanged(merged)]


@pytest.mark.parametrize("entity_type", [BROKERS, ConfigEntityType.CLIENTS])
async def test_what_is_set_for_others_is_not_told(post, entity_type):
    await post.register()
    post.told()

    await post.change(entity_type, "2", {RATE: "7"})

    assert post.heard == [f"{entity_type}/2"]
    assert post.told() == []


async def test_a_new_session_reads_what_is_set_for_the_broker_again(sim, post):
    await post.write(BROKERS, "1", {RATE: "3"})
    await post.register()
    sim.expire_session("broker-1")
    await sim.settle()
    post.told()
    await post.write(BROKERS, "1", {RATE: "4"})  # whose notification was purged meanwhile

    await post.world.keeper.renew()
    await post.register()

    assert post.told() == [BrokerConfigChanged({RATE: "4"})]
    assert post.heard == []


@pytest.mark.parametrize("after_ms", [0, 0.3, 0.6, 0.9, 1.2, 1.5])
async def test_a_session_lost_at_the_start_leaves_the_next_one_to_tell(sim, post, after_ms):
    await post.write(BROKERS, "1", {RATE: "3"})
    post.ref.tell(Registered(7))
    await sim.sleep(after_ms)
    sim.expire_session("broker-1")
    await sim.settle()

    await post.world.keeper.renew()
    await post.register()

    assert post.system.is_up
    assert post.told()[-1] == BrokerConfigChanged({RATE: "3"})


async def test_what_nobody_can_read_leaves_the_broker_with_what_it_had(post):
    await post.write(BROKERS, "1", {RATE: "3"})
    await post.register()
    post.told()
    await post.keeper.set("/config/brokers/1", b"strange")

    await post.change(BROKERS, "<default>", {"log.roll.ms": "9"})

    assert post.told() == [BrokerConfigChanged({RATE: "3", "log.roll.ms": "9"})]
    assert post.skipped == ["/config/brokers/1"]


async def test_a_full_inbox_hears_the_newest_of_each_when_it_has_room(sim, post):
    post.replica_manager.is_full = True
    post.ref.tell(Registered(7))
    await sim.sleep(1_000)
    for segment_ms in ("1", "2"):
        await post.change(TOPICS, "orders", {"segment.ms": segment_ms}, settle=False)
    await post.change(BROKERS, "1", {RATE: "3"}, settle=False)
    await sim.sleep(1_000)
    assert post.told() == []

    post.replica_manager.is_full = False
    await sim.sleep(1_000)

    assert post.system.is_up
    assert post.told() == [
        BrokerConfigChanged({RATE: "3"}),
        TopicConfigChanged("orders", {"segment.ms": "2"}),
    ]


async def test_without_a_replica_manager_nobody_is_told(sim, post):
    watcher = ConfigWatcher(post.world, BrokerConfig(broker_id=1), post.controller)
    post.ref = post.system.start("another", watcher)
    await post.register()

    await post.change(TOPICS, "orders", UNCLEAN)

    assert post.system.is_up
    assert post.controller.messages == [UncleanElectionEnabled("orders")]
    assert post.told() == []
