"""What is done on purpose to single frames, and to single watch events.

Rule: a rule says which frames it wants, and what is done to them; it sees them where they are
sent, so both worlds have the same hand. The first rule that wants a frame has it. What is held is
released when its rule goes, in its order.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from functools import partial
from typing import Any

from wire.frame import Frame

Carry = Callable[[Frame], None]
Wants = Callable[[Frame], bool]


class Treatment(Enum):
    """What becomes of a frame."""

    DROP = "drop"
    DUPLICATE = "duplicate"
    DELAY = "delay"
    HOLD = "hold"
    REORDER = "reorder"  # the next frame of its link overtakes it


@dataclass
class Rule:
    """Frames that are wanted, and what is done to them."""

    wants: Wants
    treatment: Treatment
    delay_ms: float = 0
    on_hit: Callable[[Frame], None] | None = None
    held: list[tuple[Frame, Carry]] = field(default_factory=list)


@dataclass
class RequestRule:
    """Requests from outside that are wanted: by the node, what is asked, and who asks."""

    wants: Callable[[str, str, str | None], bool]
    treatment: Any  # its meaning is the door's, where they come in


class Tamper:
    """All rules of one process."""

    def __init__(self) -> None:
        self.rules: list[Rule] = []
        self.requests: list[RequestRule] = []
        self.onlookers: list[Callable[[Frame], None]] = []  # who see what is sent, as it was sent

    @property
    def is_idle(self) -> bool:
        """Whether nobody wants to see any frame."""
        return not self.rules and not self.onlookers

    def add(self, rule: Rule) -> None:
        """From now on."""
        self.rules.append(rule)

    def remove(self, rule: Rule) -> None:
        """No more; what it held goes on its way."""
        if rule in self.rules:
            self.rules.remove(rule)
        held, rule.held = rule.held, []
        for frame, carry in held:
            carry(frame)

    def clear(self) -> None:
        """No rules any more."""
        for rule in tuple(self.rules):
            self.remove(rule)
        self.requests.clear()

    def treatment(self, node: str, asked: str, who: str | None) -> Any:
        """What is to be done to a request from outside; the first rule that wants it has it."""
        wanted = (each for each in self.requests if each.wants(node, asked, who))
        found = next(wanted, None)
        return None if found is None else found.treatment

    def pass_on(self, frame: Frame, carry: Carry) -> None:
        """Treat a frame that is being sent."""
        for look in self.onlookers:
            look(frame)
        if not self.rules:
            carry(frame)
            return
        overtaken = [rule for rule in self.rules if rule.treatment is Treatment.REORDER]
        for rule in self.rules:
            if rule.wants(frame):
                if rule.on_hit is not None:
                    rule.on_hit(frame)
                self._treat(rule, frame, carry)
                break
        else:
            carry(frame)
        for rule in overtaken:
            _release_overtaken(rule, frame)

    def _treat(self, rule: Rule, frame: Frame, carry: Carry) -> None:
        match rule.treatment:
            case Treatment.DROP:
                return
            case Treatment.DUPLICATE:
                carry(frame)
                carry(frame)
            case Treatment.DELAY:
                loop = asyncio.get_running_loop()
                loop.call_later(rule.delay_ms / 1000, partial(carry, frame))
            case Treatment.HOLD | Treatment.REORDER:
                rule.held.append((frame, carry))


def _release_overtaken(rule: Rule, passed: Frame) -> None:
    """Those of the same link that were sent before this one go now."""
    link = (passed.source, passed.destination)
    kept: list[tuple[Frame, Carry]] = []
    for frame, carry in rule.held:
        if frame is not passed and (frame.source, frame.destination) == link:
            carry(frame)
        else:
            kept.append((frame, carry))
    rule.held = kept


class WatchTamper:
    """What is done to the watch events of one node."""

    def __init__(self) -> None:
        self.rules: list[WatchRule] = []

    def pass_on(self, path: str, deliver: Callable[[], None]) -> None:
        """Deliver a watch event, or do to it what a rule says."""
        for rule in self.rules:
            if not path.startswith(rule.path) or rule.left == 0:
                continue
            rule.left -= 1
            if rule.on_hit is not None:
                rule.on_hit(path)
            if rule.delay_ms is not None:
                asyncio.get_running_loop().call_later(rule.delay_ms / 1000, deliver)
            return
        deliver()


@dataclass
class WatchRule:
    """Watch events below a path that are lost, or come later."""

    path: str
    delay_ms: float | None  # None: they are lost
    left: int  # how many more; -1: all
    on_hit: Callable[[str], None] | None = None
