"""What brokers answer: once, and to the point.

Rule: a request that has come twice may be answered twice, and one that came to a broker's former
life never. Of group offsets only what clients saw counts: a commit is older than another if it was
answered before the other was asked for; all else may have happened in any order.
"""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

from actors.coordinator.records import OFFSETS_TOPIC
from actors.faults.invariant import Exchange, Invariant
from actors.faults.sight import Sight
from actors.faults.violation import Violation
from wire.codec import AnyMessage
from wire.errors import ErrorCode
from wire.frame import ANSWERS, Frame, FrameKind
from wire.groups import OffsetCommit, OffsetCommitResponse, OffsetFetch, OffsetFetchResponse
from wire.ids import NO_OFFSET, Offset, TopicPartition
from wire.trace import NodeStopped, TraceEvent

PATIENCE_MS: Final = 60_000  # longer than anybody may let a request wait
Call = tuple[str, str, int]  # from, to, number


class OneAnswerARequest(Invariant):
    """I-24."""

    name = "I-24"
    events = (NodeStopped,)

    def __init__(self, patience_ms: float = PATIENCE_MS) -> None:
        self._patience_ms = patience_ms
        self._arrived: dict[Call, list[float]] = {}  # when, for each time that it came

    def on_event(self, node: str, event: TraceEvent) -> None:
        """A dead broker owes nobody an answer."""
        if isinstance(event, NodeStopped):
            for call in [call for call in self._arrived if call[1] == node]:
                del self._arrived[call]

    def on_arrival(self, frame: Frame, now_ms: float) -> None:
        """A broker has a request to answer."""
        if frame.kind is FrameKind.REQUEST:
            call = (frame.source, frame.destination, frame.correlation)
            self._arrived.setdefault(call, []).append(now_ms)

    def on_sent(self, frame: Frame) -> None:
        """A broker has answered one."""
        if frame.kind not in ANSWERS:
            return
        call = (frame.destination, frame.source, frame.correlation)
        times = self._arrived.get(call)
        if times:
            times.pop()
            if not times:
                del self._arrived[call]
        else:
            asked = f"request {frame.correlation} of {frame.destination}"
            self.found(f"{frame.source} answers {asked} once more")

    def check_in_the_end(self, sight: Sight, now_ms: float) -> None:
        """Nobody waits for longer than anything may take."""
        live = {node.world.node for node in sight.cluster.nodes.values() if node.system.is_up}
        for (source, node, number), times in self._arrived.items():
            if node in live and now_ms - times[0] > self._patience_ms:
                what = f"{node} has not answered request {number} of {source}, {times[0]:.0f} ms"
                raise Violation(self.name, what)


@dataclass
class _Commit:
    """A commit as its client saw it."""

    offset: Offset
    begun: int
    ended: int | None = None  # None: not acknowledged, or not yet


class CommittedOffsetsAreNotLost(Invariant):
    """I-25: a read after an acknowledged commit returns it or a later one."""

    name = "I-25"

    def __init__(self, voided: Collection[TopicPartition] = ()) -> None:
        self._voided = voided  # where what was committed may be gone
        self._commits: dict[tuple[str, TopicPartition], list[_Commit]] = {}

    def on_asked(self, request: AnyMessage, begun: int) -> None:
        """What is asked for may be done, whatever is answered."""
        if isinstance(request, OffsetCommit):
            for each in request.partitions:
                commits = self._commits.setdefault((request.group_id, each.partition), [])
                commits.append(_Commit(each.committed_offset, begun))

    def on_answered(self, exchange: Exchange, sight: Sight) -> None:
        """Note what was acknowledged; judge what was read."""
        request, response = exchange.request, exchange.response
        if isinstance(request, OffsetCommit) and isinstance(response, OffsetCommitResponse):
            for result in response.partitions:
                if result.error_code is ErrorCode.NONE:
                    for commit in self._commits[request.group_id, result.partition]:
                        if commit.begun == exchange.begun:
                            commit.ended = exchange.ended
        elif isinstance(request, OffsetFetch) and isinstance(response, OffsetFetchResponse):
            self._judge(exchange.begun, request, response)

    def _judge(self, begun: int, request: OffsetFetch, response: OffsetFetchResponse) -> None:
        if response.error_code is not ErrorCode.NONE:
            return
        if any(each.topic == OFFSETS_TOPIC for each in self._voided):
            return
        found = {
            each.partition: each.committed_offset
            for each in response.partitions
            if each.error_code is ErrorCode.NONE
        }
        failed = {each.partition for each in response.partitions} - found.keys()
        for (group, partition), commits in self._commits.items():
            is_asked = request.partitions is None or partition in request.partitions
            if group == request.group_id and is_asked and partition not in failed:
                allowed = _allowed(commits, begun)
                read = found.get(partition, NO_OFFSET)
                if read not in allowed:
                    self.found(
                        f"group {group} reads {read}; it may be {sorted(allowed)}",
                        partition=partition,
                        offsets=(read,),
                    )


def _allowed(commits: list[_Commit], begun: int) -> set[Offset]:
    """What a read that begins now may return."""
    done = [each for each in commits if each.ended is not None and each.ended < begun]
    latest = max((each.begun for each in done), default=-1)  # all that ended before it are over
    allowed = {each.offset for each in commits if each.ended is None or each.ended >= latest}
    return allowed if done else {*allowed, NO_OFFSET}
