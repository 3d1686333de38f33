"""A broker's settings: Kafka's names, Kafka's defaults, and no broker with impossible ones."""

from dataclasses import FrozenInstanceError, fields

import pytest

from actors.client.config import ConsumerConfig, ProducerConfig
from actors.config import BadConfig, BrokerConfig, options_of

LEAST = {
    "broker_id": 0,
    "zookeeper_session_timeout_ms": 1,
    "num_partitions": 1,
    "default_replication_factor": 1,
    "leader_imbalance_per_broker_percentage": 0,
    "leader_imbalance_check_interval_seconds": 1,
    "controlled_shutdown_max_retries": 0,
    "controlled_shutdown_retry_backoff_ms": 0,
    "controller_socket_timeout_ms": 1,
    "num_replica_fetchers": 1,
    "replica_fetch_wait_max_ms": 1,
    "replica_fetch_min_bytes": 0,
    "replica_fetch_max_bytes": 1,
    "replica_fetch_response_max_bytes": 1,
    "replica_fetch_backoff_ms": 1,
    "replica_socket_timeout_ms": 1,
    "replica_lag_time_max_ms": 2,
    "replica_high_watermark_checkpoint_interval_ms": 1,
    "min_insync_replicas": 1,
    "fetch_max_bytes": 1_024,
    "log_segment_bytes": 14,
    "log_roll_ms": 1,
    "log_roll_jitter_ms": 0,
    "log_index_size_max_bytes": 4,
    "log_index_interval_bytes": 0,
    "log_retention_ms": -1,
    "log_retention_bytes": -1,
    "log_retention_check_interval_ms": 1,
    "log_flush_interval_messages": 1,
    "log_flush_interval_ms": 0,
    "log_flush_offset_checkpoint_interval_ms": 1,
    "log_flush_start_offset_checkpoint_interval_ms": 1,
    "log_cleaner_backoff_ms": 1,
    "log_cleaner_min_cleanable_ratio": 0,
    "log_cleaner_delete_retention_ms": 0,
    "log_segment_delete_delay_ms": 0,
    "message_max_bytes": 0,
    "transaction_state_log_num_partitions": 1,
    "transaction_state_log_replication_factor": 1,
    "transaction_state_log_min_isr": 1,
    "transaction_state_log_segment_bytes": 14,
    "transaction_max_timeout_ms": 1,
    "transactional_id_expiration_ms": 1,
    "transaction_abort_timed_out_transaction_cleanup_interval_ms": 1,
    "transaction_remove_expired_transaction_cleanup_interval_ms": 1,
    "producer_id_expiration_ms": 1,
    "producer_id_expiration_check_interval_ms": 1,
    "offsets_topic_num_partitions": 1,
    "offsets_topic_replication_factor": 1,
    "offsets_topic_segment_bytes": 14,
    "offsets_commit_timeout_ms": 1,
    "offset_metadata_max_bytes": 0,
    "offsets_retention_minutes": 1,
    "offsets_retention_check_interval_ms": 1,
    "offsets_load_buffer_size": 1,
    "group_min_session_timeout_ms": 1,
    "group_max_session_timeout_ms": 1,
    "group_initial_rebalance_delay_ms": 0,
    "group_max_size": 1,
}
MAX_INT32 = 2_147_483_647
MOST = {
    "min_insync_replicas": MAX_INT32,
    "log_segment_bytes": MAX_INT32,
    "log_index_size_max_bytes": MAX_INT32,
    "log_index_interval_bytes": MAX_INT32,
    "log_cleaner_min_cleanable_ratio": 1,
    "message_max_bytes": MAX_INT32,
    "offsets_topic_segment_bytes": MAX_INT32,
    "group_max_session_timeout_ms": MAX_INT32,
    "group_initial_rebalance_delay_ms": MAX_INT32,
    "group_max_size": MAX_INT32,
}
# Few values rather than a least one.
CHOSEN = {"offsets_commit_required_acks": (-1, 0, 1)}
FOREVER = 9_223_372_036_854_775_807


