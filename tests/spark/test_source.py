"""What the recorder wrote is what Spark reads."""

from operator import itemgetter
from pathlib import Path

import msgspec
import pytest

from runtime.recorder import Recorder
from runtime.tracing import MESSAGE
from spark.schema import schema_of
from spark.source import NotATrace, read_events
from tests.support.traces import EPOCH_US, StandingTrace, example_of, parts_of
from wire.trace import EVENTS, BrokerRegistered, MessageHandled, NodeStarted, NodeStopped

HOUR = "2020-09-13T12"


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """A trace with two of each event, and three messages that actors handled."""
    folder = tmp_path_factory.mktemp("a trace")
    trace = StandingTrace()
    for event in EVENTS:
        if event is not MessageHandled:
            trace.leave("broker-1", example_of(event))
            trace.leave("broker-2", example_of(event))
    mark = trace.marks_of("broker-1", "broker-1/api")[NodeStarted]
    begun = trace.now_s() + 5e-6
    for number in range(3):
        times = (begun - 4e-6, begun, begun + number * 1e-6)
        trace.messages.extend(MESSAGE.pack(100 + number, 7, mark + 1, *times))
    Recorder(trace, folder, run="20200913T120000", origin="2").write()
    return folder


def rows(frame) -> list[dict]:
    return sorted((row.asDict() for row in frame.collect()), key=itemgetter("id"))


def test_every_event_is_read_with_the_values_it_was_left_with(spark, folder):
    for event in set(EVENTS) - {MessageHandled}:
        values = msgspec.structs.asdict(example_of(event))
        read = rows(read_events(spark, str(folder), event))

        assert [row["node"] for row in read] == ["broker-1", "broker-2"]
        for row in read:
            stamp = {"id": row["id"], "time_us": EPOCH_US, "node": row["node"], "cause": 0}
            assert row == stamp | values | {"run": "20200913T120000", "hour": HOUR}


def test_handled_messages_are_read_with_their_names_and_times(spark, folder):
    assert rows(read_events(spark, str(folder), MessageHandled)) == [
        {
            "id": 100 + number,
            "time_us": EPOCH_US + 5,
            "node": "broker-1",
            "cause": 7,
            "actor": "broker-1/api",
            "message": "NodeStarted",
            "queue_us": 4,
            "handle_us": number,
            "outcome": "refused",
            "run": "20200913T120000",
            "hour": HOUR,
        }
        for number in range(3)
    ]


def test_the_schema_that_is_declared_is_the_one_that_the_files_have(spark, folder):
    for event in EVENTS:
        (part,) = parts_of(folder, event)
        in_file = spark.read.parquet(str(part)).schema
        frame = read_events(spark, str(folder), event)

        assert frame.schema == schema_of(event)
        assert frame.drop("run", "hour").schema == in_file


def test_hours_and_runs_are_columns(spark, tmp_path):
    for run in ("1", "2"):
        trace = StandingTrace()
        trace.leave("broker-1", NodeStopped("early"))
        trace.at_us = 3_600_000_000
        trace.leave("broker-1", NodeStopped("late"))
        Recorder(trace, tmp_path, run=run).write()

    stopped = read_events(spark, str(tmp_path), NodeStopped)

    late = stopped.where("run = '2' and hour = '2020-09-13T13'")
    assert [row.reason for row in late.collect()] == ["late"]
    assert stopped.count() == 4


def test_hidden_half_written_files_are_passed_over(spark, tmp_path):
    trace = StandingTrace()
    trace.leave("broker-1", NodeStarted())
    Recorder(trace, tmp_path, run="a").write()
    (part,) = parts_of(tmp_path, NodeStarted)
    half = part.read_bytes()[:100]
    (part.parent / f".{part.name}.1.tmp").write_bytes(half)
    (tmp_path / f".NodeStarted-a-{part.name}.1.tmp").write_bytes(half)

    assert read_events(spark, str(tmp_path), NodeStarted).count() == 1


@pytest.mark.parametrize("makes_folder", [True, False])
def test_an_event_that_did_not_happen_is_an_empty_table(spark, tmp_path, makes_folder):
    trace = StandingTrace()
    trace.leave("broker-1", NodeStarted())
    Recorder(trace, tmp_path, run="a").write()
    if makes_folder:
        (tmp_path / "BrokerRegistered").mkdir()

    frame = read_events(spark, str(tmp_path), BrokerRegistered)

    assert frame.schema == schema_of(BrokerRegistered)
    assert frame.collect() == []


def test_a_folder_that_is_not_there_is_no_trace(spark, tmp_path):
    with pytest.raises(NotATrace, match=r"there is no trace in .*/nowhere: it does not exist$"):
        read_events(spark, f"{tmp_path}/nowhere", NodeStarted)


def test_a_file_is_no_trace(spark, tmp_path):
    (tmp_path / "file").touch()

    with pytest.raises(NotATrace, match=r"it is not a folder$"):
        read_events(spark, f"{tmp_path}/file", NodeStarted)


def test_a_folder_of_other_things_is_no_trace(spark, tmp_path):
    (tmp_path / "holidays").mkdir()

    with pytest.raises(NotATrace, match=r"it has no folder named for an event$"):
        read_events(spark, str(tmp_path), NodeStarted)
