"""A broker's settings, by Kafka's names.

Rule: dots become underscores, the defaults are Kafka's unless a comment says why not, and a
configuration that cannot work is refused at birth.
"""

from dataclasses import dataclass


class BadConfig(ValueError):
    """A setting that cannot work; the sentence names it."""


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

    def __post_init__(self) -> None:
        """Refuse what cannot work."""
        for key, least in _AT_LEAST.items():
            value = getattr(self, key)
            if value < least:
                name = key.replace("_", ".")
                raise BadConfig(f"{name} is {value}; it must be {least} or more")


_AT_LEAST = {
    "broker_id": 0,
    "zookeeper_session_timeout_ms": 1,
    "num_partitions": 1,
    "default_replication_factor": 1,
    "leader_imbalance_per_broker_percentage": 0,
    "leader_imbalance_check_interval_seconds": 1,
    "controlled_shutdown_max_retries": 0,
    "controlled_shutdown_retry_backoff_ms": 0,
}
