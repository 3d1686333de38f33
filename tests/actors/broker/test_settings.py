"""What configuration means to a broker, wherever it was set: B167, B183."""

import asyncio
from dataclasses import fields

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.administration.topic_configs import BROKER_KEYS, TOPIC_KEYS
from actors.broker.log.config import CleanupPolicy, LogConfig, TimestampType
from actors.broker.quota import NO_LIMIT
from actors.broker.registration import make_paths
from actors.broker.settings import LOG_KEYS, Settings, Throttled, impossible, settings_of
from actors.config import BrokerConfig
from runtime.keeper import KeeperUnreachable
from tests.wire.strategies import fixed
from wire.config_znodes import ConfigEntity, ConfigEntityType, ConfigEntityZNode
from wire.trace import KeeperOperation, ZNodeSkipped
from wire.znodes import PERSISTENT_ROOTS

BROKER = BrokerConfig(broker_id=1)
LEADER_REPLICAS = "leader.replication.throttled.replicas"
FOLLOWER_REPLICAS = "follower.replication.throttled.replicas"
LEADER_RATE = "leader.replication.throttled.rate"
FOLLOWER_RATE = "follower.replication.throttled.rate"


# --- one topic ------------------------------------------------------------------------------------


def test_without_any_configuration_a_topic_is_as_kafkas_are():
    settings = settings_of(BROKER, {}, {})

    assert settings.log == LogConfig()
    assert settings.min_insync_replicas == 1
    assert settings.leader_throttled == settings.follower_throttled == Throttled()


def test_every_setting_of_a_log_is_a_topics_key_and_has_a_brokers_key():
    assert set(LOG_KEYS) <= set(TOPIC_KEYS)
    assert set(LOG_KEYS.values()) == {each.name for each in fields(LogConfig)}
    static = {each.name for each in fields(BrokerConfig)}
    keys = [TOPIC_KEYS[name].broker_key for name in (*LOG_KEYS, "min.insync.replicas")]
    assert {key.replace(".", "_") for key in keys} <= static


# Each with the broker's key that is its default, and three values unlike Kafka's.
NUMBERS = {
    "segment.bytes": "log.segment.bytes",
    "segment.ms": "log.roll.ms",
    "segment.jitter.ms": "log.roll.jitter.ms",
    "segment.index.bytes": "log.index.size.max.bytes",
    "index.interval.bytes": "log.index.interval.bytes",
    "retention.ms": "log.retention.ms",
    "retention.bytes": "log.retention.bytes",
    "flush.messages": "log.flush.interval.messages",
    "flush.ms": "log.flush.interval.ms",
    "max.message.bytes": "message.max.bytes",
    "delete.retention.ms": "log.cleaner.delete.retention.ms",
    "file.delete.delay.ms": "log.segment.delete.delay.ms",
    "min.insync.replicas": "min.insync.replicas",
}
CASES = [
    (key, broker_key, ("101", "102", "103"), (101, 102, 103)) for key, broker_key in NUMBERS.items()
]
DELETE, COMPACT = frozenset({CleanupPolicy.DELETE}), frozenset({CleanupPolicy.COMPACT})
CASES += [
    (
        "cleanup.policy",
        "log.cleanup.policy",
        ("compact", "delete", "compact, delete"),
        (COMPACT, DELETE, COMPACT | DELETE),
    ),
    (
        "message.timestamp.type",
        "log.message.timestamp.type",
        ("LogAppendTime", "CreateTime", "logappendtime"),
        (TimestampType.LOG_APPEND_TIME, TimestampType.CREATE_TIME, TimestampType.LOG_APPEND_TIME),
    ),
    (
        "min.cleanable.dirty.ratio",
        "log.cleaner.min.cleanable.ratio",
        ("0.25", "0.75", ".125"),
        (0.25, 0.75, 0.125),
    ),
]  # fmt: skip


def setting(settings, key):
    field = key.replace(".", "_")
    return (
        settings.min_insync_replicas
        if key == "min.insync.replicas"
        else getattr(settings.log, field)
    )


