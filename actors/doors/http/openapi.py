"""A description of the API that other people's tools read.

Rule: it is made from the table of operations and the server's own few routes; nothing is described
that is not routed, and nothing is routed that is not described.
"""

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import msgspec

from actors.doors.http.api import IN_BODY, names_in, path_fields
from actors.operations.operation import Operation

REF: Final = "#/components/schemas/{name}"
ERRORS: Final = {
    "400": "What was given cannot be done.",
    "401": "A token is needed.",
    "403": "Refused: another site's request, or faults are off.",
    "404": "There is no such thing.",
    "409": "It contradicts what is there.",
    "413": "It is too large.",
    "503": "The cluster did not answer in time.",
}
JSON: Final = "application/json"
TEXT: Final = "text/plain"
HTML: Final = "text/html"


class OwnRoute(NamedTuple):
    """A route that is no operation."""

    name: str
    method: str
    path: str
    summary: str
    answers: str  # the type of its content
    statuses: tuple[str, ...] = ("200",)


OWN_ROUTES: Final = (
    OwnRoute("showPage", "GET", "/", "The live page.", HTML, ("200", "303")),
    OwnRoute("showFile", "GET", "/static/{name}", "A file of the page.", TEXT, ("200", "404")),
    OwnRoute("live", "GET", "/live", "A WebSocket that tells what changes.", JSON, ("101", "503")),
    OwnRoute("showLogin", "GET", "/login", "A form for the token.", HTML),
    OwnRoute("logIn", "POST", "/login", "Change the token for a cookie.", HTML, ("303", "401")),
    OwnRoute("metrics", "GET", "/metrics", "Kafka's MBeans, for Prometheus.", TEXT),
    OwnRoute("isAlive", "GET", "/healthz", "Whether this process lives.", JSON),
    OwnRoute(
        "isReady",
        "GET",
        "/readyz",
        "Whether there is a controller, and a leader for every partition.",
        JSON,
        ("200", "503"),
    ),
    OwnRoute("listNodes", "GET", "/nodes", "Where the brokers can be reached.", JSON),
    OwnRoute("describeApi", "GET", "/openapi.json", "This description.", JSON),
)
STATUSES: Final = {
    "101": "Switching to a WebSocket.",
    "200": "Here it is.",
    "303": "Elsewhere.",
}


class Error(msgspec.Struct):
    """What is answered when something is refused."""

    error: str
    message: str


def describe(operations: Sequence[Operation]) -> dict[str, Any]:
    """An OpenAPI 3.1 document."""
    kinds: list[Any] = [Error]
    for operation in operations:
        kinds.append(operation.given)
        if operation.answer is not None:
            kinds.append(operation.answer)
    schemas, components = msgspec.json.schema_components(kinds, ref_template=REF)
    schema_of = {_key(kind): schema for kind, schema in zip(kinds, schemas, strict=True)}
    paths: dict[str, dict[str, Any]] = {}
    for operation in operations:
        described = _operation(operation, schema_of, components)
        paths.setdefault(operation.path, {})[operation.method.lower()] = described
    for own in OWN_ROUTES:
        paths.setdefault(own.path, {})[own.method.lower()] = _own(own)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Understudy",
            "version": "1",
            "description": "A Kafka-style cluster that fails on command.",
        },
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{}, {"token": []}],
    }


def _own(route: OwnRoute) -> dict[str, Any]:
    error = {"application/json": {"schema": {"$ref": REF.format(name="Error")}}}
    described: dict[str, Any] = {
        "operationId": route.name,
        "summary": route.summary,
        "parameters": [
            {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
            for name in names_in(route.path)
        ],
        "responses": {
            status: {"description": ERRORS[status], "content": error}
            if status in ERRORS
            else {"description": STATUSES[status], "content": {route.answers: {}}}
            for status in route.statuses
        },
    }
    if route.method == "POST":
        form = {"type": "object", "properties": {"token": {"type": "string"}}}
        content = {"application/x-www-form-urlencoded": {"schema": form}}
        described["requestBody"] = {"required": True, "content": content}
    return described


def _key(kind: Any) -> str:
    return repr(kind)


def _operation(
    operation: Operation, schema_of: dict[str, Any], components: dict[str, Any]
) -> dict[str, Any]:
    given = _resolved(schema_of[_key(operation.given)], components)
    in_path = path_fields(operation)
    required = set(given.get("required", ()))
    properties = given.get("properties", {})
    described: dict[str, Any] = {
        "operationId": operation.name,
        "summary": operation.summary,
        "parameters": [
            {
                "name": name,
                "in": "path" if name in in_path else "query",
                "required": name in in_path or name in required,
                "schema": schema,
            }
            for name, schema in properties.items()
            if name in in_path or operation.method not in IN_BODY
        ],
        "responses": _responses(operation, schema_of),
    }
    if operation.read is not None:
        one_of = {"application/json": {"schema": schema_of[_key(operation.given)]}}
        described["requestBody"] = {"required": True, "content": one_of}
    elif operation.method in IN_BODY:
        body = {name: schema for name, schema in properties.items() if name not in in_path}
        content = {
            "type": "object",
            "properties": body,
            "required": sorted(required - in_path),
            "additionalProperties": False,
        }
        described["requestBody"] = {
            "required": bool(required - in_path),
            "content": {"application/json": {"schema": content}},
        }
    return described


def _responses(operation: Operation, schema_of: dict[str, Any]) -> dict[str, Any]:
    if operation.answer is None:
        answer: Any = {"type": "object", "properties": {"done": {"type": "boolean"}}}
    else:
        answer = schema_of[_key(operation.answer)]
    error = {"application/json": {"schema": {"$ref": REF.format(name="Error")}}}
    return {
        "200": {"description": "Done.", "content": {"application/json": {"schema": answer}}},
        **{code: {"description": text, "content": error} for code, text in ERRORS.items()},
    }


def _resolved(schema: dict[str, Any], components: dict[str, Any]) -> dict[str, Any]:
    reference = schema.get("$ref")
    if reference is None:
        return schema
    resolved: dict[str, Any] = components[reference.rpartition("/")[2]]
    return resolved
