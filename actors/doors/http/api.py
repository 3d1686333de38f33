"""The operations as routes: one handler for all of them.

Rule: a route, its checks and its description are made from a row of the table, never written by
hand. Every request has a time limit and bounds.
"""

from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Final

import msgspec
from aiohttp import web

from actors.clients import Clients
from actors.doors.http.answers import EXPECTED, json, refusal_of
from actors.doors.http.guard import Refused
from actors.operations.operation import Operation

IN_BODY: Final = frozenset({"POST", "PUT", "PATCH"})
MAX_FIELDS: Final = 200


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
    if operation.method in IN_BODY:
        raw = await request.read()
        fields = msgspec.json.decode(raw) if raw else {}
        if not isinstance(fields, dict):
            raise Refused(400, "INVALID_REQUEST", "the body must be a JSON object")
        if request.query:
            name = next(iter(request.query))
            raise Refused(400, "INVALID_REQUEST", f"{name!r:.100} belongs into the body")
    else:
        fields = _query(request, operation)
    for name, value in request.match_info.items():
        if name in fields:
            raise Refused(400, "INVALID_REQUEST", f"{name} is in the address already")
        fields[name] = value
    return msgspec.convert(_numbers(fields, operation), operation.given, strict=True)


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


def _numbers(fields: dict[str, Any], operation: Operation) -> dict[str, Any]:
    """Text in addresses and queries becomes what its field is; a body is taken as it is."""
    in_text = set(fields) if operation.method not in IN_BODY else path_fields(operation)
    info = msgspec.inspect.type_info(operation.given)
    assert isinstance(info, msgspec.inspect.StructType)
    kinds = {field.name: field.type for field in info.fields}
    found = dict(fields)
    for name in in_text & kinds.keys() & fields.keys():
        names = {type(kind) for kind in _kinds(kinds[name])}
        if msgspec.inspect.StrType not in names:
            with suppress(msgspec.ValidationError):  # told by the conversion of the whole
                found[name] = _loose(fields[name], names)
    return found


def _loose(value: Any, kinds: set[type[msgspec.inspect.Type]]) -> Any:
    if msgspec.inspect.IntType in kinds:
        return msgspec.convert(value, int, strict=False)
    if msgspec.inspect.FloatType in kinds:
        return msgspec.convert(value, float, strict=False)
    if msgspec.inspect.BoolType in kinds:
        return msgspec.convert(value, bool, strict=False)
    if kinds & set(_LISTS):
        return [_whole_or_text(each) for each in value]
    return value


def _whole_or_text(text: str) -> int | str:
    return int(text) if text.isdecimal() else text


def path_fields(operation: Operation) -> set[str]:
    """The names in braces."""
    return {part[1:-1] for part in operation.path.split("/") if part.startswith("{")}
