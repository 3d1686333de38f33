"""Brokers hear of changed configuration: B183, B063."""

import pytest

from actors.broker.config_watcher import ConfigWatcher
from actors.broker.registration import Registered, make_paths
from actors.config import BrokerConfig
from actors.controller.events import UncleanElectionEnabled
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


class Post:
    """A watcher, what it told the controller and the trace, and somebody who changes things."""

    def __init__(self, sim):
        self.sim = sim
        self.controller = Mailbox()
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
        self.ref = system.start(
            "config-watcher", ConfigWatcher(self.world, config, self.controller)
        )
        return self

    async def register(self):
        self.ref.tell(Registered(7))
        await self.sim.settle()

    async def change(self, entity_type, name, config=None, settle=True):
        entity = ConfigEntity(entity_type, name)
        if config is not None:
            path, data = ConfigEntityZNode.path(entity), ConfigEntityZNode.encode(config)
            await make_paths(self.keeper, [path])
            await self.keeper.set(path, data)
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