@pytest.mark.parametrize(
    ("key", "broker_key", "texts", "values"), CASES, ids=[key for key, *_ in CASES]
)
def test_a_topics_own_value_wins_then_the_dynamic_one_then_the_static_one(
    key, broker_key, texts, values
):
    field = broker_key.replace(".", "_")
    static = {field: values[0] if isinstance(values[0], int | float) else texts[0]}
    broker = BrokerConfig(broker_id=1, **static)
    dynamic, topic = {broker_key: texts[1]}, {key: texts[2]}

    assert setting(settings_of(broker, {}, {}), key) == values[0]
    assert setting(settings_of(broker, dynamic, {}), key) == values[1]
    assert setting(settings_of(broker, {}, topic), key) == values[2]
    assert setting(settings_of(broker, dynamic, topic), key) == values[2]


def test_all_settings_but_the_throttles_were_tried():
    assert {key for key, *_ in CASES} == {*LOG_KEYS, "min.insync.replicas"}


@pytest.mark.parametrize("ratio", [0.0, 1e-05, 0.1, 0.3, 1.0])
def test_a_ratio_that_the_broker_was_started_with_is_taken_as_it_is(ratio):
    broker = BrokerConfig(broker_id=1, log_cleaner_min_cleanable_ratio=ratio)

    assert settings_of(broker, {}, {}).log.min_cleanable_dirty_ratio == ratio


@pytest.mark.parametrize(
    ("key", "text", "value"),
    [
        ("flush.messages", "0", 1),
        ("retention.bytes", "-5", -1),
        ("segment.index.bytes", "0", 24),
    ],
)
def test_what_kafka_takes_and_a_log_does_not_is_raised_to_the_least(key, text, value):
    assert setting(settings_of(BROKER, {}, {key: text}), key) == value
    assert impossible(TOPIC_KEYS, {key: text}) == ()


def test_a_value_that_cannot_be_leaves_the_next_one_to_win():
    broker = BrokerConfig(broker_id=1, log_retention_ms=7)
    bad, good = "a week", "8"

    def retention_ms(dynamic, topic):
        settings = settings_of(broker, {"log.retention.ms": dynamic}, {"retention.ms": topic})
        return settings.log.retention_ms

    assert retention_ms(good, bad) == 8
    assert retention_ms(bad, bad) == 7


def test_each_value_that_cannot_be_is_told_of_in_a_sentence():
    config = {
        "retention.ms": "a week",
        "segment.bytes": "13",
        "cleanup.policy": "",
        "segment.ms": "5",
        "no.such.key": "?",
    }

    first, *others = impossible(TOPIC_KEYS, config)

    assert first == f"retention.ms is 'a week'; it must be a number from -1 to {2**63 - 1}"
    assert [each.split(";")[0] for each in others] == [
        "segment.bytes is '13'",
        "cleanup.policy is ''",
    ]


ANY_TEXT = st.one_of(st.text(max_size=8), st.integers().map(str), st.sampled_from(["*", "0:1", ""]))


@fixed(200)
@given(
    st.dictionaries(st.sampled_from(sorted(BROKER_KEYS)), ANY_TEXT),
    st.dictionaries(st.sampled_from(sorted(TOPIC_KEYS)), ANY_TEXT),
)
def test_no_text_at_all_raises(dynamic, topic):
    settings = settings_of(BROKER, dynamic, topic)

    good = {key for key, text in topic.items() if not impossible(TOPIC_KEYS, {key: text})}
    assert settings == settings_of(BROKER, dynamic, {key: topic[key] for key in good})


# --- throttles ------------------------------------------------------------------------------------


@pytest.mark.behaviour("B167")
@pytest.mark.parametrize(
    ("text", "included"),
    [
        ("", set()),
        ("*", {(0, 1), (0, 2), (1, 1), (1, 2)}),
        ("0:1", {(0, 1)}),
        ("0:1, 1:2", {(0, 1), (1, 2)}),
        ("0:1,1", set()),  # cannot be
        ("00:01", {(0, 1)}),
    ],
)
def test_throttled_replicas_are_named_one_by_one_or_all_together(text, included):
    pairs = [(partition, broker) for partition in (0, 1) for broker in (1, 2)]

    for key, other in ((LEADER_REPLICAS, "follower"), (FOLLOWER_REPLICAS, "leader")):
        settings = settings_of(BROKER, {key: "*"}, {key: text})
        named = settings.follower_throttled if other == "leader" else settings.leader_throttled
        others = settings.leader_throttled if other == "leader" else settings.follower_throttled

        assert {pair for pair in pairs if named.includes(*pair)} == included
        assert not any(others.includes(*pair) for pair in pairs)


