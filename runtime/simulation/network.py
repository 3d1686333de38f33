"""Links that delay, lose, repeat, reorder, hold and cut.

Rule: a link leads one way and keeps its order unless told otherwise. A cut link is silent: whoever
waits times out. A dead node is not silent: whoever waits is told that the connection closed, as
TCP would, by a notice that travels the link back like a frame. What is under way when a node dies
may still reach its next life: that is what epochs fence.
"""

import asyncio
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from math import inf
from random import Random
from typing import Any

import msgspec

from runtime.network import Endpoint
from wire.frame import Frame, FrameKind
from wire.parted import Parted, whole


@dataclass(frozen=True)
class Conditions:
    """The weather on a link."""

    min_delay_ms: float = 0.2
    max_delay_ms: float = 1.0
    loss: float = 0.0  # probabilities, for each frame
    duplication: float = 0.0
    reordering: float = 0.0  # such a frame may overtake and be overtaken

    def __post_init__(self) -> None:
        """Refuse weather that cannot be."""
        if not 0 <= self.min_delay_ms <= self.max_delay_ms < inf:
            raise ValueError(
                f"delays must be 0 <= {self.min_delay_ms} <= {self.max_delay_ms} < infinity"
            )
        for name in ("loss", "duplication", "reordering"):
            if not 0 <= getattr(self, name) <= 1:
                raise ValueError(f"{name} is a probability, not {getattr(self, name)}")


@dataclass(frozen=True)
class _Notice:
    """The end of a connection on its way to whoever waits at the other end."""

    source: str
    destination: str
    tell: Callable[[], None]


Link = tuple[str, str]
Parcel = Frame | _Notice


class Onlooker:
    """Sees all frames; it only looks."""

    def on_arrival(self, parcel: Parcel) -> None:
        """Something is at the end of its way, which may still be held there."""

    def on_delivery(self, frame: Frame) -> None:
        """A frame is about to be handed to a node that lives."""


