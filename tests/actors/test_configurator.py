"""Configuration told and changed: B183, and the keys there are."""

import pytest

from actors.administration.topic_configs import BROKER_KEYS, TOPIC_KEYS
from actors.broker.administrator import OfficeChanged
from runtime.keeper import Create, Set
from tests.support.desk import Desk
from wire.admin import NewTopic
from wire.configs import (
    AlterConfigOperation,
    ConfigChange,
    ConfigChanges,
    ConfigResource,
    ConfigResourceType,
    ConfigSource,
    IncrementalAlterConfigs,
)
from wire.errors import ErrorCode

SET, DELETE = AlterConfigOperation.SET, AlterConfigOperation.DELETE
APPEND, SUBTRACT = AlterConfigOperation.APPEND, AlterConfigOperation.SUBTRACT
NONE = ErrorCode.NONE
UNCLEAN = "unclean.leader.election.enable"
THROTTLED = "leader.replication.throttled.replicas"
CONFIG = "/config/topics/orders"

ORDERS = ConfigResource(ConfigResourceType.TOPIC, "orders")


def broker(name):
    return ConfigResource(ConfigResourceType.BROKER, name)


@pytest.fixture
async def desk(sim):
    desk = await Desk.open(sim)
    await desk.create(NewTopic(topic="orders"))
    desk.ref.tell(OfficeChanged(is_active=False))  # any broker will do
    return desk


def notifications(desk):
    names = desk.tree.children("/config/changes")
    return [desk.json(f"/config/changes/{name}") for name in names]


# --- changing -------------------------------------------------------------------------------------


@pytest.mark.behaviour("B183")
async def test_a_change_is_written_and_then_notified(desk):
    before = desk.tree.zxid
    result = await desk.alter(ORDERS, ConfigChange("retention.ms", SET, "1000"))

    (name,) = desk.tree.children("/config/changes")
    notification = desk.tree.stat(f"/config/changes/{name}")
    assert result.error_code is NONE
    assert name == "config_change_0000000000"
    assert desk.json(CONFIG) == {"version": 1, "config": {"retention.ms": "1000"}}
    assert notifications(desk) == [{"version": 2, "entity_path": "topics/orders"}]
    assert before < desk.tree.stat(CONFIG).mzxid < notification.czxid


@pytest.mark.behaviour("B183")
@pytest.mark.parametrize(("name", "entity"), [("2", "2"), ("", "<default>"), ("007", "7")])
async def test_a_broker_is_configured_by_its_id_or_all_of_them_by_default(desk, name, entity):
    await desk.alter(broker(name), ConfigChange("leader.replication.throttled.rate", SET, "9"))

    config = {"leader.replication.throttled.rate": "9"}
    assert desk.json(f"/config/brokers/{entity}")["config"] == config
    assert notifications(desk) == [{"version": 2, "entity_path": f"brokers/{entity}"}]


async def test_changes_leave_all_other_keys_as_they_are(desk):
    await desk.world.keeper.set(CONFIG, b'{"version":1,"config":{"of.a.newer.kafka":"x"}}')
    await desk.alter(
        ORDERS, ConfigChange("retention.ms", SET, "1"), ConfigChange("segment.ms", SET, "2")
    )
    await desk.alter(ORDERS, ConfigChange("segment.ms", DELETE))

    assert desk.json(CONFIG)["config"] == {"of.a.newer.kafka": "x", "retention.ms": "1"}


@pytest.mark.parametrize(
    ("changes", "value"),
    [
        ([(SET, "0:1,0:2")], "0:1,0:2"),
        ([(SET, " 0:1 , 0:2 ")], "0:1,0:2"),
        ([(SET, "0:1"), (APPEND, "1:2,0:1")], "0:1,1:2"),
        ([(APPEND, "1:2")], "1:2"),
        ([(SET, "0:1,0:2"), (SUBTRACT, "0:1,5:5")], "0:2"),
        ([(SET, "0:1"), (SUBTRACT, "0:1")], ""),
        ([(SET, "*")], "*"),
        ([(SET, "0:1"), (DELETE, None)], None),
        ([(DELETE, None)], None),
    ],
)
async def test_a_list_is_set_appended_to_subtracted_from_and_deleted(desk, changes, value):
    for operation, given in changes:
        result = await desk.alter(ORDERS, ConfigChange(THROTTLED, operation, given))
        assert result.error_code is NONE

    assert desk.json(CONFIG)["config"].get(THROTTLED) == value


