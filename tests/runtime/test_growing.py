"""A trace that was grown is as consistent as the one that it was made from."""

import pyarrow.parquet as pq
import pytest

from runtime.growing import CannotGrow, grow
from runtime.recorder import Recorder
from runtime.tracing import CAUSE, MESSAGE
from tests.support.traces import EPOCH_US, StandingTrace, parts_of, rows_of
from wire.trace import (
    ControllerElected,
    FaultInjected,
    LeaderElected,
    MessageHandled,
    NodeStarted,
    RecordsAppended,
)

SECOND = 1_000_000
HOUR = 3_600 * SECOND


@pytest.fixture
def source(tmp_path):
    """An election because of a fault, two epochs, five records; a second long."""
    trace = StandingTrace(origin=3)
    trace.leave("broker-1", ControllerElected(1, 1, 1))
    trace.leave("broker-1", FaultInjected("kill", "broker-2", "", 1))
    mark = trace.marks_of("broker-1", "broker-1/controller")[NodeStarted]
    number = trace.next_id()
    trace.messages.extend(MESSAGE.pack(number, 0, mark, 1.0, 1.1, 1.2))
    trace.at_us = SECOND
    token = CAUSE.set([number])
    trace.leave("broker-1", LeaderElected("orders", 0, -1, 4, "1", 7, "offline", False))
    trace.leave("broker-1", RecordsAppended("orders", 0, "leader", 4, 0, 4))
    CAUSE.reset(token)
    folder = tmp_path / "small"
    Recorder(trace, folder, run="r", origin="3").write()
    return folder


def grown(source, tmp_path, events, **options):
    folder = tmp_path / "large"
    return grow(source, folder, events, **options), folder


def test_there_are_as_many_events_as_were_asked_for_in_whole_copies(source, tmp_path):
    written, folder = grown(source, tmp_path, 11)

    assert written == 15
    assert len(rows_of(folder, ControllerElected)) == 3
    assert (
        len(
            {
                each["id"]
                for kind in (ControllerElected, FaultInjected, MessageHandled)
                for each in rows_of(folder, kind)
            }
        )
        == 9
    )


def test_effects_point_at_the_cause_of_their_own_copy(source, tmp_path):
    _, folder = grown(source, tmp_path, 15)

    messages = {row["id"]: row["time_us"] for row in rows_of(folder, MessageHandled)}
    elected = rows_of(folder, LeaderElected)
    assert [row["cause"] for row in elected] == sorted(messages)
    for row in elected:
        assert 0 < row["time_us"] - messages[row["cause"]] < SECOND


def test_times_and_epochs_and_offsets_go_on_where_the_copy_before_has_ended(source, tmp_path):
    _, folder = grown(source, tmp_path, 15)

    elected = rows_of(folder, LeaderElected)
    assert [row["leader_epoch"] for row in elected] == [4, 9, 14]
    assert [row["partition_epoch"] for row in elected] == [7, 15, 23]
    assert [row["leader"] for row in elected] == [-1, -1, -1]
    assert [row["controller_epoch"] for row in rows_of(folder, ControllerElected)] == [1, 3, 5]
    appended = rows_of(folder, RecordsAppended)
    assert [(row["first_offset"], row["last_offset"]) for row in appended] == [
        (0, 4),
        (5, 9),
        (10, 14),
    ]
    times = [row["time_us"] for row in appended]
    assert times == [EPOCH_US + SECOND + copy * 2 * SECOND for copy in range(3)]
    assert [row["number"] for row in rows_of(folder, FaultInjected)] == [1, 3, 5]


def test_what_is_none_stays_so(source, tmp_path):
    _, folder = grown(source, tmp_path, 15)

    assert {row["cause"] for row in rows_of(folder, MessageHandled)} == {0}


def test_parts_lie_in_the_hours_of_their_events_and_say_their_version(source, tmp_path):
    _, folder = grown(source, tmp_path, 5 * 1_250)

    parts = parts_of(folder, LeaderElected)
    hours = {part.parent.name for part in parts}
    assert hours == {"hour=2020-09-13T12", "hour=2020-09-13T13"}  # two seconds a copy
    for part in parts:
        whole = pq.ParquetFile(part)
        assert whole.schema_arrow.metadata[b"understudy.schema"]
        assert whole.schema_arrow == pq.ParquetFile(parts_of(source, LeaderElected)[0]).schema_arrow


def test_copies_may_have_topics_of_their_own(source, tmp_path):
    _, folder = grown(source, tmp_path, 15, spread="topic")

    topics = [row["topic"] for row in rows_of(folder, LeaderElected)]
    assert topics == ["orders", "orders-copy-1", "orders-copy-2"]


def test_a_folder_that_is_no_trace_and_one_that_is_taken_are_refused(source, tmp_path):
    with pytest.raises(CannotGrow, match="there is no trace in"):
        grow(tmp_path / "nowhere", tmp_path / "out", 5)
    with pytest.raises(CannotGrow, match="is not empty"):
        grow(source, source, 5)
