"""What one log is told: Kafka's topic settings.

Rule: dots become underscores, the defaults are Kafka's, and what cannot work is refused at birth.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from actors.config import BadConfig

NEVER: Final = 2**63 - 1  # Kafka's Long.MaxValue: so many messages or ms never come to pass
UNLIMITED: Final = -1
MAX_INT32: Final = 2**31 - 1
DAY_MS: Final = 86_400_000


class TimestampType(StrEnum):
    """Whose time a record carries."""

    CREATE_TIME = "CreateTime"
    LOG_APPEND_TIME = "LogAppendTime"


class CleanupPolicy(StrEnum):
    """How a log is kept from growing for ever; it may do both."""

    DELETE = "delete"
    COMPACT = "compact"


@dataclass(frozen=True, kw_only=True)
class LogConfig:
    """Settings of one log."""

    segment_bytes: int = 1 << 30
    segment_ms: int = 7 * DAY_MS
    segment_jitter_ms: int = 0  # so that segments of one age do not all roll at once
    segment_index_bytes: int = 10 << 20
    index_interval_bytes: int = 4096
    retention_ms: int = 7 * DAY_MS
    retention_bytes: int = UNLIMITED
    flush_messages: int = NEVER
    flush_ms: int = NEVER
    max_message_bytes: int = 1_048_588
    message_timestamp_type: TimestampType = TimestampType.CREATE_TIME
    cleanup_policy: frozenset[CleanupPolicy] = frozenset({CleanupPolicy.DELETE})
    min_cleanable_dirty_ratio: float = 0.5
    delete_retention_ms: int = DAY_MS
    file_delete_delay_ms: int = 60_000  # a slow reader may still hold a deleted segment

    def __post_init__(self) -> None:
        """Refuse what cannot work."""
        for key, (least, most) in _RANGES.items():
            value = getattr(self, key)
            if not least <= value <= most:
                name = key.replace("_", ".")
                raise BadConfig(f"{name} is {value}; it must be from {least} to {most}")
        if not self.cleanup_policy:
            raise BadConfig("cleanup.policy is empty; it must be delete, compact or both")

    @property
    def is_compacted(self) -> bool:
        """Whether only the newest record of a key must stay, so that offsets may be missing."""
        return CleanupPolicy.COMPACT in self.cleanup_policy

    @property
    def is_deleted_by_age_or_size(self) -> bool:
        """Whether old segments go."""
        return CleanupPolicy.DELETE in self.cleanup_policy


_RANGES: Final[dict[str, tuple[float, float]]] = {
    "segment_bytes": (14, MAX_INT32),  # 14: Kafka's LegacyRecord.RECORD_OVERHEAD_V0
    "segment_ms": (1, NEVER),
    "segment_jitter_ms": (0, NEVER),
    "segment_index_bytes": (24, MAX_INT32),  # two entries of time: one is kept for the roll
    "index_interval_bytes": (0, MAX_INT32),
    "retention_ms": (UNLIMITED, NEVER),
    "retention_bytes": (UNLIMITED, NEVER),
    "flush_messages": (1, NEVER),
    "flush_ms": (0, NEVER),
    "max_message_bytes": (0, MAX_INT32),
    "min_cleanable_dirty_ratio": (0, 1),
    "delete_retention_ms": (0, NEVER),
    "file_delete_delay_ms": (0, NEVER),
}