async def test_what_is_appended_to_a_list_that_is_not_set_is_appended_to_its_default(desk):
    await desk.alter(ORDERS, ConfigChange("cleanup.policy", APPEND, "compact"))

    assert desk.json(CONFIG)["config"] == {"cleanup.policy": "delete,compact"}


async def test_truth_is_stored_in_small_letters(desk):
    await desk.alter(ORDERS, ConfigChange(UNCLEAN, SET, " TRUE"))

    assert desk.json(CONFIG)["config"] == {UNCLEAN: "true"}


@pytest.mark.parametrize(
    ("resource", "changes", "code", "sentence"),
    [
        (ORDERS, [("no.such", SET, "1")], ErrorCode.INVALID_CONFIG, "'no.such' is not a key"),
        (ORDERS, [(UNCLEAN, SET, "yes")], ErrorCode.INVALID_CONFIG, "must be one of true, false"),
        (ORDERS, [("retention.ms", SET, "-2")], ErrorCode.INVALID_CONFIG, "from -1 to"),
        (ORDERS, [("min.insync.replicas", SET, "0")], ErrorCode.INVALID_CONFIG, "from 1 to"),
        (ORDERS, [("segment.bytes", SET, "13")], ErrorCode.INVALID_CONFIG, "from 14 to"),
        (ORDERS, [("max.message.bytes", SET, "1e3")], ErrorCode.INVALID_CONFIG, "is '1e3'"),
        (ORDERS, [("flush.messages", SET, "٣")], ErrorCode.INVALID_CONFIG, "is '٣'"),
        (ORDERS, [("min.cleanable.dirty.ratio", SET, "1.1")], ErrorCode.INVALID_CONFIG, "0 to 1"),
        (ORDERS, [("min.cleanable.dirty.ratio", SET, "nan")], ErrorCode.INVALID_CONFIG, "0 to 1"),
        (ORDERS, [("compression.type", SET, "zip")], ErrorCode.INVALID_CONFIG, "gzip"),
        (ORDERS, [("cleanup.policy", SET, "burn")], ErrorCode.INVALID_CONFIG, "compact, delete"),
        (ORDERS, [("cleanup.policy", APPEND, "burn")], ErrorCode.INVALID_CONFIG, "delete,burn"),
        (ORDERS, [(THROTTLED, SET, "0:1,x")], ErrorCode.INVALID_CONFIG, "partition:broker"),
        (ORDERS, [(THROTTLED, SET, "*,0:1")], ErrorCode.INVALID_CONFIG, "partition:broker"),
        (ORDERS, [("message.format.version", SET, "new")], ErrorCode.INVALID_CONFIG, "2.8-IV1"),
        (
            ORDERS,
            [("min.compaction.lag.ms", SET, "9"), ("max.compaction.lag.ms", SET, "8")],
            ErrorCode.INVALID_CONFIG,
            "at most max.compaction.lag.ms, 8",
        ),
        (ORDERS, [("retention.ms", SET, None)], ErrorCode.INVALID_REQUEST, "has no value"),
        (ORDERS, [("retention.ms", APPEND, "1")], ErrorCode.INVALID_REQUEST, "is not a list"),
        (ORDERS, [("retention.ms", SUBTRACT, "1")], ErrorCode.INVALID_REQUEST, "is not a list"),
        (
            ORDERS,
            [("retention.ms", SET, "1"), ("retention.ms", DELETE, None)],
            ErrorCode.INVALID_REQUEST,
            "changed more than once",
        ),
        (
            ConfigResource(ConfigResourceType.TOPIC, "nowhere"),
            [("retention.ms", SET, "1")],
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            "'nowhere' does not exist",
        ),
        (
            ConfigResource(ConfigResourceType.TOPIC, "../../brokers"),
            [("retention.ms", SET, "1")],
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            "does not exist",
        ),
        (broker("one"), [(UNCLEAN, SET, "true")], ErrorCode.INVALID_REQUEST, "not a broker's id"),
        (broker("9" * 5_000), [(UNCLEAN, SET, "true")], ErrorCode.INVALID_REQUEST, "broker's id"),
        (broker("-1"), [(UNCLEAN, SET, "true")], ErrorCode.INVALID_REQUEST, "not a broker's id"),
        (broker("1"), [("num.partitions", SET, "3")], ErrorCode.INVALID_CONFIG, "num.partitions"),
        (
            broker("1"),
            [("follower.replication.throttled.rate", SET, "-1")],
            ErrorCode.INVALID_CONFIG,
            "from 0 to",
        ),
    ],
)  # fmt: skip
async def test_a_change_that_cannot_be_is_refused_and_nothing_is_written(
    desk, resource, changes, code, sentence
):
    before = desk.tree.zxid

    result = await desk.alter(resource, *(ConfigChange(*each) for each in changes))

    assert result.error_code is code
    assert sentence in result.error_message
    assert desk.tree.zxid == before


