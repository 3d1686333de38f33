"""From any door to whoever answers: one way for all requests.

Rule: a request that is passed on is answered once, whatever happens. Clients may leave only so much
unanswered, and what the cluster lives by is not kept waiting by them.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Final

from msgspec.structs import replace

from actors.asked import asked, refusal
from actors.broker.meters import Meters
from runtime.ref import InboxFull, Ref
from runtime.world import World
from wire.control import LeaderAndIsr, StopReplica, UpdateMetadata
from wire.data import Fetch, Produce
from wire.errors import BrokerNotAvailable
from wire.message import Message
from wire.trace import ErrorAnswered

# Requests that a handler has taken and not answered. Its inbox holds more: what its own node tells
# it, watches and answers and ends of waits, must always find room, or the node would go down.
MOST_UNANSWERED: Final = 50_000

# What the cluster lives by is not kept waiting by clients, however many of them wait.
CONTROL: Final = (LeaderAndIsr, StopReplica, UpdateMetadata)

Respond = Callable[[Message], None]


class Routing:
    """Who answers what, on one broker; its doors share it."""

    def __init__(
        self,
        world: World,
        routes: Mapping[type[Message], str],
        handlers: Mapping[str, Ref],
        meters: Meters,
    ) -> None:
        self._elapsed_ms = world.clock.elapsed_ms
        self._trace = world.trace
        self._routes = routes
        self._handlers = handlers
        self._meters = meters
        self._unanswered = Counter[str]()  # by handler

    def pass_on(self, request: Message, source: str, respond: Respond) -> bool:
        """Give it to its handler; whether there is one. The answer may come at once, or late."""
        handler = self._handlers.get(self._routes.get(type(request), ""))
        if handler is None:
            return False
        name = handler.address
        counts = 0 if _is_of_the_cluster(request) else 1
        begun_ms = self._elapsed_ms()
        remembered = _without_records(request)

        def answer(response: Message) -> None:
            self._unanswered[name] -= counts
            respond(response)
            took_ms = self._elapsed_ms() - begun_ms
            errors = self._meters.answered(remembered, response, took_ms)
            for code, count in Counter(errors).items() if errors else ():
                self._trace(ErrorAnswered(source, type(remembered).__name__, code.name, count))

        self._unanswered[name] += counts
        try:
            if counts and self._unanswered[name] > MOST_UNANSWERED:
                raise InboxFull(f"{name} has {MOST_UNANSWERED} requests to answer")
            handler.tell(asked(request, source, answer))
        except InboxFull:
            answer(refusal(request, BrokerNotAvailable("this broker has too much to do")))
        return True


def _without_records(request: Message) -> Message:
    """What is kept until the answer: records that are in the log need not wait in memory, too."""
    return replace(request, partitions=()) if isinstance(request, Produce) else request


def _is_of_the_cluster(request: Message) -> bool:
    """Whether a controller or a follower sends it."""
    return isinstance(request, CONTROL) or (isinstance(request, Fetch) and request.replica_id >= 0)
