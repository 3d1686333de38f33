"""What the outside of a part says, without Spark."""

import subprocess
import sys

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from runtime.recorder import Recorder
from spark.footer import BrokenFooter, shape_of, version_of
from spark.parts import Part, local_tail, look_at, part_of
from spark.shipping import pack
from tests.support.traces import StandingTrace, parts_of
from wire.trace import SCHEMA_VERSION, LeaderElected, NodeStarted, NodeStopped

FOLDER = "file:/traces/NodeStarted/run=r/hour=2026-11-18T20"


@pytest.fixture
def part(tmp_path):
    """A part with 300 events, as the recorder writes it."""
    trace = StandingTrace()
    for _ in range(300):
        trace.leave("broker-1", NodeStopped("early"))
    Recorder(trace, tmp_path, run="r").write()
    return parts_of(tmp_path, NodeStopped)[0]


def looked_at(path):
    (looked,) = look_at([part_of(f"file:{path}")], local_tail)
    return looked


def test_a_part_says_how_many_events_it_has_and_of_which_version(part):
    looked = looked_at(part)

    assert (looked.rows, looked.version, looked.complaint) == (300, SCHEMA_VERSION, "")


def test_rows_are_counted_in_files_of_others_too(tmp_path):
    path = tmp_path / "many.parquet"
    columns = {f"column {n}": list(range(70_000)) for n in range(40)}
    pq.write_table(pa.table(columns), path, row_group_size=1_000)

    assert shape_of(local_tail(str(path))[1]).rows == 70_000
    assert version_of(local_tail(str(path))[1]) is None


def test_columns_are_named_and_structs_around_them_are_none(tmp_path):
    path = tmp_path / "nested.parquet"
    pq.write_table(pa.table({"plain": [1], "pair": [{"left": 1, "right": "x"}]}), path)

    assert shape_of(local_tail(str(path))[1]).columns == {"plain", "left", "right"}


@pytest.mark.parametrize("event", [NodeStarted, LeaderElected])
def test_a_part_among_those_of_another_event_is_told_from_outside(part, event):
    stray = part.parents[3] / event.__name__ / "run=r" / part.parent.name / part.name
    stray.parent.mkdir(parents=True)
    stray.write_bytes(part.read_bytes())

    assert looked_at(stray).complaint == f"its columns are not those of {event.__name__}"


@pytest.mark.parametrize("kept", [0, 3, 8, 100])
def test_a_part_that_ends_too_early_is_told_from_outside(part, kept):
    part.write_bytes(part.read_bytes()[:kept])

    assert looked_at(part).complaint


def test_every_byte_of_a_footer_may_be_wrong(part):
    footer = local_tail(str(part))[1]

    for at in range(len(footer)):
        for wrong in (0x00, 0x1C, 0x7F, 0xFF):
            try:
                shape_of(footer[:at] + bytes([wrong]) + footer[at + 1 :])
            except BrokenFooter:
                continue
    with pytest.raises(BrokenFooter):
        shape_of(b"\x15" * 1_000_000)
    with pytest.raises(BrokenFooter):
        shape_of(b"\x1c" * 1_000)


def test_a_part_that_is_gone_or_no_file_is_a_sentence(part, tmp_path):
    assert looked_at(part.with_name("gone.parquet")).complaint == "No such file or directory"
    folder = part.with_name("folder.parquet")
    folder.mkdir()
    assert looked_at(folder).complaint == "Is a directory"


@pytest.mark.parametrize(
    ("path", "wanted"),
    [
        ("part-0-000001.parquet", ("NodeStarted", "r", "2026-11-18T20")),
        (".hidden.parquet", None),
    ],
)
def test_parts_are_known_by_their_paths(path, wanted):
    found = part_of(f"{FOLDER}/{path}")

    assert (found and found[1:]) == wanted
    assert NodeStarted.__name__ in FOLDER


def test_a_name_in_a_path_is_read_as_it_was_given():
    path = "hdfs://name/t/NodeStarted/run=a%20b/hour=2026-11-18T20/part-0-1.parquet"

    assert part_of(path) == Part(path, "NodeStarted", "a b", "2026-11-18T20")


def test_a_table_of_something_else_has_no_parts():
    assert part_of("file:/t/Holidays/run=r/hour=h/part-0-1.parquet") is None


def test_what_is_shipped_to_executors_can_be_imported_there(tmp_path):
    pack(tmp_path / "understudy.zip")

    code = "import spark.transforms, wire.trace; print(spark.transforms.__file__)"
    answer = subprocess.run(
        [sys.executable, "-c", code],
        env={"PYTHONPATH": str(tmp_path / "understudy.zip")},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )

    assert answer.stdout.startswith(f"{tmp_path}/understudy.zip/spark/")
