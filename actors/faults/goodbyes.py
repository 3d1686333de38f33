"""Brokers that say goodbye lead nothing that others could lead.

Rule: an answer is judged by what the controller believes when it gives it; who is in sync, by
ZooKeeper too, where it has just looked (an election that fails leaves what it believes as it was,
B047). What happens under another controller meanwhile is no matter of the one that answered.
"""

from typing import TypeGuard

from actors.controller.context import ControllerContext
from actors.faults.calls import Call, broker_at
from actors.faults.invariant import Invariant
from actors.faults.sight import Sight
from actors.faults.violation import Violation
from wire.control import ControlledShutdown, ControlledShutdownResponse, ControlResponse
from wire.errors import ErrorCode
from wire.ids import BrokerId, TopicPartition
from wire.message import Message
from wire.trace import ControlledShutdownTried, ControllerElected, TraceEvent


class GoodbyesTellWhatRemains(Invariant):
    """I-17: the answer names exactly the shared partitions that the broker still leads."""

    name = "I-17"

    def on_control_answered(self, call: Call, response: ControlResponse) -> None:
        """Compare the answer with the controller's own context."""
        context = _context(self.sight, call.destination)
        if context is None or not _is_goodbye(call.request) or not _is_granted(response):
            return
        broker = call.request.broker_id
        led = _still_led(context, broker)
        if set(response.remaining_partitions) != led:
            told, right = sorted(response.remaining_partitions), sorted(led)
            self.found(f"broker {broker} was told that {told} remain, not {right}")


class GoodbyesEndAtOnce(Invariant):
    """L-5: nothing remains that another in-sync replica could lead; who may go leads nothing."""

    name = "L-5"
    events = (ControlledShutdownTried, ControllerElected)

    def __init__(self) -> None:
        self._wrong: list[Violation] = []
        self._asked_in: dict[int, int] = {}  # the reign in which each broker last got its answer
        self._reign = 0

    def on_control_answered(self, call: Call, response: ControlResponse) -> None:
        """Judge what remains."""
        context = _context(self.sight, call.destination)
        if context is None or not _is_goodbye(call.request) or not _is_granted(response):
            return
        broker = call.request.broker_id
        self._asked_in[broker] = self._reign
        for partition in response.remaining_partitions:
            leadership = context.leaderships.get(partition)
            known = self.ledger.states.get(partition)
            in_sync = () if known is None else known.state.isr
            others = () if leadership is None else set(leadership.isr) & set(in_sync)
            able = [
                each
                for each in sorted(others)
                if each != broker and context.is_online(partition, each)
            ]
            if able and not context.is_queued_for_deletion(partition.topic):
                what = f"broker {broker} still leads it, and {able} could"
                self._wrong.append(Violation(self.name, what, partition=partition))

    def on_event(self, node: str, event: TraceEvent) -> None:
        """Judge a broker that goes with a blessing, if it is of those who reign."""
        if isinstance(event, ControllerElected):
            self._reign = event.controller_epoch
        elif isinstance(event, ControlledShutdownTried) and event.outcome == "ok":
            if self._asked_in.get(event.broker) != self._reign:
                return
            for partition, (state, _) in self.ledger.states.items():
                assignment = self.ledger.assignment(partition)
                is_shared = assignment is not None and len(assignment.replicas) > 1
                if state.leader == event.broker and is_shared and len(state.isr) > 1:
                    what = f"{node} goes, and leads it: {state}"
                    self._wrong.append(Violation(self.name, what, partition=partition))

    def check_in_the_end(self, sight: Sight, now_ms: float) -> None:
        """Raise the first that was found."""
        del sight, now_ms
        for violation in self._wrong:
            raise violation


def _is_goodbye(request: Message) -> TypeGuard[ControlledShutdown]:
    return isinstance(request, ControlledShutdown)


def _is_granted(response: Message) -> TypeGuard[ControlledShutdownResponse]:
    if not isinstance(response, ControlledShutdownResponse):
        return False
    return response.error_code is ErrorCode.NONE


def _context(sight: Sight, node: str) -> ControllerContext | None:
    broker = broker_at(node)
    found = sight.cluster.nodes.get(-1 if broker is None else int(broker))
    return None if found is None else found.controller.established


def _still_led(context: ControllerContext, broker: BrokerId) -> set[TopicPartition]:
    return {
        partition
        for partition, leadership in context.leaderships.items()
        if leadership.leader == broker and len(context.replicas(partition)) > 1
    }
