"""Who wants to hear of which events that other processes leave in their traces.

Rule: of the kinds that stories are made of a process tells anyhow; of any other it is asked once
in each of its lives, when the first wants to hear of it.
"""

from collections.abc import Callable, Iterable

from actors.story import TELLERS
from runtime.tracing import Listener
from wire.trace import Stamp, TraceEvent


class Hearing:
    """Passes events on."""

    def __init__(self, ask: Callable[[str], None]) -> None:
        self._ask = ask
        self._watchers: dict[type[TraceEvent], list[Listener]] = {}
        self.asked: dict[str, None] = {}  # kinds that must be asked for

    def watch(self, kinds: Iterable[type[TraceEvent]], hear: Listener) -> Callable[[], None]:
        """From now on; the answer stops that."""
        chosen = tuple(dict.fromkeys(kinds))
        for kind in chosen:
            self._watchers.setdefault(kind, []).append(hear)
            if kind not in TELLERS and kind.__name__ not in self.asked:
                self.asked[kind.__name__] = None
                self._ask(kind.__name__)

        def stop() -> None:
            for kind in chosen:
                self._watchers[kind].remove(hear)

        return stop

    def hear(self, stamp: Stamp, event: TraceEvent) -> None:
        """Somebody has left it."""
        for hear in tuple(self._watchers.get(type(event), ())):
            hear(stamp, event)
