"""A client's settings, by Kafka's names.

Rule: dots become underscores, the defaults are Kafka's unless a comment says why not, and a
configuration that cannot work is refused at birth.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from actors.client.assignors import ASSIGNORS
from actors.config import BadConfig, check_types
from wire.data import EARLIEST_TIMESTAMP_MS, LATEST_TIMESTAMP_MS, IsolationLevel

_MOST: Final = 2**31 - 1
RESETS: Final[Mapping[str, int | None]] = {
    "earliest": EARLIEST_TIMESTAMP_MS,
    "latest": LATEST_TIMESTAMP_MS,
    "none": None,
}
ISOLATION_LEVELS: Final[Mapping[str, IsolationLevel]] = {
    each.name.lower(): each for each in IsolationLevel
}


@dataclass(frozen=True, kw_only=True)
class ProducerConfig:
    """What a producer is told."""

    acks: int = -1
    # Kafka: true since 3.0. Here it is asked for, so that a history shows what a retry does.
    enable_idempotence: bool = False
    transactional_id: str | None = None  # given: records are sent in transactions
    transaction_timeout_ms: int = 60_000
    linger_ms: int = 0
    batch_size: int = 16_384
    retries: int = _MOST
    delivery_timeout_ms: int = 120_000
    request_timeout_ms: int = 30_000
    retry_backoff_ms: int = 100
    # Of one partition only one batch is ever in flight, so that order is kept without idempotence;
    # in Kafka more than one request in flight may reorder batches that are sent again.
    max_in_flight_requests_per_connection: int = 5
    max_request_size: int = 1_048_576
    max_block_ms: int = 60_000
    buffer_memory: int = 32 << 20
    metadata_max_age_ms: int = 300_000

    def __post_init__(self) -> None:
        """Refuse what cannot work."""
        acks: object = self.acks
        if acks == "all":  # as Kafka's clients spell it
            object.__setattr__(self, "acks", -1)
        check_types(self)
        if self.acks not in {-1, 0, 1}:
            raise BadConfig(f"acks is {self.acks}; it must be -1, 0 or 1")
        _check_range(
            self,
            least_0=("linger_ms", "batch_size", "retries", "retry_backoff_ms", "max_block_ms"),
            least_1=(
                "delivery_timeout_ms",
                "transaction_timeout_ms",
                "request_timeout_ms",
                "max_in_flight_requests_per_connection",
                "max_request_size",
                "buffer_memory",
                "metadata_max_age_ms",
            ),
        )
        if self.transactional_id is not None:
            object.__setattr__(self, "enable_idempotence", True)
        if self.transactional_id == "":
            raise BadConfig("transactional.id is empty; it must be a name, or not be given")
        if self.enable_idempotence and (self.acks != -1 or not self.retries):
            raise BadConfig(
                f"enable.idempotence is true, acks is {self.acks} and retries is {self.retries}; "
                "acks must be all, and retries at least 1"
            )
        if self.delivery_timeout_ms < self.linger_ms + self.request_timeout_ms:
            raise BadConfig(
                f"delivery.timeout.ms is {self.delivery_timeout_ms}; it must be at least linger.ms "
                f"and request.timeout.ms together, {self.linger_ms + self.request_timeout_ms}"
            )


@dataclass(frozen=True, kw_only=True)
class ConsumerConfig:
    """What a consumer is told."""

    group_id: str | None = None
    auto_offset_reset: str = "latest"
    fetch_min_bytes: int = 1
    fetch_max_wait_ms: int = 500
    fetch_max_bytes: int = 50 << 20
    max_partition_fetch_bytes: int = 1 << 20
    max_poll_records: int = 500
    check_crcs: bool = True
    # Kafka: true. Then poll commits what earlier polls have returned, handled or not; else a commit
    # is where the program says so, and a run of the simulator shows it at the same place each time.
    enable_auto_commit: bool = False
    isolation_level: str = "read_uncommitted"
    allow_auto_create_topics: bool = True
    request_timeout_ms: int = 30_000
    default_api_timeout_ms: int = 60_000
    retry_backoff_ms: int = 100
    metadata_max_age_ms: int = 300_000
    # --- of a member of a group
    client_id: str = ""  # who it is, for those who look after groups
    group_instance_id: str | None = None
    session_timeout_ms: int = 45_000
    heartbeat_interval_ms: int = 3_000
    max_poll_interval_ms: int = 300_000  # also how long the others wait for it in a rebalance
    auto_commit_interval_ms: int = 5_000
    # Names, with commas between, the one liked best first. Kafka: range and cooperative-sticky.
    partition_assignment_strategy: str = "range"

    def __post_init__(self) -> None:
        """Refuse what cannot work."""
        check_types(self)
        _check_one_of("auto_offset_reset", self.auto_offset_reset, RESETS)
        _check_one_of("isolation_level", self.isolation_level, ISOLATION_LEVELS)
        _check_range(
            self,
            least_0=("fetch_min_bytes", "fetch_max_wait_ms", "retry_backoff_ms"),
            least_1=(
                "fetch_max_bytes",
                "max_partition_fetch_bytes",
                "max_poll_records",
                "request_timeout_ms",
                "default_api_timeout_ms",
                "metadata_max_age_ms",
                "session_timeout_ms",
                "heartbeat_interval_ms",
                "max_poll_interval_ms",
                "auto_commit_interval_ms",
            ),
        )
        self._check_membership()
        if self.group_id == "":
            raise BadConfig("group.id is empty; it must be a name, or not be given")
        if self.fetch_max_wait_ms > self.request_timeout_ms:
            raise BadConfig(
                f"fetch.max.wait.ms is {self.fetch_max_wait_ms}; it must be at most "
                f"request.timeout.ms, {self.request_timeout_ms}, or idle fetches would time out"
            )

    @property
    def assignors(self) -> tuple[str, ...]:
        """The names of partition.assignment.strategy."""
        return tuple(each.strip() for each in self.partition_assignment_strategy.split(","))

    def _check_membership(self) -> None:
        for each in self.assignors:
            _check_one_of("partition_assignment_strategy", each, ASSIGNORS)
        if self.enable_auto_commit and self.group_id is None:
            raise BadConfig("enable.auto.commit is true; it must be false, or group.id be given")
        if self.group_instance_id == "":
            raise BadConfig("group.instance.id is empty; it must be a name, or not be given")
        if self.heartbeat_interval_ms >= self.session_timeout_ms:
            raise BadConfig(
                f"heartbeat.interval.ms is {self.heartbeat_interval_ms}; it must be less than "
                f"session.timeout.ms, {self.session_timeout_ms}"
            )


def _check_range(config: object, *, least_0: tuple[str, ...], least_1: tuple[str, ...]) -> None:
    """Numbers that are too small, or too large for the field of a request that they become."""
    for least, keys in enumerate((least_0, least_1)):
        for key in keys:
            value = getattr(config, key)
            if not least <= value <= _MOST:
                name = key.replace("_", ".")
                raise BadConfig(f"{name} is {value}; it must be from {least} to {_MOST}")


def _check_one_of(key: str, value: str, allowed: Mapping[str, object]) -> None:
    if value not in allowed:
        name = key.replace("_", ".")
        raise BadConfig(f"{name} is {value!r}; it must be one of {', '.join(allowed)}")