def test_the_defaults_are_kafkas_but_for_two_times_and_a_key_of_our_own():
    config = BrokerConfig(broker_id=1)

    assert {each.name: getattr(config, each.name) for each in fields(config)} == {
        "broker_id": 1,
        "broker_rack": None,
        "zookeeper_session_timeout_ms": 6_000,  # Kafka: 18,000
        "num_partitions": 1,
        "default_replication_factor": 1,
        "delete_topic_enable": True,
        "unclean_leader_election_enable": False,
        "auto_leader_rebalance_enable": True,
        "leader_imbalance_per_broker_percentage": 10,
        "leader_imbalance_check_interval_seconds": 300,
        "controlled_shutdown_enable": True,
        "controlled_shutdown_max_retries": 3,
        "controlled_shutdown_retry_backoff_ms": 5_000,
        "controller_socket_timeout_ms": 30_000,
        "auto_create_topics_enable": True,
        "num_replica_fetchers": 1,
        "replica_fetch_wait_max_ms": 500,
        "replica_fetch_min_bytes": 1,
        "replica_fetch_max_bytes": 1_048_576,
        "replica_fetch_response_max_bytes": 10_485_760,
        "replica_fetch_backoff_ms": 1_000,
        "replica_socket_timeout_ms": 30_000,
        "replica_lag_time_max_ms": 30_000,
        "replica_high_watermark_checkpoint_interval_ms": 5_000,
        "min_insync_replicas": 1,
        "fetch_max_bytes": 57_671_680,
        "replication_generation": "kip-320",  # not in Kafka, whose version decides
        "log_segment_bytes": 1_073_741_824,
        "log_roll_ms": 604_800_000,  # log.roll.hours is 168
        "log_roll_jitter_ms": 0,
        "log_index_size_max_bytes": 10_485_760,
        "log_index_interval_bytes": 4_096,
        "log_retention_ms": 604_800_000,  # log.retention.hours is 168
        "log_retention_bytes": -1,
        "log_retention_check_interval_ms": 300_000,
        "log_flush_interval_messages": FOREVER,
        "log_flush_interval_ms": FOREVER,  # log.flush.scheduler.interval.ms is
        "log_flush_offset_checkpoint_interval_ms": 60_000,
        "log_flush_start_offset_checkpoint_interval_ms": 60_000,
        "log_cleanup_policy": "delete",
        "log_cleaner_enable": True,
        "log_cleaner_backoff_ms": 15_000,
        "log_cleaner_min_cleanable_ratio": 0.5,
        "log_cleaner_delete_retention_ms": 86_400_000,
        "log_segment_delete_delay_ms": 60_000,
        "log_message_timestamp_type": "CreateTime",
        "message_max_bytes": 1_048_588,
        "transaction_state_log_num_partitions": 50,
        "transaction_state_log_replication_factor": 3,
        "transaction_state_log_min_isr": 2,
        "transaction_state_log_segment_bytes": 104_857_600,
        "transaction_max_timeout_ms": 900_000,
        "transactional_id_expiration_ms": 604_800_000,
        "transaction_abort_timed_out_transaction_cleanup_interval_ms": 10_000,
        "transaction_remove_expired_transaction_cleanup_interval_ms": 3_600_000,
        "producer_id_expiration_ms": 86_400_000,
        "producer_id_expiration_check_interval_ms": 600_000,
        "offsets_topic_num_partitions": 50,
        "offsets_topic_replication_factor": 3,
        "offsets_topic_segment_bytes": 104_857_600,
        "offsets_commit_required_acks": -1,
        "offsets_commit_timeout_ms": 5_000,
        "offset_metadata_max_bytes": 4_096,
        "offsets_retention_minutes": 10_080,
        "offsets_retention_check_interval_ms": 600_000,
        "offsets_load_buffer_size": 5_242_880,
        "group_min_session_timeout_ms": 6_000,
        "group_max_session_timeout_ms": 1_800_000,
        "group_initial_rebalance_delay_ms": 0,  # Kafka: 3,000
        "group_max_size": 2_147_483_647,
    }