async def test_the_changes_to_one_resource_are_made_together_or_not_at_all(desk):
    good, bad = ConfigChange("retention.ms", SET, "1"), ConfigChange("segment.ms", SET, "x")
    request = IncrementalAlterConfigs(
        resources=(ConfigChanges(ORDERS, (good, bad)), ConfigChanges(broker("1"), ()))
    )

    first, second = (await desk.ask(request)).resources

    assert (first.error_code, second.error_code) == (ErrorCode.INVALID_CONFIG, NONE)
    assert desk.json(CONFIG)["config"] == {}


async def test_a_resource_named_twice_is_refused(desk):
    changes = ConfigChanges(ORDERS, (ConfigChange("retention.ms", SET, "1"),))

    (result,) = (await desk.ask(IncrementalAlterConfigs(resources=(changes, changes)))).resources

    assert result.error_code is ErrorCode.INVALID_REQUEST
    assert desk.json(CONFIG)["config"] == {}


async def test_what_is_only_validated_is_not_written(desk):
    before = desk.tree.zxid

    good = await desk.alter(ORDERS, ConfigChange("retention.ms", SET, "1"), validate_only=True)
    bad = await desk.alter(ORDERS, ConfigChange("retention.ms", SET, "x"), validate_only=True)

    assert (good.error_code, bad.error_code) == (NONE, ErrorCode.INVALID_CONFIG)
    assert desk.tree.zxid == before


@pytest.mark.parametrize("resource", [ORDERS, broker("5")])
async def test_what_another_broker_changes_meanwhile_is_not_lost(desk, resource):
    data = b'{"version":1,"config":{"leader.replication.throttled.rate":"7"}}'
    if resource is ORDERS:
        path, faster = CONFIG, Set(CONFIG, data)
    else:
        path = "/config/brokers/5"
        faster = Create(path, data)
    desk.meanwhile(path, faster)

    result = await desk.alter(resource, ConfigChange(UNCLEAN, SET, "true"))

    assert result.error_code is NONE
    assert desk.json(path)["config"] == {"leader.replication.throttled.rate": "7", UNCLEAN: "true"}


async def test_a_change_whose_reply_is_lost_is_made_and_notified(desk):
    desk.sim.lose_reply("broker-1")

    result = await desk.alter(ORDERS, ConfigChange("retention.ms", SET, "1"))

    assert result.error_code is NONE
    assert desk.json(CONFIG)["config"] == {"retention.ms": "1"}
    assert len(notifications(desk)) == 1


@pytest.mark.parametrize("after_ms", [0, 0.5, 1, 1.5, 2])
async def test_a_session_lost_in_the_middle_is_answered_once(desk, after_ms):
    changes = ConfigChanges(ORDERS, (ConfigChange("retention.ms", SET, "1"),))
    answers = desk.send(IncrementalAlterConfigs(resources=(changes,)))
    await desk.sim.sleep(after_ms)
    desk.sim.expire_session("broker-1")
    await desk.sim.settle()

    (answer,) = answers
    assert answer.resources[0].error_code in {NONE, ErrorCode.NOT_CONTROLLER}
    assert desk.system.is_up


