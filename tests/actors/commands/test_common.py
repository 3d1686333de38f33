"""What the commands share: pairs, files, and the refusal of both."""

import pytest

from actors.commands.common import client_options, config_pairs, given_as, key_values, read_json
from actors.operations.operation import BadInput
from actors.operations.topics import CreateTopic


def test_brackets_keep_the_commas_of_a_list():
    assert key_values("a=1, b=[x,y],c=") == {"a": "1", "b": "x,y", "c": ""}


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("a", "'a' is no KEY=VALUE"),
        ("=1", "'=1' is no KEY=VALUE"),
        ("a=1,", "'' is no KEY=VALUE"),
        ("a=1,a=2", "a is given twice"),
    ],
)
def test_what_is_no_pair_is_refused(text, sentence):
    with pytest.raises(BadInput, match=sentence):
        key_values(text)
    with pytest.raises(BadInput, match=sentence):
        config_pairs(text.split(","))


def test_properties_of_clients_become_what_they_are():
    given = client_options(["linger.ms=5", "acks=-1", "check.crcs=False", "group.id=a=b"])

    assert given == {"linger.ms": 5, "acks": -1, "check.crcs": False, "group.id": "a=b"}


def test_bounds_are_told_with_the_field():
    with pytest.raises(BadInput, match=r"^partitions: .*>= 1"):
        given_as(CreateTopic, topic="orders", partitions=0)


def test_a_file_of_json_is_read(tmp_path):
    path = tmp_path / "plan.json"
    path.write_text('{"a": [1]}')

    assert read_json(path) == '{"a": [1]}'


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (
            '{"a": 1,\n  "b": [1,\n ]}',
            "line 3, column 2: a comma before ']'; it must be removed",
        ),
        ('{"a": 1,\n}', "line 2, column 1: a comma before '}'; it must be removed"),
        ('[1,]', "line 1, column 4: a comma before ']'; it must be removed"),
        ('{"a": }', "line 1, column 7: expecting value"),
        ('{"a": [1,', "line 1, column 10: expecting value"),
        ("", "line 1, column 1: expecting value"),
        ("[" * 100_000, "recursion"),
        ("9" * 5_000, "digits"),
    ],
)  # fmt: skip
def test_what_is_wrong_in_a_file_is_told_with_its_place(tmp_path, text, sentence):
    path = tmp_path / "plan.json"
    path.write_text(text)

    with pytest.raises(BadInput) as refused:
        read_json(path)

    assert str(refused.value).startswith(str(path))
    assert sentence in str(refused.value)


def test_a_file_that_cannot_be_read_is_told_with_the_reason(tmp_path):
    (tmp_path / "binary").write_bytes(b"\xff\xfe")

    for name, reason in (("none", "No such file"), ("binary", "is no text"), ("", "Is a dir")):
        with pytest.raises(BadInput, match=reason):
            read_json(tmp_path / name)
