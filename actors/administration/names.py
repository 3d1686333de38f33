"""What a topic may be called.

Rule: a name that passes here is safe in a path of ZooKeeper, in a folder's name and in a metric's.
"""

import re
from collections.abc import Iterable
from typing import Final

from wire.errors import InvalidTopic

MAX_NAME_LENGTH: Final = 249  # with "-<partition>" and a suffix it is still a folder's name
_ILLEGAL: Final = re.compile(r"[^a-zA-Z0-9._-]")


def check_topic_name(topic: str) -> None:
    """Refuse a name that no topic may have (B083)."""
    if not topic:
        raise InvalidTopic(
            f"The topic's name is empty; it must have 1 to {MAX_NAME_LENGTH} characters."
        )
    if topic in {".", ".."}:
        raise InvalidTopic(
            f"The topic's name is {topic!r}, which is a folder; add any other character."
        )
    if len(topic) > MAX_NAME_LENGTH:
        raise InvalidTopic(
            f"The topic's name {topic[:20]!r}… has {len(topic)} characters;"
            f" it must have at most {MAX_NAME_LENGTH}."
        )
    if illegal := _ILLEGAL.search(topic):
        raise InvalidTopic(
            f"The topic's name {topic!r} has {illegal[0]!r} at position {illegal.start()};"
            " only ASCII letters, digits, '.', '_' and '-' are allowed."
        )


def colliding(topic: str, others: Iterable[str]) -> tuple[str, ...]:
    """Those of the others that differ only in '.' and '_': their metrics would have one name."""
    metric = _metric_name(topic)
    return tuple(sorted(each for each in others if each != topic and _metric_name(each) == metric))


def _metric_name(topic: str) -> str:
    return topic.replace(".", "_")