class SimulatedTransport:
    """Carries frames in virtual time, by the dice of one seed."""

    def __init__(self, random: Random, conditions: Conditions | None = None) -> None:
        self._random = random
        self._default = conditions or Conditions()
        self._conditions: dict[Link, Conditions] = {}
        self._endpoints: dict[str, Endpoint] = {}
        self._cut: set[Link] = set()
        self._cuts: Counter[Link] = Counter()  # so far: a cut loses what was sent before it
        self._held: dict[Link, list[Parcel]] = {}
        self._paused: dict[str, list[Parcel]] = {}
        self._last: dict[Link, float] = {}  # when the last frame of a link arrives
        self.onlookers: list[Onlooker] = []

    # --- faults -------------------------------------------------------------------------------

    def set_conditions(self, source: str, destination: str, **changes: Any) -> None:
        """Change the weather on one link, one way."""
        link = (source, destination)
        self._conditions[link] = replace(self._conditions.get(link, self._default), **changes)

    def cut(self, source: str, destination: str) -> None:
        """Lose everything on a link, one way; what is under way or held too."""
        link = (source, destination)
        self._cut.add(link)
        self._cuts[link] += 1
        self._held.get(link, []).clear()

    def mend(self, source: str, destination: str) -> None:
        """Mend a cut link, one way."""
        self._cut.discard((source, destination))

    def hold(self, source: str, destination: str) -> None:
        """Keep everything at the end of a link, one way, until it is released."""
        self._held.setdefault((source, destination), [])

    def release(self, source: str, destination: str) -> None:
        """Let what was held arrive now, in its order and before what is still under way."""
        link = (source, destination)
        for parcel in self._held.pop(link, []):
            self._arrive(parcel, self._cuts[link])

    def heal(self) -> None:
        """Mend every cut, release every held link, and make the weather fair again."""
        self._cut.clear()
        self._conditions.clear()
        for link in sorted(self._held):
            self.release(*link)

    def pause(self, node: str) -> None:
        """The node takes nothing from its sockets; what comes waits in them."""
        self._paused.setdefault(node, [])

    def resume(self, node: str) -> None:
        """The node takes what has come meanwhile."""
        for parcel in self._paused.pop(node, []):
            self._deliver(parcel)

    def is_cut(self, source: str, destination: str) -> bool:
        """Whether the link is cut, one way."""
        return (source, destination) in self._cut

    def under_hold(self) -> dict[Link, tuple[Frame, ...]]:
        """What is held, for tests and for those who want to look."""
        return {
            link: tuple(parcel for parcel in parcels if isinstance(parcel, Frame))
            for link, parcels in sorted(self._held.items())
        }

    # --- what endpoints call -------------------------------------------------------------------

    def attach(self, endpoint: Endpoint) -> None:
        """From now on deliver frames for this address here."""
        if endpoint.address in self._endpoints:
            raise ValueError(f"there is an endpoint {endpoint.address} already")
        self._endpoints[endpoint.address] = endpoint

    def detach(self, endpoint: Endpoint) -> None:
        """The endpoint is gone; those who wait for it learn it a moment later."""
        gone = endpoint.address
        if self._endpoints.get(gone) is not endpoint:
            return
        del self._endpoints[gone]
        self._paused.pop(gone, None)
        why = f"{gone} closed the connection"
        for name, other in sorted(self._endpoints.items()):
            tell = partial(other.peer_lost, gone, why, other.calls_begun)
            self._schedule(_Notice(gone, name, tell))

    def transmit(self, frame: Frame) -> None:
        """Throw the dice for a frame."""
        conditions = self._conditions_on((frame.source, frame.destination))
        if self._random.random() < conditions.loss:
            return
        if isinstance(frame.payload, Parted):  # simulated nodes share nothing
            frame = msgspec.structs.replace(frame, payload=whole(frame.payload))
        copies = 2 if self._random.random() < conditions.duplication else 1
        for _ in range(copies):
            self._schedule(frame)

    # --------------------------------------------------------------------------------------------

    def _conditions_on(self, link: Link) -> Conditions:
        return self._conditions.get(link, self._default)

    def _schedule(self, parcel: Parcel) -> None:
        link = (parcel.source, parcel.destination)
        if link not in self._cut:
            _loop().call_at(self._arrival(link), self._arrive, parcel, self._cuts[link])

    def _arrival(self, link: Link) -> float:
        conditions = self._conditions_on(link)
        delay_ms = self._random.uniform(conditions.min_delay_ms, conditions.max_delay_ms)
        when = _loop().time() + delay_ms / 1000
        if self._random.random() < conditions.reordering:
            return when + self._random.uniform(0, conditions.max_delay_ms) / 1000
        self._last[link] = when = max(when, self._last.get(link, 0.0))
        return when

    def _arrive(self, parcel: Parcel, cuts: int) -> None:
        for onlooker in self.onlookers:
            onlooker.on_arrival(parcel)
        link = (parcel.source, parcel.destination)
        if cuts != self._cuts[link]:
            return  # the link was cut while this was under way
        if link in self._held:
            self._held[link].append(parcel)
        elif parcel.destination in self._paused:
            self._paused[parcel.destination].append(parcel)
        else:
            self._deliver(parcel)

    def _deliver(self, parcel: Parcel) -> None:
        if isinstance(parcel, _Notice):
            parcel.tell()
            return
        endpoint = self._endpoints.get(parcel.destination)
        if endpoint is not None:
            for onlooker in self.onlookers:
                onlooker.on_delivery(parcel)
            endpoint.deliver(parcel)
            return
        source = self._endpoints.get(parcel.source)
        if source is not None and parcel.kind is FrameKind.REQUEST:
            why = f"nobody is at {parcel.destination}"
            tell = partial(source.lost, parcel.correlation, why)
            self._schedule(_Notice(parcel.destination, parcel.source, tell))


def _loop() -> asyncio.AbstractEventLoop:
    return asyncio.get_running_loop()
