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

    def __post_init__(self) -> None:
        """Refuse what cannot work."""
        if self.broker_id < 0:
            raise BadConfig(f"broker.id is {self.broker_id}; it must be 0 or more")
        if self.zookeeper_session_timeout_ms <= 0:
            timeout = self.zookeeper_session_timeout_ms
            raise BadConfig(f"zookeeper.session.timeout.ms is {timeout}; it must be positive")
