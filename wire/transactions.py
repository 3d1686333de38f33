"""Producer ⇄ transaction coordinator, and coordinator → leader: who writes, and what of it counts.

Rule: a producer is fenced by its id and epoch in every one of these (KIP-98). What concerns a
transactional id is answered by the leader of its partition of __transaction_state; producers
without one may ask any broker who they are.
"""

from typing import TypeAlias

from msgspec import Struct

from wire.errors import ErrorCode
from wire.groups import OffsetCommitPartition
from wire.ids import (
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_TIMESTAMP_MS,
    Int32,
    Int64,
    ProducerEpoch,
    ProducerId,
    TopicPartition,
)
from wire.message import Message, PartitionResult, Request


class InitProducerIdResponse(Message, frozen=True, kw_only=True):
    """Who the producer is from now on."""

    error_code: ErrorCode = ErrorCode.NONE
    producer_id: ProducerId = NO_PRODUCER_ID
    producer_epoch: ProducerEpoch = NO_PRODUCER_EPOCH


class InitProducerId(Request[InitProducerIdResponse], frozen=True, kw_only=True):
    """Producer → any broker, or the coordinator of its transactional id: who am I?"""

    transactional_id: str | None = None
    transaction_timeout_ms: Int32 = 60_000
    producer_id: ProducerId = NO_PRODUCER_ID  # that it has: then only a new epoch is wanted
    producer_epoch: ProducerEpoch = NO_PRODUCER_EPOCH


class AddPartitionsToTxnResponse(Message, frozen=True, kw_only=True):
    """Per partition, whether it is in the transaction now."""

    partitions: tuple[PartitionResult, ...]


class AddPartitionsToTxn(Request[AddPartitionsToTxnResponse], frozen=True, kw_only=True):
    """Producer → coordinator: I am about to write to these."""

    transactional_id: str
    producer_id: ProducerId
    producer_epoch: ProducerEpoch
    partitions: tuple[TopicPartition, ...]


class AddOffsetsToTxnResponse(Message, frozen=True, kw_only=True):
    """Whether the group's partition is in the transaction now."""

    error_code: ErrorCode = ErrorCode.NONE


class AddOffsetsToTxn(Request[AddOffsetsToTxnResponse], frozen=True, kw_only=True):
    """Producer → coordinator: I am about to commit offsets of this group."""

    transactional_id: str
    producer_id: ProducerId
    producer_epoch: ProducerEpoch
    group_id: str


class EndTxnResponse(Message, frozen=True, kw_only=True):
    """Whether it is decided; the markers follow."""

    error_code: ErrorCode = ErrorCode.NONE


class EndTxn(Request[EndTxnResponse], frozen=True, kw_only=True):
    """Producer → coordinator: all of it counts, or nothing."""

    transactional_id: str
    producer_id: ProducerId
    producer_epoch: ProducerEpoch
    is_committed: bool


class TxnOffsetCommitResponse(Message, frozen=True, kw_only=True):
    """Per partition, whether the offset is in the log; it counts when the transaction commits."""

    partitions: tuple[PartitionResult, ...]


class TxnOffsetCommit(Request[TxnOffsetCommitResponse], frozen=True, kw_only=True):
    """Producer → the group's coordinator: remember these offsets if I commit."""

    transactional_id: str
    group_id: str
    producer_id: ProducerId
    producer_epoch: ProducerEpoch
    generation_id: Int32 = -1  # -1: the producer does not say which member it works for
    member_id: str = ""
    group_instance_id: str | None = None
    partitions: tuple[OffsetCommitPartition, ...]


class TxnMarker(Struct, frozen=True, kw_only=True, array_like=True, gc=False):
    """How a producer's transaction ended, for the partitions of one leader."""

    producer_id: ProducerId
    producer_epoch: ProducerEpoch
    is_committed: bool
    coordinator_epoch: Int32  # of the partition of __transaction_state
    partitions: tuple[TopicPartition, ...]


class TxnMarkerResult(Struct, frozen=True, kw_only=True, array_like=True, gc=False):
    """Per partition, whether the marker is as safe as acks=all."""

    producer_id: ProducerId
    partitions: tuple[PartitionResult, ...]


class WriteTxnMarkersResponse(Message, frozen=True, kw_only=True):
    """One result a marker."""

    markers: tuple[TxnMarkerResult, ...] = ()


class WriteTxnMarkers(Request[WriteTxnMarkersResponse], frozen=True, kw_only=True):
    """Coordinator → leader: these transactions have ended."""

    markers: tuple[TxnMarker, ...]


class DescribedTransaction(Struct, frozen=True, kw_only=True, array_like=True, gc=False):
    """One transactional id, as its coordinator knows it."""

    transactional_id: str
    error_code: ErrorCode = ErrorCode.NONE
    state: str = ""
    timeout_ms: Int32 = 0
    start_ms: Int64 = NO_TIMESTAMP_MS
    producer_id: ProducerId = NO_PRODUCER_ID
    producer_epoch: ProducerEpoch = NO_PRODUCER_EPOCH
    partitions: tuple[TopicPartition, ...] = ()


class DescribeTransactionsResponse(Message, frozen=True, kw_only=True):
    """In the order asked for."""

    error_code: ErrorCode = ErrorCode.NONE
    transactions: tuple[DescribedTransaction, ...] = ()


class DescribeTransactions(Request[DescribeTransactionsResponse], frozen=True, kw_only=True):
    """Admin → coordinator: what is the state of these?"""

    transactional_ids: tuple[str, ...]


class ListTransactionsResponse(Message, frozen=True, kw_only=True):
    """All that this broker coordinates."""

    error_code: ErrorCode = ErrorCode.NONE
    transactions: tuple[DescribedTransaction, ...] = ()


class ListTransactions(Request[ListTransactionsResponse], frozen=True, kw_only=True):
    """Admin → any broker: which transactions do you coordinate? No filter means all."""

    states: tuple[str, ...] = ()
    producer_ids: tuple[ProducerId, ...] = ()


TransactionRequest: TypeAlias = (
    InitProducerId
    | AddPartitionsToTxn
    | AddOffsetsToTxn
    | EndTxn
    | TxnOffsetCommit
    | WriteTxnMarkers
    | DescribeTransactions
    | ListTransactions
)
TransactionResponse: TypeAlias = (
    InitProducerIdResponse
    | AddPartitionsToTxnResponse
    | AddOffsetsToTxnResponse
    | EndTxnResponse
    | TxnOffsetCommitResponse
    | WriteTxnMarkersResponse
    | DescribeTransactionsResponse
    | ListTransactionsResponse
)
