"""What is on the disks: indexes point where they say, and recovery gives back a prefix.

Rule: an index entry is looked at once, when it is new. A log is compared with what it was before
its broker died as soon as the broker holds it again, before anything was appended to it. A cut that
was not durable yet may be undone by a power cut. What was deleted on purpose has no past: a replica
that comes back later begins with nothing. A deletion is known by the answer to its order, and no
other order takes it back; until it is answered both may be true. It excuses the loss of what was
there before it, and of nothing that is written later. A topic that is made anew has its own past.
"""

from collections.abc import Sequence

from actors.broker.log.segment import Segment
from actors.faults.calls import Call, broker_at
from actors.faults.invariant import Invariant
from actors.faults.sight import Key, Seen, Sight
from actors.faults.violation import Violation
from wire.control import ControlResponse, StopReplica, StopReplicaResponse
from wire.errors import CorruptRecordBatch, ErrorCode
from wire.ids import Offset, TopicPartition
from wire.records import HEADER_BYTES, decode_header
from wire.trace import LogTruncated, RecordsAppended, TraceEvent

Where = tuple[str, TopicPartition]  # by node


class IndexesAreTrue(Invariant):
    """I-23."""

    name = "I-23"
    events = (LogTruncated, RecordsAppended)

    def __init__(self) -> None:
        self._looked: dict[Key, tuple[Seen, int, dict[Offset, int]]] = {}
        self._deleting: dict[Where, set[tuple[str, int]]] = {}  # by which calls; not answered yet
        self._deleted: set[Where] = set()  # and not seen since

    def on_event(self, node: str, event: TraceEvent) -> None:
        """A cut is durable before it is told of, and before anything is appended."""
        broker = broker_at(node)
        if isinstance(event, LogTruncated | RecordsAppended) and broker is not None:
            key = (int(broker), TopicPartition(event.topic, event.partition))
            seen = self.sight.all.get(key)
            if seen is not None:
                seen.uncut = []

    def on_control_arrived(self, call: Call) -> None:
        """Note what a broker is told to delete."""
        for where in _doomed(call):
            self._deleting.setdefault(where, set()).add((call.source, call.correlation))

    def on_control_answered(self, call: Call, response: ControlResponse) -> None:
        """It is deleted, unless the broker has refused."""
        if not isinstance(response, StopReplicaResponse):
            return
        is_refused = response.error_code is not ErrorCode.NONE
        kept = {e.partition for e in response.partitions if e.error_code is not ErrorCode.NONE}
        for where in _doomed(call):
            self._deleting.get(where, set()).discard((call.source, call.correlation))
            if not is_refused and where[1] not in kept:
                self._deleted.add(where)

    def check(self, changed: Sequence[Seen], sight: Sight) -> None:
        """Judge the logs that have changed."""
        del sight
        for seen in changed:
            where = (seen.node.world.node, seen.partition)
            if seen.before is not None:
                before, seen.before = seen.before, None
                is_excused = where in self._deleted or bool(self._deleting.get(where))
                if not is_excused and not seen.is_of_namesake(before):
                    self._judge_recovery(seen, before)
                if seen.node is not before.node:
                    self._deleting.pop(where, None)  # nobody answers for a former life
            self._deleted.discard(where)  # it is there again: its past begins now
            if seen.log is not None:
                self._judge_indexes(seen)

    def _judge_recovery(self, seen: Seen, before: Seen) -> None:
        log = seen.log
        is_same_log = log is before.log
        if is_same_log or before.log is None or (log is not None and log.config.is_compacted):
            return
        if log is not None and log.cuts:
            return  # it has been cut since it was recovered: what recovery gave is not to be seen
        kept = [batch for batch in before.batches if batch.last_offset >= seen.start]
        uncut = [batch for batch in before.uncut if batch.last_offset >= seen.start]
        count = len(seen.batches)
        if seen.batches not in (kept[:count], uncut[:count]):
            raise self._violation(
                seen, f"recovery gave {seen.batches}, no prefix of {kept}", seen.end
            )
        if seen.end < before.recovery_point:
            what = f"the log ends at {seen.end}, and was durable to {before.recovery_point}"
            raise self._violation(seen, what, seen.end)

    def _judge_indexes(self, seen: Seen) -> None:
        assert seen.log is not None
        key = (int(seen.broker), seen.partition)
        looked = self._looked.get(key)
        if looked is None or looked[0] is not seen or looked[1] != seen.cuts:
            looked = self._looked[key] = (seen, seen.cuts, {})
        counts = looked[2]
        for segment in seen.log.segments:
            count = segment.offsets.entries.count
            first = counts.get(segment.base_offset, 0)
            if count > first:
                counts[segment.base_offset] = count
                self._judge_entries(seen, segment, first)

    def _judge_entries(self, seen: Seen, segment: Segment, first: int) -> None:
        for entry in tuple(segment.offsets.all())[first:]:
            batch = seen.batch_at(entry.offset)
            try:
                header = decode_header(segment.file.read_at(entry.position, HEADER_BYTES))
            except CorruptRecordBatch as error:
                raise self._violation(seen, f"{entry}: {error}", entry.offset) from error
            if batch is None or (header.base_offset, header.crc) != (batch.base_offset, batch.crc):
                what = f"{entry} points to {header.base_offset}, and the offset is in {batch}"
                raise self._violation(seen, what, entry.offset)

    def _violation(self, seen: Seen, what: str, offset: Offset) -> Violation:
        return Violation(
            self.name, what, partition=seen.partition, brokers=(seen.broker,), offsets=(offset,)
        )


def _doomed(call: Call) -> list[Where]:
    request = call.request
    entries = request.partitions if isinstance(request, StopReplica) else ()
    return [(call.destination, each.partition) for each in entries if each.delete]
