"""Java's arithmetic, with numbers that a JVM gave."""

import pytest

from wire.java import absolute, int32, string_hash


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", 0),
        ("a", 97),
        ("hello", 99162322),
        ("polygenelubricants", -(2**31)),
        ("😀", 1772899),  # two UTF-16 units
    ],
)
def test_a_string_is_hashed_as_java_hashes_it(text, expected):
    assert string_hash(text) == expected


@pytest.mark.parametrize(("number", "expected"), [(5, 5), (-5, 5), (0, 0), (-(2**31), 0)])
def test_the_absolute_value_is_kafkas(number, expected):
    assert absolute(number) == expected


@pytest.mark.parametrize(
    ("number", "expected"), [(2**31, -(2**31)), (2**32 + 7, 7), (-(2**31) - 1, 2**31 - 1)]
)
def test_a_number_that_does_not_fit_wraps_around(number, expected):
    assert int32(number) == expected
