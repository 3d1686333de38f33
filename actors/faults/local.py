"""Faults inside one process: what is done to single messages, watches, disks and clocks.

Rule: it is applied where the broker lives and undone by its number. What is broken belongs to the
broker and not to one of its lives: whoever starts again finds it broken still.
"""

from collections.abc import Callable
from typing import Any, Final

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
    LingerSession,
    Local,
    LoseReply,
    LoseUnsynced,
    LoseWatch,
    OnLink,
    OnRequest,
    RefuseZooKeeper,
    Reorder,
    SkewClock,
    SlowDisk,
)
from actors.names import node_name
from actors.universe import Universe
from runtime.tampering import Refusal, RequestRule, Rule, Treatment, WatchRule
from wire.ids import TopicPartition

TREATMENTS: Final[dict[type[OnLink], Treatment]] = {
    Drop: Treatment.DROP,
    Duplicate: Treatment.DUPLICATE,
    Delay: Treatment.DELAY,
    Hold: Treatment.HOLD,
    Reorder: Treatment.REORDER,
}
STANDING: Final = (FillDisk, FailDisk, SlowDisk, LoseUnsynced, SkewClock)
Undo = Callable[[], None]


class LocalFaults:
    """What is broken in this process, by number."""

    def __init__(self, universe: Universe) -> None:
        self._universe = universe
        self._undo: dict[int, Undo] = {}
        self._standing: dict[int, Local] = {}  # disks and clocks: there is one of each to mend

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
        node = node_name(fault.broker)
        if isinstance(fault, STANDING):
            self._stand(fault, node)
            self._standing[number] = fault
            self._undo[number] = lambda: self._fall(number, node)
            return
        if isinstance(fault, FlipBit):
            self._flip(fault, node)
            return
        undo = self._break_zookeeper(fault, node)
        if undo is not None:
            self._undo[number] = undo

    def undo(self, number: int) -> None:
        """Mend it, if there is anything to mend."""
        undo = self._undo.pop(number, None)
        if undo is not None:
            undo()

    def undo_all(self) -> tuple[int, ...]:
        """Mend all; the answer is what was mended."""
        numbers = tuple(self._undo)
        for number in numbers:
            self.undo(number)
        return numbers

    def _tamper(self, fault: OnLink, number: int) -> Undo:
        wants = Addressed(fault, self._universe.random(f"fault/{number}"))
        delay_ms = fault.ms if isinstance(fault, Delay) else 0
        if isinstance(fault, Duplicate):
            delay_ms = fault.later_ms
        rule = Rule(wants, TREATMENTS[type(fault)], delay_ms)
        self._universe.tamper.add(rule)
        return lambda: self._universe.tamper.remove(rule)

    def _tamper_requests(self, fault: OnRequest, number: int) -> Undo:
        wants = AddressedRequests(fault, self._universe.random(f"fault/{number}"))
        rules, rule = self._universe.tamper.requests, RequestRule(wants, fault)
        rules.append(rule)
        return lambda: rules.remove(rule) if rule in rules else None

    def _break_zookeeper(self, fault: Local, node: str) -> Undo | None:
        universe, tamper = self._universe, self._universe.watch_tamper(node)
        match fault:
            case DelayWatch() | LoseWatch():
                delay_ms = fault.ms if isinstance(fault, DelayWatch) else None
                tamper.rules.append(rule := WatchRule(fault.path, delay_ms, fault.times))
                return lambda: tamper.rules.remove(rule)
            case RefuseZooKeeper():
                tamper.refusals.append(refusal := Refusal(fault.path, fault.times))
                return lambda: tamper.refusals.remove(refusal)
            case LingerSession():
                self._only_simulated(universe.linger, node, fault.ms)
                return lambda: universe.linger(node, 0)
            case LoseReply():
                universe.spoil_reply(node)
                return None
            case _:
                raise AssertionError(f"{fault} is not done here")

    def _fall(self, number: int, node: str) -> None:
        """One of a disk's troubles is over; what else was done to it stays."""
        gone = self._standing.pop(number)
        self._universe.heal_disk(node)
        self._universe.skew(node, 0)
        for fault in self._standing.values():
            if fault.broker == gone.broker:
                self._stand(fault, node)

    def _stand(self, fault: Local, node: str) -> None:
        universe = self._universe
        match fault:
            case SkewClock():
                universe.skew(node, fault.ms)
            case FillDisk():
                universe.fill_disk(node)
            case SlowDisk():
                universe.slow_disk(node, fault.ms)
            case FailDisk():
                universe.fail_disk(node, fault.path)
            case LoseUnsynced():
                self._only_simulated(universe.forget_unsynced, node)
            case _:
                raise AssertionError(f"{fault} is not done here")

    def _only_simulated(self, breaks: Callable[..., None], *some: Any) -> None:
        try:
            breaks(*some)
        except NotImplementedError as error:
            raise FaultRefused(f"{error}: this is for the simulator") from None

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
