"""Which of the batches that were fetched belong to transactions that were aborted.

Rule: as Kafka's Fetcher: the leader says from where on a producer's records do not count, and the
producer's marker in the log ends that. Pure.
"""

from collections import deque
from collections.abc import Iterable, Sequence

from wire.data import AbortedTransaction
from wire.ids import Offset, ProducerId
from wire.markers import decode_marker
from wire.records import RecordBatch


def aborted_batches(
    batches: Iterable[RecordBatch], aborted: Sequence[AbortedTransaction]
) -> frozenset[Offset]:
    """The base offsets of those to pass over."""
    if not aborted:
        return frozenset()
    coming = deque(sorted(aborted, key=lambda each: each.first_offset))
    producers: set[ProducerId] = set()
    found: set[Offset] = set()
    for batch in batches:
        header = batch.header
        while coming and coming[0].first_offset <= header.last_offset:
            producers.add(coming.popleft().producer_id)
        if header.producer_id not in producers:
            continue
        if header.is_control:
            marker = decode_marker(batch)
            if marker is not None and not marker.is_committed:
                producers.discard(header.producer_id)
        elif header.is_transactional:
            found.add(header.base_offset)
    return frozenset(found)
