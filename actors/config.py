"""A broker's settings, by Kafka's names.

Rule: dots become underscores, the defaults are Kafka's unless a comment says why not, and a
configuration that cannot work is refused at birth, by Kafka's name.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, fields
from difflib import get_close_matches
from math import isfinite
from types import NoneType
from typing import Any, Final, get_args

_DAY_MS: Final = 86_400_000
_NEVER: Final = 2**63 - 1
_MAX_INT32: Final = 2**31 - 1
GENERATIONS: Final = ("high-watermark", "kip-101", "kip-279", "kip-320")


class BadConfig(ValueError):
    """A setting that cannot work; the sentence names it."""


def options_of(
    kind: type[Any], given: Mapping[str, Any], *, own: Collection[str] = ()
) -> dict[str, Any]:
    """Settings by the names of a configuration's fields, whether they came with dots or without.

    Those in `own` are there, but are not given this way.
    """
    known = {each.name.replace("_", "."): each.name for each in fields(kind)}
    options: dict[str, Any] = {}
    for key, value in given.items():
        name = str(key).replace("_", ".")
        if name not in known:
            near = get_close_matches(name, known, n=1)
            hint = f"; {near[0]} is the nearest" if near else ""
            raise BadConfig(f"there is no setting {name}{hint}")
        if known[name] in own:
            raise BadConfig(f"{name} is {value!r}; it must not be given: each broker has its own")
        if known[name] in options:
            raise BadConfig(f"{name} is given twice, with dots and with underscores")
        options[known[name]] = value
    return options


def check_types(config: Any) -> None:
    """Refuse a value that is not of its field's type."""
    for each in fields(config):
        value = getattr(config, each.name)
        types = get_args(each.type) or (each.type,)
        if not any(_is_of(value, one) for one in types):
            name, must_be = each.name.replace("_", "."), " or ".join(_WORDS[one] for one in types)
            raise BadConfig(f"{name} is {value!r}; it must be {must_be}")


def _is_of(value: object, kind: Any) -> bool:
    if isinstance(value, bool):  # which is an int to Python, and to nobody else
        return kind is bool
    if kind is float:
        return isinstance(value, int | float) and isfinite(value)
    return isinstance(value, kind)


_WORDS: Final[Mapping[Any, str]] = {
    bool: "True or False",
    int: "a whole number",
    float: "a number",
    str: "text",
    NoneType: "None",
}


