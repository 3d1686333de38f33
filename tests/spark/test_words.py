"""Numbers and times in words."""

import pytest

from spark.report.words import duration, many, number, percent, size

SECOND = 1_000_000


@pytest.mark.parametrize(
    ("us", "words"),
    [
        (None, "-"),
        (0, "0 µs"),
        (999, "999 µs"),
        (999.6, "1.00 ms"),
        (3_400, "3.40 ms"),
        (9_996, "10.0 ms"),
        (99_960, "100 ms"),
        (999_600, "1.00 s"),
        (12.84 * SECOND, "12.8 s"),
        (119.4 * SECOND, "119 s"),
        (119.6 * SECOND, "2 min 0 s"),
        (179.7 * SECOND, "3 min 0 s"),
        (250 * SECOND, "4 min 10 s"),
        (7_199.6 * SECOND, "2 h 0 min"),
        (10_790 * SECOND, "3 h 0 min"),
    ],
)
def test_a_duration_is_rounded_before_its_unit_is_chosen(us, words):
    assert duration(us) == words


def test_counts_and_sizes_have_no_more_digits_than_anybody_needs():
    assert [number(each) for each in (12_345, 0.123, 45.67, None)] == [
        "12,345",
        "0.12",
        "45.7",
        "-",
    ]
    assert [size(each) for each in (999, 999_999, 3_210_000)] == ["999 B", "1.00 MB", "3.21 MB"]
    assert [percent(each, 1_000) for each in (0, 1, 500)] == ["0 %", "0.1 %", "50 %"]
    assert [many(each, "partition") for each in (1, 2)] == ["1 partition", "2 partitions"]
