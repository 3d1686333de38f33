"""What a fenced producer is told.

Rule: PRODUCER_FENCED came with KIP-588; who speaks an older version is told INVALID_PRODUCER_EPOCH.
"""

from wire.errors import ErrorCode


def fenced_as(code: ErrorCode, version: int, *, since: int) -> ErrorCode:
    """The code, as that version of an API knows it."""
    is_new = code is ErrorCode.PRODUCER_FENCED and version < since
    return ErrorCode.INVALID_PRODUCER_EPOCH if is_new else code
