"""Several of our own messages for one of Kafka's.

Rule: all are asked at once, and the call is answered when the last of them is, in their order.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeVar

from actors.doors.kafka.call import Call
from wire.message import Message, Request

Response = TypeVar("Response", bound=Message)


def ask_each(
    call: Call,
    requests: Sequence[Request[Response]],
    then: Callable[[Sequence[Response]], None],
) -> None:
    """Ask, and go on when all have been answered."""
    answers: dict[int, Response] = {}

    def take(number: int, response: Response) -> None:
        answers[number] = response
        if len(answers) == len(requests):
            then([answers[each] for each in range(len(requests))])

    if not requests:
        then(())
    for number, request in enumerate(requests):
        call.ask(request, partial(take, number))