# --- all topics -----------------------------------------------------------------------------------


class Shelf:
    """Settings, and somebody who writes to ZooKeeper."""

    def __init__(self, sim):
        self.sim = sim
        self.reads, self.skipped = 0, []
        sim.trace.listeners.append(self.on_trace)

    async def open(self, **config):
        self.world = self.sim.world("broker-1")
        self.keeper = self.sim.world("somebody").keeper
        await self.world.keeper.start()
        await self.keeper.start()
        await make_paths(self.keeper, PERSISTENT_ROOTS)
        self.settings = Settings(self.world, BrokerConfig(broker_id=1, **config))
        return self

    def on_trace(self, stamp, event):
        match event:
            case ZNodeSkipped(path, reason):
                self.skipped.append((path, reason.split(";")[0]))
            case KeeperOperation("read") if stamp.node == "broker-1":
                self.reads += 1

    async def write(self, topic, config):
        path = ConfigEntityZNode.path(ConfigEntity(ConfigEntityType.TOPICS, topic))
        await self.keeper.create(path, ConfigEntityZNode.encode(config))

    def min_isr(self, topic):
        return self.settings.of(topic).min_insync_replicas


@pytest.fixture
async def shelf(sim):
    return await Shelf(sim).open()


async def test_a_topic_is_not_known_until_it_is_learned(shelf):
    await shelf.write("orders", {"min.insync.replicas": "2"})
    assert shelf.settings.of("orders") is None

    await shelf.settings.learn(["orders"])

    assert shelf.min_isr("orders") == 2
    assert shelf.settings.of("sales") is None


async def test_topics_are_learned_in_one_read_and_only_once(shelf):
    topics = [f"topic-{number}" for number in range(500)]

    await shelf.settings.learn(topics)
    assert shelf.reads == 1
    await shelf.settings.learn(topics[:10])
    assert shelf.reads == 1
    await shelf.settings.learn([*topics, "another"])
    assert shelf.reads == 2


async def test_topics_without_a_configuration_of_their_own_share_their_settings(shelf):
    await shelf.write("empty", {})
    await shelf.write("as by default", {"min.insync.replicas": "1"})
    await shelf.write("own", {"min.insync.replicas": "2"})

    await shelf.settings.learn(["missing", "empty", "as by default", "own"])

    shared = shelf.settings.of("missing")
    assert shelf.settings.of("empty") is shared
    assert shelf.settings.of("as by default") is shared
    assert shelf.settings.of("own") is not shared


async def test_without_an_answer_topics_stay_unknown_and_can_be_learned_later(sim, shelf):
    await shelf.write("orders", {"min.insync.replicas": "2"})
    sim.expire_session("broker-1")
    await sim.settle()

    await shelf.settings.learn(["orders"])
    assert shelf.settings.of("orders") is None

    await shelf.world.keeper.renew()
    await shelf.settings.learn(["orders"])
    assert shelf.min_isr("orders") == 2


async def test_one_topic_without_an_answer_does_not_hinder_the_others(shelf, monkeypatch):
    read = shelf.world.keeper.read

    async def all_but_orders(paths):
        found = zip(paths, await read(paths), strict=True)
        return [KeeperUnreachable() if "orders" in path else znode for path, znode in found]

    monkeypatch.setattr(shelf.world.keeper, "read", all_but_orders)
    await shelf.settings.learn(["orders", "sales"])

    assert shelf.settings.of("orders") is None
    assert shelf.settings.of("sales") is not None


async def test_what_somebody_wrote_by_hand_is_traced_and_the_default_is_gone_by(shelf):
    await shelf.keeper.create("/config/topics/strange", b"strange")
    await shelf.write("odd", {"min.insync.replicas": "all", "retention.ms": "5"})

    await shelf.settings.learn(["strange", "odd"])

    assert shelf.min_isr("strange") == shelf.min_isr("odd") == 1
    assert shelf.settings.of("odd").log.retention_ms == 5
    assert [path for path, _ in shelf.skipped] == ["/config/topics/strange", "/config/topics/odd"]
    assert shelf.skipped[1][1] == "min.insync.replicas is 'all'"