# With the shortest wait, the times that it is compared with can be their least.
SHORT = {"broker_id": 1, "replica_fetch_wait_max_ms": 1, "group_min_session_timeout_ms": 1}


@pytest.mark.parametrize(("key", "least"), LEAST.items())
def test_a_value_below_the_least_possible_is_refused_by_its_kafka_name(key: str, least: int):
    values = SHORT | {key: least}
    assert getattr(BrokerConfig(**values), key) == least

    with pytest.raises(BadConfig) as refused:
        BrokerConfig(**values | {key: least - 1})

    name = key.replace("_", ".")
    assert str(refused.value) == f"{name} is {least - 1}; it must be {least} or more"


def test_every_number_has_a_least_value():
    numbers = {each.name for each in fields(BrokerConfig) if each.type in {int, float}}

    assert numbers == LEAST.keys() | CHOSEN.keys()


@pytest.mark.parametrize("acks", [-1, 0, 1])
def test_offsets_are_committed_with_the_acks_of_a_producer(acks: int):
    config = BrokerConfig(broker_id=1, offsets_commit_required_acks=acks)

    assert config.offsets_commit_required_acks == acks


@pytest.mark.parametrize("acks", [-2, 2])
def test_other_acks_for_offsets_are_refused(acks: int):
    with pytest.raises(
        BadConfig, match=rf"^offsets\.commit\.required\.acks is {acks}; .* -1, 0 or"
    ):
        BrokerConfig(broker_id=1, offsets_commit_required_acks=acks)


@pytest.mark.parametrize("longest", ["replica_lag_time_max_ms", "replica_socket_timeout_ms"])
def test_a_follower_waits_no_longer_than_others_wait_for_it(longest: str):
    BrokerConfig(broker_id=1, replica_fetch_wait_max_ms=400, **{longest: 400})

    with pytest.raises(BadConfig) as refused:
        BrokerConfig(broker_id=1, replica_fetch_wait_max_ms=401, **{longest: 400})

    assert str(refused.value).startswith(
        f"replica.fetch.wait.max.ms is 401; it must be at most {longest.replace('_', '.')}, 400, or"
    )


@pytest.mark.parametrize("generation", ["high-watermark", "kip-101", "kip-279", "kip-320"])
def test_a_follower_can_be_of_any_generation_of_kafka(generation: str):
    config = BrokerConfig(broker_id=1, replication_generation=generation)

    assert config.replication_generation == generation


@pytest.mark.parametrize(
    ("key", "value", "must_be"),
    [
        ("replication_generation", "kip-966", "high-watermark or kip-101 or kip-279 or kip-320"),
        ("log_cleanup_policy", "shrink", "delete or compact or compact,delete or delete,compact"),
        ("log_cleanup_policy", "", "delete or compact or compact,delete or delete,compact"),
        ("log_message_timestamp_type", "createtime", "CreateTime or LogAppendTime"),
    ],
)
def test_a_word_that_is_not_known_is_refused(key: str, value: str, must_be: str):
    with pytest.raises(BadConfig) as refused:
        BrokerConfig(**{"broker_id": 1, key: value})

    name = key.replace("_", ".")
    assert str(refused.value) == f"{name} is {value!r}; it must be {must_be}"


@pytest.mark.parametrize(("key", "most"), MOST.items())
def test_a_value_above_the_largest_possible_is_refused(key: str, most: int):
    assert getattr(BrokerConfig(**{"broker_id": 1, key: most}), key) == most

    with pytest.raises(BadConfig) as refused:
        BrokerConfig(**{"broker_id": 1, key: most + 1})

    name = key.replace("_", ".")
    assert str(refused.value) == f"{name} is {most + 1}; it must be {most} or less"


