"""What the recorder wrote is what Spark reads."""

from operator import itemgetter
from pathlib import Path

import msgspec
import pytest

from runtime.recorder import Recorder
from runtime.tracing import MESSAGE
from spark.compaction import JOURNAL, compact
from spark.hadoop import Hadoop
from spark.schema import schema_of
from spark.source import NotATrace, read_events
from spark.trace import Trace
from tests.support.traces import EPOCH_US, StandingTrace, example_of, parts_of, rows_of
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


# --- a trace as a whole ---------------------------------------------------------------------------


def leave_starts(folder, *, parts, run="a", each=3):
    """So many parts, each with some events."""
    trace = StandingTrace()
    recorder = Recorder(trace, folder, run=run)
    for _ in range(parts):
        for _ in range(each):
            trace.leave("broker-1", NodeStarted())
        recorder.write()


def test_several_folders_and_globs_are_one_trace(spark, tmp_path):
    for name in ("monday", "tuesday", "weekend"):
        leave_starts(tmp_path / name, parts=1, run=name)

    trace = Trace(spark, [f"{tmp_path}/*day", f"{tmp_path}/weekend/"])

    assert trace.runs == ["monday", "tuesday", "weekend"]
    assert trace.events(NodeStarted).count() == trace.counts["NodeStarted"] == 9


def test_a_folder_whose_name_looks_like_a_pattern_is_read(spark, tmp_path):
    leave_starts(tmp_path / "a [b] {c}", parts=2)

    trace = Trace(spark, [f"{tmp_path}/a*"])

    assert trace.events(NodeStarted).count() == 6


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda folder: None, "it does not exist"),
        (lambda folder: folder.touch(), "it is not a folder"),
        (lambda folder: folder.mkdir(), "no part could be read"),
        (lambda folder: (folder / "NodeStarted").mkdir(parents=True), "no part could be read"),
    ],
)
def test_what_is_no_trace_is_told_in_a_sentence(spark, tmp_path, make, reason):
    make(tmp_path / "t")

    with pytest.raises(NotATrace, match=f"there is no trace in .*: {reason}$"):
        Trace(spark, [f"{tmp_path}/t"])


def test_what_came_before_is_left_out_but_for_what_still_holds(spark, tmp_path):
    trace = StandingTrace()
    for at_us in (0, 10_000_000):
        trace.at_us = at_us
        trace.leave("broker-1", NodeStarted())
        trace.leave("broker-1", BrokerRegistered(1, 1, 1))
    Recorder(trace, tmp_path, run="a").write()
    all_of_it = Trace(spark, [str(tmp_path)])

    all_of_it.begin_at(EPOCH_US + 5_000_000)

    assert all_of_it.events(BrokerRegistered).count() == 1
    assert all_of_it.events(NodeStarted).count() == 2


# --- compaction -----------------------------------------------------------------------------------


def test_many_parts_become_one_with_the_same_events(spark, tmp_path):
    leave_starts(tmp_path, parts=4)
    before = sorted(rows_of(tmp_path, NodeStarted), key=itemgetter("id"))

    done = compact(spark, [str(tmp_path)])

    assert tuple(done) == (4, 1, 12)
    assert len(parts_of(tmp_path, NodeStarted)) == 1
    assert rows_of(tmp_path, NodeStarted) == before
    assert not list(tmp_path.glob(".*")), "nothing is left over"
    assert Trace(spark, [str(tmp_path)]).complaints == []


def test_what_is_compacted_is_compacted_again_with_what_came_since(spark, tmp_path):
    leave_starts(tmp_path, parts=2)
    compact(spark, [str(tmp_path)])
    leave_starts(tmp_path, parts=1)

    done = compact(spark, [str(tmp_path)])

    assert tuple(done) == (2, 1, 9)
    assert read_events(spark, str(tmp_path), NodeStarted).count() == 9


class CutShort(Exception):
    """The power goes."""


@pytest.mark.parametrize("step", range(7))
def test_a_compaction_may_be_cut_short_anywhere(spark, tmp_path, monkeypatch, step):
    leave_starts(tmp_path, parts=2)
    left = [step]

    def or_fail(do):
        def counting(self, *given):
            left[0] -= 1
            if left[0] < 0:
                raise CutShort
            return do(self, *given)

        return counting

    with monkeypatch.context() as patch:
        for name in ("write", "rename", "remove"):
            patch.setattr(Hadoop, name, or_fail(getattr(Hadoop, name)))
        try:
            compact(spark, [str(tmp_path)])
        except CutShort:
            assert step < 6

    assert Trace(spark, [str(tmp_path)]).events(NodeStarted).count() == 6, "read as it is"
    compact(spark, [str(tmp_path)])
    assert len(rows_of(tmp_path, NodeStarted)) == 6
    assert len(parts_of(tmp_path, NodeStarted)) == 1
    assert not list(tmp_path.glob(f"{JOURNAL}*"))
