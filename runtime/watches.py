"""Who waits for which znode to change.

Rule: a watch fires once. A receiver that watches a path twice in the same way is told once.
"""

from runtime.keeper import Change, WatchEvent
from runtime.ref import Receiver


class WatchBook:
    """The receivers of one session's watches, in the order in which they came."""

    def __init__(self) -> None:
        self._data: dict[str, dict[int, Receiver]] = {}
        self._children: dict[str, dict[int, Receiver]] = {}

    def add(self, path: str, receiver: Receiver, *, children: bool) -> None:
        """Tell the receiver when the path changes, or its children do."""
        watches = self._children if children else self._data
        watches.setdefault(path, {})[id(receiver)] = receiver

    def fire(self, change: Change, path: str, session: int) -> bool:
        """Tell all whom the change concerns; they must watch again to be told again."""
        receivers: dict[int, Receiver] = {}
        if change is not Change.CHILDREN:
            receivers |= self._data.pop(path, {})
        if change in {Change.CHILDREN, Change.DELETED}:
            receivers |= self._children.pop(path, {})
        for receiver in receivers.values():
            receiver.tell(WatchEvent(change, path, session))
        return bool(receivers)

    def clear(self) -> None:
        """Forget all watches, as the end of a session does."""
        self._data.clear()
        self._children.clear()

    def data_paths(self) -> tuple[str, ...]:
        """Where data or existence is watched."""
        return tuple(self._data)

    def children_paths(self) -> tuple[str, ...]:
        """Where children are watched."""
        return tuple(self._children)
