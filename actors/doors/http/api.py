"""The operations as routes: one handler for all of them.

Rule: a route, its checks and its description are made from a row of the table, never written by
hand. Every request has a time limit and bounds.
"""

from collections.abc import Sequence
from typing import Any, Final, get_type_hints

import msgspec
from aiohttp import web

from actors.clients import Clients
from actors.doors.http.answers import EXPECTED, json, refusal_of
from actors.doors.http.guard import Refused
from actors.operations.operation import Operation

IN_BODY: Final = frozenset({"POST", "PUT", "PATCH"})
MAX_FIELDS: Final = 200
MAX_BODY_BYTES: Final = 1 << 20
MAX_RECORDS_BYTES: Final = 8 << 20


def add_operations(app: web.Application, operations: Sequence[Operation], clients: Clients) -> None:
    """A route for each."""
    for operation in operations:
        app.router.add_route(operation.method, operation.path, _handler(operation, clients))


def _handler(operation: Operation, clients: Clients) -> Any:
    async def handle(request: web.Request) -> web.Response:
        try:
            given = await given_by(request, operation)
            answer = await operation.run(clients, given)
        except EXPECTED as error:
            raise refusal_of(error) from error
        return json({"done": True} if answer is None else answer)

    return handle


async def given_by(request: web.Request, operation: Operation) -> Any:
    """What a request gives to its operation, checked."""
    if operation.method not in IN_BODY:
        # All of it is text, and becomes what its field is.
        fields = _with_path(_query(request, operation), request)
        return msgspec.convert(fields, operation.given, strict=False)
    if request.query:
        name = next(iter(request.query))
        raise Refused(400, "INVALID_REQUEST", f"{name!r:.100} belongs into the body")
    raw = await body_of(request, most_bytes(operation))
    try:
        given = msgspec.json.decode(raw) if raw else {}
    except RecursionError:
        raise Refused(400, "INVALID_REQUEST", "the body is nested too deeply") from None
    if not isinstance(given, dict):
        raise Refused(400, "INVALID_REQUEST", "the body must be a JSON object")
    if operation.read is not None:
        return operation.read(given)
    kinds = get_type_hints(operation.given, include_extras=True)
    fields = _with_path(given, request)
    for name in request.match_info:
        fields[name] = _converted(name, fields[name], kinds[name])
    return msgspec.convert(fields, operation.given)


async def body_of(request: web.Request, limit: int) -> bytes:
    """All of a request's body, unless it is too large."""
    body = bytearray()
    async for chunk in request.content.iter_any():
        body += chunk
        if len(body) > limit:
            raise Refused(413, "MESSAGE_TOO_LARGE", f"the body is larger than {limit} bytes")
    return bytes(body)


def most_bytes(operation: Operation) -> int:
    """Records may be large; all else is small."""
    has_records = "records" in getattr(operation.given, "__struct_fields__", ())
    return MAX_RECORDS_BYTES if has_records else MAX_BODY_BYTES


def _with_path(given: dict[str, Any], request: web.Request) -> dict[str, Any]:
    for name in request.match_info:
        if name in given:
            raise Refused(400, "INVALID_REQUEST", f"{name} is in the address already")
    return {**given, **request.match_info}


def _converted(name: str, text: str, kind: Any) -> Any:
    try:
        return msgspec.convert(text, kind, strict=False)
    except msgspec.ValidationError as error:
        raise Refused(400, "INVALID_REQUEST", f"{name}: {error}") from None


def _query(request: web.Request, operation: Operation) -> dict[str, Any]:
    """Lists may be repeated; all else is given once."""
    if len(request.query) > MAX_FIELDS:
        raise Refused(400, "INVALID_REQUEST", f"more than {MAX_FIELDS} fields were given")
    lists = list_fields(operation.given)
    fields: dict[str, Any] = {}
    for name in dict.fromkeys(request.query):
        values = request.query.getall(name)
        if name in lists:
            fields[name] = values
        elif len(values) > 1:
            raise Refused(400, "INVALID_REQUEST", f"{name!r:.100} was given twice")
        else:
            fields[name] = values[0]
    return fields


def list_fields(given: type[Any]) -> frozenset[str]:
    """The fields that hold several values."""
    info = msgspec.inspect.type_info(given)
    assert isinstance(info, msgspec.inspect.StructType)
    return frozenset(
        field.name
        for field in info.fields
        if any(isinstance(kind, _LISTS) for kind in _kinds(field.type))
    )


_LISTS: Final = (
    msgspec.inspect.ListType,
    msgspec.inspect.VarTupleType,
    msgspec.inspect.SetType,
)


def _kinds(kind: msgspec.inspect.Type) -> tuple[msgspec.inspect.Type, ...]:
    return kind.types if isinstance(kind, msgspec.inspect.UnionType) else (kind,)


def path_fields(operation: Operation) -> set[str]:
    """What an operation is given in its address."""
    return set(names_in(operation.path))


def names_in(path: str) -> list[str]:
    """The names in braces."""
    return [part[1:-1] for part in path.split("/") if part.startswith("{")]
