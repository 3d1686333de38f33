"""Requests about topics, one broker and ZooKeeper: B083, B089, B090."""

import pytest

from actors.broker.administrator import OfficeChanged
from actors.broker.metadata import MetadataCache
from runtime.keeper import Create, Delete, Set
from tests.support.desk import Desk
from wire.admin import (
    CreatePartitions,
    CreateTopics,
    DeleteTopics,
    NewPartitions,
    NewTopic,
    PartitionAssignment,
)
from wire.errors import ErrorCode
from wire.trace import ZNodeSkipped
from wire.znodes import BrokerIdZNode

NONE = ErrorCode.NONE


@pytest.fixture
async def desk(sim):
    return await Desk.open(sim)


def topic(name="orders", partitions=-1, replicas=-1, assignments=(), configs=()):
    return NewTopic(
        topic=name,
        num_partitions=partitions,
        replication_factor=replicas,
        assignments=tuple(PartitionAssignment(*each) for each in assignments),
        configs=tuple(configs),
    )


def codes(results):
    return [each.error_code for each in results]


# --- CreateTopics ---------------------------------------------------------------------------------


@pytest.mark.behaviour("B083")
async def test_a_topic_is_written_in_kafkas_form(desk):
    (created,) = await desk.create(topic(partitions=2, replicas=2, configs=[("retention.ms", "5")]))

    znode = desk.json("/brokers/topics/orders")
    assert created.error_code is NONE
    assert (created.num_partitions, created.replication_factor) == (2, 2)
    assert (znode["version"], znode["topic_id"]) == (3, created.topic_id)
    assert sorted(znode["partitions"]) == ["0", "1"]
    assert all(len(set(each)) == 2 for each in znode["partitions"].values())
    assert desk.json("/config/topics/orders") == {"version": 1, "config": {"retention.ms": "5"}}


@pytest.mark.behaviour("B083")
async def test_the_configuration_is_written_before_the_topic_even_if_it_is_empty(desk):
    await desk.create(topic())

    config, assignment = (
        desk.tree.stat(path) for path in ("/config/topics/orders", "/brokers/topics/orders")
    )
    assert config.czxid < assignment.czxid
    assert desk.json("/config/topics/orders")["config"] == {}


async def test_what_an_earlier_topic_of_the_name_left_configured_is_replaced(desk):
    await desk.world.keeper.create("/config/topics/orders", b"left behind")

    (created,) = await desk.create(topic())

    assert created.error_code is NONE
    assert desk.json("/config/topics/orders")["config"] == {}


async def test_counts_that_are_not_given_are_the_brokers_defaults(desk):
    desk.start(num_partitions=4, default_replication_factor=3)

    (created,) = await desk.create(topic())

    assert (created.num_partitions, created.replication_factor) == (4, 3)


@pytest.mark.behaviour("B083")
async def test_replicas_chosen_by_hand_are_taken_as_they_are(desk):
    await desk.create(topic(assignments=[(1, (3, 1)), (0, (2, 3))]))

    assert desk.json("/brokers/topics/orders")["partitions"] == {"0": [2, 3], "1": [3, 1]}