@dataclass(frozen=True, kw_only=True)
class BrokerConfig:
    """What one broker is told."""

    broker_id: int
    broker_rack: str | None = None
    # Kafka: 18,000. Here people wait for a failed broker to be noticed, on loopback.
    zookeeper_session_timeout_ms: int = 6_000
    num_partitions: int = 1
    default_replication_factor: int = 1
    delete_topic_enable: bool = True
    unclean_leader_election_enable: bool = False
    auto_leader_rebalance_enable: bool = True
    leader_imbalance_per_broker_percentage: int = 10
    leader_imbalance_check_interval_seconds: int = 300
    controlled_shutdown_enable: bool = True
    controlled_shutdown_max_retries: int = 3
    controlled_shutdown_retry_backoff_ms: int = 5_000
    controller_socket_timeout_ms: int = 30_000
    auto_create_topics_enable: bool = True
    # --- replication
    num_replica_fetchers: int = 1
    replica_fetch_wait_max_ms: int = 500
    replica_fetch_min_bytes: int = 1
    replica_fetch_max_bytes: int = 1 << 20
    replica_fetch_response_max_bytes: int = 10 << 20
    replica_fetch_backoff_ms: int = 1_000
    replica_socket_timeout_ms: int = 30_000
    replica_lag_time_max_ms: int = 30_000
    replica_high_watermark_checkpoint_interval_ms: int = 5_000
    min_insync_replicas: int = 1
    fetch_max_bytes: int = 55 << 20
    # Ours: how a follower finds out where its log and its leader's part. Not in Kafka, where it
    # came with the versions: high-watermark (0.8), kip-101 (0.11), kip-279 (2.0), kip-320 (2.8).
    replication_generation: str = "kip-320"
    # --- logs
    log_segment_bytes: int = 1 << 30
    log_roll_ms: int = 7 * _DAY_MS
    log_roll_jitter_ms: int = 0
    log_index_size_max_bytes: int = 10 << 20
    log_index_interval_bytes: int = 4_096
    log_retention_ms: int = 7 * _DAY_MS
    log_retention_bytes: int = -1
    log_retention_check_interval_ms: int = 300_000
    log_flush_interval_messages: int = _NEVER
    log_flush_interval_ms: int = _NEVER
    log_flush_offset_checkpoint_interval_ms: int = 60_000
    log_flush_start_offset_checkpoint_interval_ms: int = 60_000
    log_cleanup_policy: str = "delete"
    log_cleaner_enable: bool = True
    log_cleaner_backoff_ms: int = 15_000
    log_cleaner_min_cleanable_ratio: float = 0.5
    log_cleaner_delete_retention_ms: int = _DAY_MS
    log_segment_delete_delay_ms: int = 60_000
    log_message_timestamp_type: str = "CreateTime"
    # --- producers
    producer_id_expiration_ms: int = _DAY_MS  # as 3.4; 2.8 went by transactional.id.expiration.ms
    producer_id_expiration_check_interval_ms: int = 600_000
    message_max_bytes: int = 1_048_588
    # --- __transaction_state
    transaction_state_log_num_partitions: int = 50
    transaction_state_log_replication_factor: int = 3
    transaction_state_log_min_isr: int = 2
    transaction_state_log_segment_bytes: int = 100 << 20
    transaction_max_timeout_ms: int = 900_000
    transactional_id_expiration_ms: int = 7 * _DAY_MS
    transaction_abort_timed_out_transaction_cleanup_interval_ms: int = 10_000
    transaction_remove_expired_transaction_cleanup_interval_ms: int = 3_600_000
    # --- __consumer_offsets
    offsets_topic_num_partitions: int = 50
    offsets_topic_replication_factor: int = 3
    offsets_topic_segment_bytes: int = 100 << 20
    offsets_commit_required_acks: int = -1
    offsets_commit_timeout_ms: int = 5_000
    offset_metadata_max_bytes: int = 4_096
    offsets_retention_minutes: int = 7 * 24 * 60
    offsets_retention_check_interval_ms: int = 600_000
    offsets_load_buffer_size: int = 5 << 20
    # --- groups
    group_min_session_timeout_ms: int = 6_000
    group_max_session_timeout_ms: int = 1_800_000
    # Kafka: 3,000, so that the members of a group that starts all come into its first generation.
    # Here people wait for the first record.
    group_initial_rebalance_delay_ms: int = 0
    group_max_size: int = _MAX_INT32

    def __post_init__(self) -> None:
        """Refuse what cannot work."""
        check_types(self)
        for key, least in _AT_LEAST.items():
            value = getattr(self, key)
            if value < least:
                name = key.replace("_", ".")
                raise BadConfig(f"{name} is {value}; it must be {least} or more")
        for key, most in _AT_MOST.items():
            value = getattr(self, key)
            if value > most:
                name = key.replace("_", ".")
                raise BadConfig(f"{name} is {value}; it must be {most} or less")
        for key, known in _ONE_OF.items():
            value = getattr(self, key)
            if value not in known:
                name = key.replace("_", ".")
                raise BadConfig(f"{name} is {value!r}; it must be {' or '.join(known)}")
        self._check_fetch_wait()
        if self.group_min_session_timeout_ms > self.group_max_session_timeout_ms:
            raise BadConfig(
                f"group.min.session.timeout.ms is {self.group_min_session_timeout_ms}; it must be "
                f"at most group.max.session.timeout.ms, {self.group_max_session_timeout_ms}"
            )
        if self.offsets_commit_required_acks not in {-1, 0, 1}:
            raise BadConfig(
                f"offsets.commit.required.acks is {self.offsets_commit_required_acks}; "
                "it must be -1, 0 or 1"
            )

    def _check_fetch_wait(self) -> None:
        if self.replica_fetch_wait_max_ms > self.replica_lag_time_max_ms:
            raise BadConfig(
                f"replica.fetch.wait.max.ms is {self.replica_fetch_wait_max_ms}; it must be at "
                f"most replica.lag.time.max.ms, {self.replica_lag_time_max_ms}, "
                "or followers would leave the ISR while they wait"
            )
        if self.replica_fetch_wait_max_ms > self.replica_socket_timeout_ms:
            raise BadConfig(
                f"replica.fetch.wait.max.ms is {self.replica_fetch_wait_max_ms}; it must be at "
                f"most replica.socket.timeout.ms, {self.replica_socket_timeout_ms}, "
                "or every fetch that waits would time out"
            )


_ONE_OF: Final = {
    "replication_generation": GENERATIONS,
    "log_cleanup_policy": ("delete", "compact", "compact,delete", "delete,compact"),
    "log_message_timestamp_type": ("CreateTime", "LogAppendTime"),
}
_AT_LEAST: Final = {
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
    "log_segment_bytes": 14,  # Kafka's LegacyRecord.RECORD_OVERHEAD_V0
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
    "message_max_bytes": 0,
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
_AT_MOST: Final = {  # what a topic could not hold either
    "min_insync_replicas": _MAX_INT32,
    "log_segment_bytes": _MAX_INT32,
    "log_index_size_max_bytes": _MAX_INT32,
    "log_index_interval_bytes": _MAX_INT32,
    "log_cleaner_min_cleanable_ratio": 1,
    "message_max_bytes": _MAX_INT32,
    "offsets_topic_segment_bytes": _MAX_INT32,
    "transaction_state_log_min_isr": _MAX_INT32,
    "transaction_state_log_segment_bytes": _MAX_INT32,
    "transaction_max_timeout_ms": _MAX_INT32,
    "group_min_session_timeout_ms": _MAX_INT32,
    "group_max_session_timeout_ms": _MAX_INT32,
    "group_initial_rebalance_delay_ms": _MAX_INT32,
    "group_max_size": _MAX_INT32,
}
