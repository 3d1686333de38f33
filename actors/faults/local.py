"""Faults inside one process: what is done to single messages, watches, disks and clocks.

Rule: it is applied where the broker lives and undone by its number. What is broken belongs to the
broker and not to one of its lives: whoever starts again finds it broken still.
"""

from collections.abc import Callable
from typing import Final

from actors.faults.addressed import Addressed
from actors.faults.hand import FaultRefused
from actors.faults.requests import AddressedRequests
from actors.faults.vocabulary import (
    Delay,
    DelayWatch,
    Drop,
    Duplicate,
    FailDisk,
    Fault,
    FillDisk,
    FlipBit,
    Hold,
    Local,
    LoseReply,
    LoseUnsynced,
    LoseWatch,
    OnLink,
    OnRequest,
    Reorder,
    SkewClock,
    SlowDisk,
)
from actors.names import node_name
from actors.node_cluster import Universe
from runtime.tampering import RequestRule, Rule, Treatment, WatchRule
from wire.ids import TopicPartition

TREATMENTS: Final[dict[type[OnLink], Treatment]] = {
    Drop: Treatment.DROP,
    Duplicate: Treatment.DUPLICATE,
    Delay: Treatment.DELAY,
    Hold: Treatment.HOLD,
    Reorder: Treatment.REORDER,
}
Undo = Callable[[], None]


class LocalFaults:
    """What is broken in this process, by number."""

    def __init__(self, universe: Universe) -> None:
        self._universe = universe
        self._undo: dict[int, Undo] = {}

    def apply(self, fault: Fault, number: int) -> None:
        """Break it; whom it names is a number by now."""
        if isinstance(fault, OnLink):
            self._undo[number] = self._tamper(fault, number)
            return
        if isinstance(fault, OnRequest):
            self._undo[number] = self._tamper_requests(fault, number)
            return
        assert isinstance(fault, Local), f"{fault} is not done here"
        assert isinstance(fault.broker, int), "it was resolved"
        undo = self._break(fault, node_name(fault.broker))
        if undo is not None:
            self._undo[number] = undo

    def undo(self, number: int) -> None:
        """Mend it, if there is anything to mend."""
        undo = self._undo.pop(number, None)
        if undo is not None:
            undo()

    def undo_all(self) -> None:
        """Mend all."""
        for number in tuple(self._undo):
            self.undo(number)

    def _tamper(self, fault: OnLink, number: int) -> Undo:
        wants = Addressed(fault, self._universe.random(f"fault/{number}"))
        delay_ms = fault.ms if isinstance(fault, Delay) else 0
        rule = Rule(wants, TREATMENTS[type(fault)], delay_ms)
        self._universe.tamper.add(rule)
        return lambda: self._universe.tamper.remove(rule)

    def _tamper_requests(self, fault: OnRequest, number: int) -> Undo:
        wants = AddressedRequests(fault, self._universe.random(f"fault/{number}"))
        rules, rule = self._universe.tamper.requests, RequestRule(wants, fault)
        rules.append(rule)
        return lambda: rules.remove(rule) if rule in rules else None

    def _break(self, fault: Local, node: str) -> Undo | None:
        universe = self._universe
        match fault:
            case DelayWatch():
                return self._watch(node, WatchRule(fault.path, fault.ms, fault.times))
            case LoseWatch():
                return self._watch(node, WatchRule(fault.path, None, fault.times))
            case LoseReply():
                universe.spoil_reply(node)
                return None
            case SkewClock():
                universe.skew(node, fault.ms)
                return lambda: universe.skew(node, 0)
            case FlipBit():
                self._flip(fault, node)
                return None
            case _:
                self._break_disk(fault, node)
                return lambda: universe.heal_disk(node)

    def _break_disk(self, fault: Local, node: str) -> None:
        universe = self._universe
        match fault:
            case FillDisk():
                universe.fill_disk(node)
            case SlowDisk():
                universe.slow_disk(node, fault.ms)
            case FailDisk():
                universe.fail_disk(node, fault.path)
            case LoseUnsynced():
                try:
                    universe.forget_unsynced(node)
                except NotImplementedError as error:
                    raise FaultRefused(f"{error}: this is for the simulator") from None
            case _:
                raise AssertionError(f"{fault} is not done here")

    def _watch(self, node: str, rule: WatchRule) -> Undo:
        rules = self._universe.watch_tamper(node).rules
        rules.append(rule)
        return lambda: rules.remove(rule)

    def _flip(self, fault: FlipBit, node: str) -> None:
        partition = TopicPartition(fault.topic, fault.partition)
        files = self._universe.files(node, str(partition))
        segments = sorted(path for path in files if path.endswith(".log") and files[path])
        if not segments:
            raise FaultRefused(f"{node} has no record of {partition}")
        path = segments[-1]
        size = files[path]
        position = fault.position if fault.position >= 0 else size + fault.position
        if not 0 <= position < size:
            raise FaultRefused(f"{path} of {node} has {size} bytes, and none at {fault.position}")
        self._universe.flip_bit(node, path, position, fault.bit)