@pytest.mark.behaviour("B083")
@pytest.mark.parametrize(
    ("new", "code", "sentence"),
    [
        (topic("a b"), ErrorCode.INVALID_TOPIC_EXCEPTION, "'a b' has ' ' at position 1"),
        (topic(""), ErrorCode.INVALID_TOPIC_EXCEPTION, "empty"),
        (topic("there"), ErrorCode.TOPIC_ALREADY_EXISTS, "'there' exists already"),
        (topic("going"), ErrorCode.TOPIC_ALREADY_EXISTS, "'going' exists and is being deleted"),
        (topic("a_b"), ErrorCode.INVALID_TOPIC_EXCEPTION, "'a_b' collides with 'a.b'"),
        (topic(partitions=0), ErrorCode.INVALID_PARTITIONS, "is 0; it must be 1 or more"),
        (topic(partitions=2**31 - 1), ErrorCode.INVALID_PARTITIONS, "at most 100000"),
        (
            topic(partitions=99_999, replicas=3),
            ErrorCode.INVALID_PARTITIONS,
            "ZooKeeper takes at most",
        ),
        (topic(replicas=4), ErrorCode.INVALID_REPLICATION_FACTOR, "live brokers, 3"),
        (topic(replicas=0), ErrorCode.INVALID_REPLICATION_FACTOR, "is 0"),
        (topic(partitions=1, assignments=[(0, (1,))]), ErrorCode.INVALID_REQUEST, "both counts"),
        (topic(replicas=1, assignments=[(0, (1,))]), ErrorCode.INVALID_REQUEST, "both counts"),
        (
            topic(assignments=[(0, (1, 1))]),
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "names broker 1 more than once",
        ),
        (
            topic(assignments=[(0, (9,))]),
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "names broker 9, which is not alive",
        ),
        (
            topic(assignments=[(0, (1, 2)), (1, (1,))]),
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "Partition 1 has the replication factor 1",
        ),
        (
            topic(assignments=[(0, (1,)), (2, (1,))]),
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "Partition 2 is assigned where partition 1 is due",
        ),
        (
            topic(assignments=[(0, (1,)), (0, (2,))]),
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "Partition 0 is assigned 2 times",
        ),
        (topic(configs=[("no.such", "1")]), ErrorCode.INVALID_CONFIG, "'no.such' is not a key"),
        (topic(configs=[("retention.ms", "x")]), ErrorCode.INVALID_CONFIG, "retention.ms is 'x'"),
        (topic(configs=[("retention.ms", None)]), ErrorCode.INVALID_CONFIG, "has no value"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
async def test_a_topic_that_cannot_be_is_refused_with_a_sentence(desk, new, code, sentence):
    await desk.create(topic("there"), topic("going"), topic("a.b"))
    await desk.world.keeper.create("/admin/delete_topics/going")
    before = desk.tree.zxid

    (result,) = await desk.create(new)

    assert result.error_code is code
    assert sentence in result.error_message
    assert desk.tree.zxid == before


@pytest.mark.behaviour("B083")
async def test_one_bad_topic_does_not_hinder_the_others_of_its_request(desk):
    results = await desk.create(topic("good"), topic("a b"), topic("a.b"), topic("a_b"))

    assert codes(results) == [
        NONE,
        ErrorCode.INVALID_TOPIC_EXCEPTION,
        NONE,
        ErrorCode.INVALID_TOPIC_EXCEPTION,
    ]
    assert desk.tree.children("/brokers/topics") == ("a.b", "good")


async def test_a_topic_named_twice_in_a_request_is_refused_once(desk):
    results = await desk.create(topic("twice"), topic("once"), topic("twice", partitions=2))

    assert [(each.topic, each.error_code) for each in results] == [
        ("twice", ErrorCode.INVALID_REQUEST),
        ("once", NONE),
    ]


async def test_what_is_only_validated_is_not_written(desk):
    before = desk.tree.zxid

    good, bad = await desk.create(
        topic("good", partitions=2, replicas=3), topic("bad", replicas=4), validate_only=True
    )

    assert (good.error_code, good.num_partitions, good.replication_factor) == (NONE, 2, 3)
    assert good.topic_id is None
    assert bad.error_code is ErrorCode.INVALID_REPLICATION_FACTOR
    assert desk.tree.zxid == before
    assert desk.cache.waits == []


async def test_a_malformed_broker_is_passed_over(desk):
    await desk.world.keeper.create("/brokers/ids/4", b"strange")
    await desk.world.keeper.create("/brokers/ids/five", b"{}")
    skipped = []
    desk.sim.trace.listeners.append(
        lambda _, event: isinstance(event, ZNodeSkipped) and skipped.append(event.path)
    )

    (result,) = await desk.create(topic(replicas=4))

    assert result.error_code is ErrorCode.INVALID_REPLICATION_FACTOR
    assert skipped == ["/brokers/ids/five", "/brokers/ids/4"]


async def test_replicas_stand_in_different_racks(desk):
    for broker, rack in ((1, "a"), (2, "a"), (3, "b")):
        await desk.world.keeper.delete(BrokerIdZNode.path(broker))
        await desk.register(broker, rack)

    await desk.create(topic(partitions=6, replicas=2))

    assert all(3 in each for each in desk.json("/brokers/topics/orders")["partitions"].values())


async def test_a_topic_whose_reply_is_lost_is_found_to_be_ours(desk):
    desk.sim.lose_reply("broker-1")  # of the configuration
    (first,) = await desk.create(topic("first"))
    desk.cache.shows = None
    answers = desk.send(CreateTopics(topics=(topic("second"),), timeout_ms=1_000))
    await desk.sim.until(lambda: desk.exists("/config/topics/second"))
    desk.sim.lose_reply("broker-1")  # of the topic
    await desk.sim.until(lambda: len(desk.cache.waits) == 2)
    desk.cache.waits[-1].done(True)
    await desk.sim.settle()

    assert first.error_code is NONE
    assert codes(answers[0].topics) == [NONE]
    assert desk.json("/brokers/topics/second")["topic_id"] == answers[0].topics[0].topic_id


async def test_a_topic_that_somebody_else_makes_meanwhile_exists_already(desk):
    path = "/brokers/topics/orders"
    desk.meanwhile(path, Create(path, b"theirs"))

    (result,) = await desk.create(topic())

    assert result.error_code is ErrorCode.TOPIC_ALREADY_EXISTS
    assert desk.tree.get(path).data == b"theirs"


# --- waiting --------------------------------------------------------------------------------------


async def test_the_answer_waits_until_every_topic_is_seen_or_its_time_is_up(desk):
    desk.cache.shows = None
    answers = desk.send(CreateTopics(topics=(topic("a"), topic("b"), topic("c d")), timeout_ms=700))
    await desk.sim.settle()
    first, second = desk.cache.waits
    assert answers == []
    assert {first.timeout_ms, second.timeout_ms} == {700}
    assert not first.holds(MetadataCache("INTERNAL"))

    first.done(False)
    await desk.sim.settle()
    assert answers == []
    second.done(True)
    await desk.sim.settle()

    (answer,) = answers
    assert codes(answer.topics) == [
        ErrorCode.REQUEST_TIMED_OUT,
        NONE,
        ErrorCode.INVALID_TOPIC_EXCEPTION,
    ]


@pytest.mark.parametrize("timeout_ms", [0, -1])
async def test_without_time_what_is_made_is_answered_as_timed_out(desk, timeout_ms):
    results = await desk.create(topic("made"), topic("a b"), timeout_ms=timeout_ms)

    assert codes(results) == [ErrorCode.REQUEST_TIMED_OUT, ErrorCode.INVALID_TOPIC_EXCEPTION]
    assert desk.exists("/brokers/topics/made")
    assert desk.cache.waits == []


async def test_an_empty_request_has_an_empty_answer(desk):
    assert await desk.create() == ()
    assert await desk.delete() == ()


@pytest.mark.parametrize(
    "request_of_topics",
    [
        CreateTopics(topics=(topic(),), timeout_ms=1),
        CreatePartitions(topics=(NewPartitions(topic="orders", count=2),), timeout_ms=1),
        DeleteTopics(topics=("orders",), timeout_ms=1),
    ],
    ids=lambda request: type(request).__name__,
)
async def test_only_the_controllers_broker_changes_topics(desk, request_of_topics):
    desk.ref.tell(OfficeChanged(is_active=False))
    before = desk.tree.zxid

    answer = await desk.ask(request_of_topics)

    assert codes(answer.topics) == [ErrorCode.NOT_CONTROLLER]
    assert desk.tree.zxid == before


@pytest.mark.parametrize("after_ms", [0, 0.3, 0.6, 1, 1.5, 2, 3, 4])
async def test_a_session_lost_in_the_middle_is_answered_once(desk, after_ms):
    answers = desk.send(CreateTopics(topics=(topic(),), timeout_ms=1_000))
    await desk.sim.sleep(after_ms)
    desk.sim.expire_session("broker-1")
    await desk.sim.settle()

    (answer,) = answers
    assert codes(answer.topics)[0] in {NONE, ErrorCode.NOT_CONTROLLER}
    assert desk.system.is_up


# --- CreatePartitions -----------------------------------------------------------------------------


@pytest.mark.behaviour("B089")
async def test_a_topic_grows_and_keeps_what_it_has(desk):
    await desk.create(topic(assignments=[(0, (2, 3)), (1, (3, 1))]))
    before = desk.json("/brokers/topics/orders")

    result = await desk.grow("orders", 5)

    after = desk.json("/brokers/topics/orders")
    assert result.error_code is NONE
    assert after["topic_id"] == before["topic_id"]
    # By hand: start and shift are 1, where broker 2 is; the shift is 2 from partition 3 on.
    assert after["partitions"] == {
        **before["partitions"],
        "2": [1, 3],
        "3": [2, 3],
        "4": [3, 1],
    }


@pytest.mark.behaviour("B089")
async def test_a_topic_grows_by_replicas_chosen_by_hand(desk):
    await desk.create(topic(assignments=[(0, (2, 3))]))

    await desk.grow("orders", 3, ((1, 2), (3, 1)))

    partitions = desk.json("/brokers/topics/orders")["partitions"]
    assert partitions == {"0": [2, 3], "1": [1, 2], "2": [3, 1]}


@pytest.mark.behaviour("B089")
@pytest.mark.parametrize(
    ("name", "count", "assignments", "code", "sentence"),
    [
        ("nowhere", 3, None, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "'nowhere' does not exist"),
        ("orders", 2, None, ErrorCode.INVALID_PARTITIONS, "can only grow"),
        ("orders", 1, None, ErrorCode.INVALID_PARTITIONS, "can only grow"),
        ("orders", 2, (), ErrorCode.INVALID_PARTITIONS, "can only grow"),
        ("orders", 2**31 - 1, None, ErrorCode.INVALID_PARTITIONS, "at most 100000"),
        ("going", 3, None, ErrorCode.INVALID_TOPIC_EXCEPTION, "'going' is being deleted"),
        ("moving", 3, None, ErrorCode.REASSIGNMENT_IN_PROGRESS, "'moving' are on the move"),
        (
            "strange",
            3,
            None,
            ErrorCode.UNKNOWN_SERVER_ERROR,
            "/brokers/topics/strange is malformed",
        ),
        ("gap", 3, ((1,),), ErrorCode.INVALID_PARTITIONS, "not numbered from 0"),
        ("orders", 3, (), ErrorCode.INVALID_REPLICA_ASSIGNMENT, "gets 1 partitions more, and 0"),
        ("orders", 3, ((1,),), ErrorCode.INVALID_REPLICA_ASSIGNMENT, "replication factor 1"),
        ("orders", 3, ((1, 9),), ErrorCode.INVALID_REPLICA_ASSIGNMENT, "broker 9"),
        ("orders", 3, ((1, 1),), ErrorCode.INVALID_REPLICA_ASSIGNMENT, "more than once"),
    ],
)
async def test_growth_that_cannot_be_is_refused(desk, name, count, assignments, code, sentence):
    await desk.create(topic(partitions=2, replicas=2), topic("going", partitions=1))
    keeper = desk.world.keeper
    await keeper.create("/admin/delete_topics/going")
    await keeper.create("/brokers/topics/strange", b"{")
    await keeper.create("/brokers/topics/gap", b'{"version":1,"partitions":{"0":[1],"2":[1]}}')
    await keeper.create(
        "/brokers/topics/moving",
        b'{"version":2,"partitions":{"0":[1,2]},"adding_replicas":{"0":[2]},"removing_replicas":{}}',
    )
    before = desk.tree.zxid

    result = await desk.grow(name, count, assignments)

    assert result.error_code is code
    assert sentence in result.error_message
    assert desk.tree.zxid == before


async def test_growth_that_is_only_validated_is_not_written(desk):
    await desk.create(topic())
    before = desk.tree.zxid

    assert (await desk.grow("orders", 2, validate_only=True)).error_code is NONE
    assert desk.tree.zxid == before


async def test_growth_is_thought_through_again_when_the_topic_has_changed_meanwhile(desk):
    await desk.create(topic(assignments=[(0, (1,))]))
    path, data = "/brokers/topics/orders", b'{"version":1,"partitions":{"0":[1],"1":[1]}}'
    desk.meanwhile(path, Set(path, data))

    result = await desk.grow("orders", 3)

    assert result.error_code is NONE
    assert desk.json(path)["partitions"] == {"0": [1], "1": [1], "2": [3]}


async def test_growth_gives_up_when_the_topic_changes_all_the_time(desk):
    await desk.create(topic(assignments=[(0, (1,))]))
    path, data = "/brokers/topics/orders", b'{"version":1,"partitions":{"0":[1]}}'
    desk.meanwhile(path, Set(path, data), times=9)

    result = await desk.grow("orders", 3)

    assert result.error_code is ErrorCode.UNKNOWN_SERVER_ERROR
    assert "changed by others all the time" in result.error_message
    assert desk.tree.get(path).data == data


async def test_a_topic_that_goes_while_it_grows_is_unknown(desk):
    await desk.create(topic())
    desk.meanwhile("/brokers/topics/orders", Delete("/brokers/topics/orders"))

    result = await desk.grow("orders", 3)

    assert result.error_code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


async def test_growth_whose_reply_is_lost_succeeds(desk):
    await desk.create(topic())
    desk.sim.lose_reply("broker-1")

    assert (await desk.grow("orders", 3)).error_code is NONE
    assert len(desk.json("/brokers/topics/orders")["partitions"]) == 3


# --- DeleteTopics ---------------------------------------------------------------------------------


@pytest.mark.behaviour("B090")
async def test_a_deletion_is_a_child_without_data_and_the_answer_waits_for_its_end(desk):
    await desk.create(topic())
    desk.cache.shows = None

    answers = desk.send(DeleteTopics(topics=("orders", "nowhere"), timeout_ms=900))
    await desk.sim.settle()

    assert desk.tree.get("/admin/delete_topics/orders").data == b""
    assert answers == []
    assert desk.cache.waits[-1].holds(MetadataCache("INTERNAL"))
    desk.cache.waits[-1].done(True)
    await desk.sim.settle()
    assert codes(answers[0].topics) == [NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    assert "'nowhere' does not exist" in answers[0].topics[1].error_message


@pytest.mark.behaviour("B090")
async def test_a_topic_that_is_being_deleted_may_be_deleted(desk):
    await desk.create(topic())
    desk.cache.shows = False
    await desk.delete("orders")

    assert codes(await desk.delete("orders")) == [ErrorCode.REQUEST_TIMED_OUT]
    assert codes(await desk.delete("orders", timeout_ms=0)) == [ErrorCode.REQUEST_TIMED_OUT]


@pytest.mark.behaviour("B090")
async def test_nothing_is_deleted_where_deletion_is_disabled(desk):
    desk.start(delete_topic_enable=False)
    await desk.create(topic())

    (result,) = await desk.delete("orders")

    assert result.error_code is ErrorCode.TOPIC_DELETION_DISABLED
    assert "delete.topic.enable" in result.error_message
    assert desk.tree.children("/admin/delete_topics") == ()
