"""Error codes and the exceptions that carry them."""

import re

import pytest

from tests.wire.kafka_python import kafka_errors
from wire import errors
from wire.errors import ApiError, ErrorCode, MalformedMessage, MalformedZNode, exception_of

# kafka-python keeps the names that these codes had before they were renamed.
RENAMED = {
    -1: "UNKNOWN",
    0: "NO_ERROR",
    6: "NOT_LEADER_FOR_PARTITION",
    10: "MESSAGE_SIZE_TOO_LARGE",
    17: "INVALID_TOPIC",
    39: "INVALID_REPLICATION_ASSIGNMENT",
}
# Apache Kafka's table says True; kafka-python does not.
RETRIABLE_IN_KAFKA_ONLY = {ErrorCode.CORRUPT_MESSAGE}

THEIRS = {code: error for code, error in kafka_errors.items() if code is not None}


def test_the_codes_have_no_gaps_from_minus_one_on():
    assert [code.value for code in ErrorCode] == list(range(-1, 134))


def test_names_and_numbers_are_those_of_kafka_python():
    assert len(THEIRS) > 120
    for code, error in THEIRS.items():
        assert RENAMED.get(code, ErrorCode(code).name) == error.message


def test_retriable_are_those_of_kafka_python():
    theirs = {ErrorCode(code) for code, error in THEIRS.items() if error.retriable}
    ours = {code for code in ErrorCode if code.is_retriable and code.value in THEIRS}

    assert ours == theirs | RETRIABLE_IN_KAFKA_ONLY


@pytest.mark.parametrize("code", [code for code in ErrorCode if code is not ErrorCode.NONE])
def test_every_code_but_none_has_an_exception_that_carries_it(code: ErrorCode):
    error = exception_of(code)

    assert issubclass(error, ApiError)
    assert error.code is code
    assert error("why").args == ("why",)


def test_no_error_has_no_exception():
    with pytest.raises(KeyError):
        exception_of(ErrorCode.NONE)


def test_a_code_that_two_classes_share_is_raised_as_the_parent():
    assert errors.ControllerMoved.code is ErrorCode.STALE_CONTROLLER_EPOCH
    assert exception_of(ErrorCode.STALE_CONTROLLER_EPOCH) is errors.StaleControllerEpoch


def test_the_tree_in_the_docstring_is_the_tree_of_the_classes():
    rows = re.findall(r"^    ([│├└─ ]*)(\w+)", errors.__doc__, re.MULTILINE)
    drawn = [(len(branches) // 4, name) for branches, name in rows]
    named = {name for _, name in drawn}

    def walk(error: type[ApiError], depth: int) -> list[tuple[int, str]]:
        children = [child for child in error.__subclasses__() if child.__name__ in named]
        below = [row for child in children for row in walk(child, depth + 1)]
        return [(depth, error.__name__), *below]

    assert drawn == walk(ApiError, 0)
    assert {name for name in vars(errors) if _is_api_error(name)} == named


def _is_api_error(name: str) -> bool:
    thing = getattr(errors, name)
    return isinstance(thing, type) and issubclass(thing, ApiError)


def test_malformed_bytes_are_a_value_error_with_a_sentence():
    error = MalformedZNode("/controller", "no JSON")

    assert isinstance(error, ValueError)
    assert error.path == "/controller"
    assert str(error) == "/controller is malformed: no JSON"
    assert issubclass(MalformedMessage, ValueError)