@pytest.mark.behaviour("B183")
async def test_a_changed_topic_is_told_of_if_its_settings_are_others(shelf):
    await shelf.settings.learn(["orders", "sales"])
    change = shelf.settings.topic_changed

    assert change("orders", {"min.insync.replicas": "2"}) == ("orders",)
    assert shelf.min_isr("orders") == 2
    assert shelf.min_isr("sales") == 1
    assert change("orders", {"min.insync.replicas": "2", "preallocate": "true"}) == ()
    assert change("orders", {}) == ("orders",)
    assert shelf.settings.of("orders") is shelf.settings.of("sales")


async def test_a_change_of_a_topic_that_nobody_holds_is_not_kept(shelf):
    assert shelf.settings.topic_changed("orders", {"min.insync.replicas": "2"}) == ()

    assert shelf.settings.of("orders") is None


async def test_a_change_that_comes_while_topics_are_read_is_not_lost(shelf):
    for topic in ("orders", "sales", "stock"):
        await shelf.write(topic, {"min.insync.replicas": "2"})
    learning = asyncio.ensure_future(shelf.settings.learn(["orders", "sales", "stock"]))
    await asyncio.sleep(0)  # the read is on its way

    assert shelf.settings.topic_changed("orders", {"min.insync.replicas": "3"}) == ("orders",)
    shelf.settings.forget("sales")
    await learning

    assert shelf.min_isr("orders") == 3
    assert shelf.settings.of("sales") is None
    assert shelf.min_isr("stock") == 2


@pytest.mark.behaviour("B183")
async def test_a_changed_broker_changes_the_topics_that_go_by_it(shelf):
    await shelf.write("own", {"min.insync.replicas": "3"})
    await shelf.write("half", {"retention.ms": "5"})
    await shelf.settings.learn(["own", "half", "none"])

    assert shelf.settings.broker_changed({"min.insync.replicas": "2"}) == ("half", "none")
    assert [shelf.min_isr(topic) for topic in ("own", "half", "none")] == [3, 2, 2]
    assert shelf.settings.of("half").log.retention_ms == 5
    assert shelf.settings.broker_changed({"min.insync.replicas": "2"}) == ()
    assert shelf.settings.broker_changed({}) == ("half", "none")


async def test_a_topic_learned_after_the_broker_changed_goes_by_the_new_values(shelf):
    shelf.settings.broker_changed({"min.insync.replicas": "2"})

    await shelf.settings.learn(["orders"])

    assert shelf.min_isr("orders") == 2


async def test_a_topic_still_shares_its_settings_after_the_broker_changed(shelf):
    await shelf.settings.learn(["orders", "sales"])

    shelf.settings.broker_changed({"min.insync.replicas": "2"})

    assert shelf.settings.of("orders") is shelf.settings.of("sales")


async def test_a_topic_of_a_name_that_was_forgotten_is_read_anew(shelf):
    await shelf.write("orders", {"min.insync.replicas": "2"})
    await shelf.settings.learn(["orders"])

    shelf.settings.forget("orders")
    shelf.settings.forget("never known")
    assert shelf.settings.of("orders") is None

    await shelf.keeper.delete("/config/topics/orders")
    await shelf.settings.learn(["orders"])
    assert shelf.min_isr("orders") == 1


@pytest.mark.behaviour("B167")
async def test_the_rates_are_the_brokers_and_unlimited_unless_set(shelf):
    settings = shelf.settings
    assert (settings.leader_rate, settings.follower_rate) == (NO_LIMIT, NO_LIMIT)

    settings.broker_changed({LEADER_RATE: "100", FOLLOWER_RATE: "0"})
    assert (settings.leader_rate, settings.follower_rate) == (100, 0)

    settings.broker_changed({LEADER_RATE: "fast"})
    assert (settings.leader_rate, settings.follower_rate) == (NO_LIMIT, NO_LIMIT)
    assert shelf.skipped == [("/config/brokers", f"{LEADER_RATE} is 'fast'")]
