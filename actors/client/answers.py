"""A broker's answers, partition by partition.

Rule: whoever was asked about partitions answers for each of them once and for no other; anything
else is a MalformedMessage, since a client that went on would wait or ask for ever.
"""

from collections.abc import Collection, Iterable
from typing import Protocol, TypeVar

from wire.errors import ApiError, ErrorCode, MalformedMessage, exception_of
from wire.ids import TopicPartition


class Answered(Protocol):
    """A result for one partition."""

    @property
    def partition(self) -> TopicPartition:
        """Which one."""

    @property
    def error_code(self) -> ErrorCode:
        """NONE if all went well."""


AnsweredType = TypeVar("AnsweredType", bound=Answered)


def by_partition(
    asked: Collection[TopicPartition], results: Iterable[AnsweredType], what: str
) -> dict[TopicPartition, AnsweredType]:
    """The results, one for each partition that was asked about; `what` names the request."""
    answered: dict[TopicPartition, AnsweredType] = {}
    for each in results:
        if each.partition in answered:
            raise MalformedMessage(f"{what} was answered twice for {each.partition}")
        answered[each.partition] = each
    if missing := sorted(set(asked) - answered.keys()):
        raise MalformedMessage(f"{what} was not answered for {missing[0]}")
    if foreign := sorted(answered.keys() - set(asked)):
        raise MalformedMessage(f"{what} was answered for {foreign[0]}, which nobody asked about")
    return answered


def error_of(result: Answered, what: str) -> ApiError:
    """The exception that a result with an error amounts to; `what` was being done."""
    sentence = getattr(result, "error_message", None) or result.error_code.name
    return exception_of(result.error_code)(f"{what} {result.partition}: {sentence}")
