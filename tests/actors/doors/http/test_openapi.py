import re

import pytest

from actors.faults.vocabulary import KINDS
from actors.operations.table import OPERATIONS
from tests.support.fake_source import FakeSource, served


@pytest.fixture
async def document():
    async with served(FakeSource()) as (_, client), client.get("/openapi.json") as answer:
        assert answer.status == 200
        yield await answer.json()


def described(document):
    return [
        (path, method, operation)
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
    ]


def references(value):
    if isinstance(value, dict):
        for key, each in value.items():
            if key == "$ref":
                yield each
            else:
                yield from references(each)
    elif isinstance(value, list):
        for each in value:
            yield from references(each)


async def test_what_is_routed_is_described_and_nothing_else(document):
    async with served(FakeSource()) as (server, _):
        routed = {
            (route.resource.canonical, route.method)
            for route in server._app().router.routes()
            if route.method != "HEAD"
        }

    assert {(path, method.upper()) for path, method, _ in described(document)} == routed


async def test_every_operation_of_the_table_is_there_by_its_name(document):
    names = [operation["operationId"] for _, _, operation in described(document)]

    assert {each.name for each in OPERATIONS} <= set(names)
    assert len(names) == len(set(names))


async def test_every_operation_says_what_it_does_and_answers(document):
    for path, method, operation in described(document):
        assert operation["summary"].endswith("."), path
        assert operation["responses"], path
        for status, response in operation["responses"].items():
            assert re.fullmatch(r"[1-5]\d\d", status)
            assert response["description"]
        assert ("requestBody" in operation) == (method in {"post", "put", "patch"}), path


async def test_what_is_in_braces_is_a_parameter_and_the_other_way_round(document):
    for path, _, operation in described(document):
        in_path = [each for each in operation["parameters"] if each["in"] == "path"]
        assert sorted(each["name"] for each in in_path) == sorted(re.findall(r"{(\w+)}", path))
        assert all(each["required"] for each in in_path)
        assert all(each["schema"] for each in operation["parameters"])


async def test_every_reference_leads_somewhere(document):
    found = list(references(document))

    assert found
    for reference in found:
        head, _, name = reference.rpartition("/")
        assert head == "#/components/schemas"
        assert name in document["components"]["schemas"]


async def test_a_field_of_a_body_is_described_once_and_not_if_it_is_in_the_address(document):
    body = document["paths"]["/api/topics/{topic}/records"]["post"]["requestBody"]
    schema = body["content"]["application/json"]["schema"]

    assert "topic" not in schema["properties"]
    assert document["openapi"] == "3.1.0"


async def test_every_fault_of_the_vocabulary_is_described_with_its_fields(document):
    body = document["paths"]["/api/faults"]["post"]["requestBody"]
    schema = body["content"]["application/json"]["schema"]
    mapping = schema["discriminator"]["mapping"]

    assert schema["discriminator"]["propertyName"] == "fault"
    assert set(mapping) == set(KINDS)
    drop = document["components"]["schemas"][mapping["drop"].rpartition("/")[2]]
    assert set(drop["properties"]) == {"fault", *KINDS["drop"].__struct_fields__}