# --- telling --------------------------------------------------------------------------------------


def shown(description):
    return {each.name: (each.value, each.source) for each in description.entries}


async def test_a_topic_shows_what_was_set_for_it_and_what_the_broker_has_instead(desk):
    await desk.alter(ORDERS, ConfigChange("retention.ms", SET, "5"))
    await desk.alter(broker("1"), ConfigChange("log.segment.bytes", SET, "6000"))
    await desk.alter(broker(""), ConfigChange("log.segment.bytes", SET, "7000"))
    await desk.alter(broker(""), ConfigChange("log.flush.interval.ms", SET, "8"))

    description = await desk.describe(ORDERS)

    values = shown(description)
    assert values.keys() == TOPIC_KEYS.keys()
    assert values["retention.ms"] == ("5", ConfigSource.TOPIC_CONFIG)
    assert values["segment.bytes"] == ("6000", ConfigSource.DYNAMIC_BROKER_CONFIG)
    assert values["flush.ms"] == ("8", ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG)
    assert values["cleanup.policy"] == ("delete", ConfigSource.DEFAULT_CONFIG)
    assert not any(each.is_read_only for each in description.entries)


async def test_a_broker_shows_what_it_was_started_with_by_kafkas_keys(desk):
    desk.start(num_partitions=5, unclean_leader_election_enable=True)
    await desk.alter(broker("1"), ConfigChange("leader.replication.throttled.rate", SET, "9"))

    description = await desk.describe(broker("1"))

    values = shown(description)
    read_only = {each.name for each in description.entries if each.is_read_only}
    assert values["num.partitions"] == ("5", ConfigSource.STATIC_BROKER_CONFIG)
    assert values["broker.id"] == ("1", ConfigSource.STATIC_BROKER_CONFIG)
    assert values["default.replication.factor"] == ("1", ConfigSource.DEFAULT_CONFIG)
    assert values[UNCLEAN] == ("true", ConfigSource.STATIC_BROKER_CONFIG)
    dynamic = ("9", ConfigSource.DYNAMIC_BROKER_CONFIG)
    assert values["leader.replication.throttled.rate"] == dynamic
    assert "broker.rack" not in values
    assert "num.partitions" in read_only
    assert not read_only & BROKER_KEYS.keys()


async def test_a_topic_may_elect_uncleanly_if_its_broker_was_started_so(desk):
    desk.start(unclean_leader_election_enable=True)

    description = await desk.describe(ORDERS, UNCLEAN)

    assert shown(description) == {UNCLEAN: ("true", ConfigSource.STATIC_BROKER_CONFIG)}


async def test_every_brokers_default_shows_only_what_was_set(desk):
    await desk.alter(broker(""), ConfigChange(UNCLEAN, SET, "true"))

    assert shown(await desk.describe(broker(""))) == {
        UNCLEAN: ("true", ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG)
    }


@pytest.mark.parametrize(
    ("resource", "code"),
    [
        (ConfigResource(ConfigResourceType.TOPIC, "no"), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (ConfigResource(ConfigResourceType.TOPIC, ""), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (broker("2"), ErrorCode.INVALID_REQUEST),
        (broker("x"), ErrorCode.INVALID_REQUEST),
    ],
)
async def test_what_cannot_be_told_is_refused(desk, resource, code):
    description = await desk.describe(resource)

    assert description.error_code is code
    assert description.entries == ()


async def test_a_malformed_configuration_is_told_and_not_overwritten(desk):
    await desk.world.keeper.set(CONFIG, b"strange")

    description = await desk.describe(ORDERS)
    result = await desk.alter(ORDERS, ConfigChange("retention.ms", SET, "1"))

    assert description.error_code is result.error_code is ErrorCode.UNKNOWN_SERVER_ERROR
    assert f"{CONFIG} is malformed" in description.error_message
    assert desk.tree.get(CONFIG).data == b"strange"


@pytest.mark.parametrize("keys", [TOPIC_KEYS, BROKER_KEYS], ids=["topic", "broker"])
def test_every_default_is_a_value_that_its_key_may_hold(keys):
    assert [name for name, key in keys.items() if key.check(key.default) != key.default] == []
