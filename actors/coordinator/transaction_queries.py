"""What administrators are told of transactions.

Rule: pure; a coordinator speaks only of what it coordinates.
"""

from actors.coordinator.transaction_shards import TransactionShards
from actors.coordinator.transaction_states import Transaction
from wire.errors import ApiError, CoordinatorLoadInProgress, ErrorCode
from wire.transactions import (
    DescribedTransaction,
    DescribeTransactions,
    DescribeTransactionsResponse,
    ListTransactions,
    ListTransactionsResponse,
)


def describe_transactions(
    shards: TransactionShards, request: DescribeTransactions
) -> DescribeTransactionsResponse:
    """Each by itself."""
    found = tuple(_describe(shards, each) for each in request.transactional_ids)
    return DescribeTransactionsResponse(transactions=found)


def _describe(shards: TransactionShards, transactional_id: str) -> DescribedTransaction:
    try:
        known = shards.of(transactional_id).transactions.get(transactional_id)
    except ApiError as error:
        return DescribedTransaction(transactional_id=transactional_id, error_code=error.code)
    if known is None:
        code = ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
        return DescribedTransaction(transactional_id=transactional_id, error_code=code)
    return _described(known)


def _described(known: Transaction) -> DescribedTransaction:
    value = known.value
    return DescribedTransaction(
        transactional_id=known.transactional_id,
        state=value.state.words,
        timeout_ms=value.timeout_ms,
        start_ms=value.start_ms,
        producer_id=value.producer_id,
        producer_epoch=value.producer_epoch,
        partitions=tuple(sorted(value.partitions)),
    )


def list_transactions(
    shards: TransactionShards, request: ListTransactions
) -> ListTransactionsResponse:
    """All that pass the filters; while any partition is being read, the list would be short."""
    if len(shards.loaded()) < len(shards.all()):
        raise CoordinatorLoadInProgress("__transaction_state is being read.")
    found = (_described(each) for shard in shards.all() for each in shard.transactions.values())
    return ListTransactionsResponse(
        transactions=tuple(
            each
            for each in found
            if not request.states or each.state in request.states
            if not request.producer_ids or each.producer_id in request.producer_ids
        )
    )
