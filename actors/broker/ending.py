"""How a leader ends transactions: it writes the markers that their coordinator sends.

Rule: a marker is answered once all in-sync replicas have it, each partition by itself. Offsets that
were committed in the transaction count from then on: the group's coordinator is told first.
"""

from functools import partial
from typing import Final

from actors.administration.auto_topics import OFFSETS_TOPIC
from actors.asked import Asked
from actors.broker.leading import ALL, Leading
from actors.broker.local import TransactionEnded
from runtime.ref import Receiver
from wire.data import ProduceResult
from wire.errors import ErrorCode
from wire.markers import Marker, encode_marker
from wire.message import PartitionResult
from wire.transactions import (
    TxnMarker,
    TxnMarkerResult,
    WriteTxnMarkers,
    WriteTxnMarkersResponse,
)

TIMEOUT_MS: Final = 30_000  # as request.timeout.ms, which Kafka's brokers use for it


async def write_markers(
    leading: Leading,
    asked: Asked,
    request: WriteTxnMarkers,
    now_ms: int,
    coordinator: Receiver | None,
) -> None:
    """Append them, and answer when all are as safe as can be."""
    results: dict[int, TxnMarkerResult] = {}

    def done(number: int, written: tuple[ProduceResult, ...]) -> None:
        marker = request.markers[number]
        partitions = tuple(PartitionResult(each.partition, each.error_code) for each in written)
        results[number] = TxnMarkerResult(producer_id=marker.producer_id, partitions=partitions)
        for each in written:
            is_ended = each.error_code is ErrorCode.NONE
            if is_ended and each.partition.topic == OFFSETS_TOPIC and coordinator is not None:
                producer, is_committed = marker.producer_id, marker.is_committed
                coordinator.tell(TransactionEnded(each.partition, producer, is_committed))
        if len(results) == len(request.markers):
            found = tuple(results[each] for each in range(len(results)))
            asked.answer(WriteTxnMarkersResponse(markers=found))

    for number, marker in enumerate(request.markers):
        batch = _batch_of(marker, now_ms)
        batches = {each: bytearray(batch) for each in marker.partitions}
        await leading.append(batches, ALL, TIMEOUT_MS, partial(done, number), is_internal=True)
    if not request.markers:
        asked.answer(WriteTxnMarkersResponse())


def _batch_of(marker: TxnMarker, now_ms: int) -> bytearray:
    end = Marker(marker.is_committed, marker.coordinator_epoch)
    return encode_marker(marker.producer_id, marker.producer_epoch, end, now_ms)
