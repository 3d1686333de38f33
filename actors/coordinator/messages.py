"""What the other actors of a broker tell its group coordinator.

Rule: nothing here leaves the broker. What the replica manager tells is in actors/broker/local.py.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class TopicsDeleted:
    """These topics are gone, and so is whatever was committed for them (B178)."""

    topics: frozenset[str]
