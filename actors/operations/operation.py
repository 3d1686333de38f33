"""One thing that people do with a cluster, on the command line or over HTTP.

Rule: all of what is given is checked before anything is changed; the answer is a value, and what it
looks like is the door's business.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from actors.clients import Clients


class BadInput(ValueError):
    """What was given cannot be done; the sentence names the culprit and what would be right."""


@dataclass(frozen=True)
class Operation:
    """A row of the table that the command line, HTTP and OpenAPI are made from."""

    name: str  # OpenAPI's operationId
    method: str
    path: str  # parts in braces are fields of `given`
    summary: str
    given: Any  # a Struct; in a body also a union of them, told apart by `read`
    answer: Any  # a type: a Struct, a list of them, or None
    run: Callable[[Clients, Any], Awaitable[Any]]
    read: Callable[[dict[str, Any]], Any] | None = None  # how a body becomes `given`, if unusual
