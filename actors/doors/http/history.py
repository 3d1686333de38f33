"""What has happened, as far as anybody may still want to know it.

Rule: bounded. Of many events at once the single ones are kept for who asks for one partition, and
the one that counts them for everybody else.
"""

from collections import deque
from collections.abc import Callable
from typing import Final

from actors.story import StoryEvent

KEPT: Final = 5_000
SHOWN: Final = 200


class History:
    """The last events, oldest first."""

    def __init__(self) -> None:
        self._events: deque[StoryEvent] = deque(maxlen=KEPT)
        self.listeners: dict[Callable[[StoryEvent], None], None] = {}

    def add(self, event: StoryEvent) -> None:
        """Something has happened."""
        self._events.append(event)
        for listener in tuple(self.listeners):
            listener(event)

    def shown(self, after: int = 0) -> list[StoryEvent]:
        """The last ones that everybody is shown, perhaps only those after one of them."""
        told = [each for each in self._events if not each.is_part]
        if after:
            at = next((n for n, each in enumerate(told) if each.id == after), -1)
            told = told[at + 1 :]
        return told[-SHOWN:]

    def of(self, topic: str, partition: int) -> list[StoryEvent]:
        """What happened to one partition."""
        found = [
            each for each in self._events if each.topic == topic and each.partition == partition
        ]
        return found[-SHOWN:]
