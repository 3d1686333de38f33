"""Many writes as few multis, with a result for each.

Rule: the writes happen in their order, as if one by one. When one fails its batch, it is set aside
and the rest is sent again; when many fail, the batch is sent one by one. Each multi begins with the
check, so that nothing is written after somebody else has moved on.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any, Final, TypeVar

from runtime.keeper import (
    Check,
    CheckFailed,
    Create,
    KeeperError,
    MultiFailed,
    Operation,
    Set,
    Written,
    batches,
)

T = TypeVar("T")
Multi = Callable[[Sequence[Operation]], Awaitable[list[Written]]]
MANY_FAILURES: Final = 8  # after these, one by one is cheaper than again and again
HEADER_BYTES: Final = 64  # what surrounds a path and its data in a request, at most


def size_of(operation: Operation) -> int:
    """About how many bytes an operation takes in a request."""
    data = len(operation.data) if isinstance(operation, Create | Set) else 0
    return HEADER_BYTES + len(operation.path) + data


async def write_in_bulk(
    multi: Multi, operations: Sequence[Operation], check: Check | None
) -> list[Written | KeeperError]:
    """Write all that can be written; raise CheckFailed once the check fails."""
    results: list[Written | KeeperError] = []
    for batch in batches(operations, size_of):
        results += await _write_batch(multi, batch, check)
    return results


async def _write_batch(
    multi: Multi, batch: Sequence[Operation], check: Check | None
) -> list[Written | KeeperError]:
    results: dict[int, Written | KeeperError] = {}
    waiting = list(range(len(batch)))
    while waiting and len(results) < MANY_FAILURES:
        try:
            written = await _checked(multi, [batch[index] for index in waiting], check)
        except MultiFailed as failure:
            results[waiting.pop(failure.index)] = failure.error
        else:
            results.update(zip(waiting, written, strict=True))
            waiting = []
    # Sent together, since a session keeps its order: only the answers are waited for one by one.
    answers = await all_of([_alone(multi, batch[index], check) for index in waiting])
    results.update(zip(waiting, answers, strict=True))
    return [results[index] for index in range(len(batch))]


async def _checked(multi: Multi, operations: list[Operation], check: Check | None) -> list[Written]:
    if check is None:
        return await multi(operations)
    try:
        return (await multi([check, *operations]))[1:]
    except MultiFailed as failure:
        if failure.index == 0:
            raise CheckFailed(check.path, f"version {check.version} is not current") from failure
        raise MultiFailed(failure.index - 1, failure.error) from failure


async def _alone(multi: Multi, operation: Operation, check: Check | None) -> Written | KeeperError:
    try:
        return (await _checked(multi, [operation], check))[0]
    except MultiFailed as failure:
        return failure.error


async def all_of(work: Sequence[Coroutine[Any, Any, T]]) -> list[T]:
    """Begin all at once, wait for all, and raise the first error if there is one.

    Not asyncio.gather: that leaves the others running, or mixes up what was raised with errors
    that are values.
    """
    tasks = [asyncio.ensure_future(each) for each in work]
    try:
        if tasks:
            await asyncio.wait(tasks)
    except asyncio.CancelledError:
        for task in tasks:
            task.cancel()
        raise
    for error in [task.exception() for task in tasks]:
        if error is not None:
            raise error
    return [task.result() for task in tasks]