@pytest.mark.parametrize(
    ("kind", "wrong", "sentence"),
    [
        (BrokerConfig, {"broker_id": "1"}, "broker.id is '1'; it must be a whole number"),
        (BrokerConfig, {"broker_id": True}, "broker.id is True; it must be a whole number"),
        (BrokerConfig, {"num_partitions": "3"}, "num.partitions is '3'; it must be a whole number"),
        (BrokerConfig, {"num_partitions": 3.0}, "num.partitions is 3.0; it must be a whole number"),
        (BrokerConfig, {"num_partitions": None}, "num.partitions is None; it must be a whole"),
        (
            BrokerConfig,
            {"auto_create_topics_enable": "false"},
            "auto.create.topics.enable is 'false'; it must be True or False",
        ),
        (BrokerConfig, {"log_cleaner_enable": 1}, "log.cleaner.enable is 1; it must be True or"),
        (BrokerConfig, {"broker_rack": 5}, "broker.rack is 5; it must be text or None"),
        (
            BrokerConfig,
            {"log_cleaner_min_cleanable_ratio": "0.5"},
            "log.cleaner.min.cleanable.ratio is '0.5'; it must be a number",
        ),
        (
            BrokerConfig,
            {"log_cleaner_min_cleanable_ratio": float("nan")},
            "log.cleaner.min.cleanable.ratio is nan; it must be a number",
        ),
        (BrokerConfig, {"log_cleanup_policy": ["delete"]}, "log.cleanup.policy is ['delete']; it"),
        (ProducerConfig, {"batch_size": "x"}, "batch.size is 'x'; it must be a whole number"),
        (ProducerConfig, {"acks": "1"}, "acks is '1'; it must be a whole number"),
        (ProducerConfig, {"acks": True}, "acks is True; it must be a whole number"),
        (ConsumerConfig, {"group_id": 5}, "group.id is 5; it must be text or None"),
        (ConsumerConfig, {"check_crcs": "true"}, "check.crcs is 'true'; it must be True or False"),
    ],
)
def test_a_value_of_another_type_is_refused(kind, wrong, sentence):
    given = {"broker_id": 1} if kind is BrokerConfig else {}

    with pytest.raises(BadConfig) as refused:
        kind(**given | wrong)

    assert str(refused.value).startswith(sentence)


def test_a_whole_number_is_a_number():
    assert BrokerConfig(broker_id=1, log_cleaner_min_cleanable_ratio=1)


def test_all_is_what_kafkas_clients_call_acks_of_minus_one():
    assert ProducerConfig(acks="all") == ProducerConfig(acks=-1)


def test_settings_come_with_dots_or_with_underscores():
    given = {"num.partitions": 3, "min_insync_replicas": 2}

    assert options_of(BrokerConfig, given) == {"num_partitions": 3, "min_insync_replicas": 2}


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ({"num.partition": 1}, "there is no setting num.partition; num.partitions is the nearest"),
        ({"num_partition": 1}, "there is no setting num.partition; num.partitions is the nearest"),
        ({"xyzzy": 1}, "there is no setting xyzzy"),
        ({7: 1}, "there is no setting 7"),
        ({"num.partitions": 1, "num_partitions": 1}, "num.partitions is given twice, with dots"),
        ({"broker.id": 4}, "broker.id is 4; it must not be given"),
    ],
)
def test_settings_that_are_none_are_refused_by_name(wrong, sentence):
    with pytest.raises(BadConfig) as refused:
        options_of(BrokerConfig, wrong, own=("broker_id",))

    assert str(refused.value).startswith(sentence)


def test_a_setting_that_kafka_does_not_have_is_refused():
    with pytest.raises(TypeError, match="brokre_rack"):
        BrokerConfig(broker_id=1, brokre_rack="north")


def test_a_broker_must_have_an_id():
    with pytest.raises(TypeError, match="broker_id"):
        BrokerConfig()


def test_a_config_does_not_change():
    config = BrokerConfig(broker_id=1)

    with pytest.raises(FrozenInstanceError):
        config.num_partitions = 3


def test_the_shortest_session_is_no_longer_than_the_longest():
    with pytest.raises(BadConfig, match=r"group\.min\.session\.timeout\.ms is 9"):
        BrokerConfig(broker_id=1, group_min_session_timeout_ms=9, group_max_session_timeout_ms=8)
