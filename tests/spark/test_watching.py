"""--watch: however parts come, each event counts once, and the lines are those of the report."""

import json
import shutil
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from runtime.simulation.simulator import run
from spark import kept
from spark.command import INTERRUPTED
from spark.compaction import compact
from spark.report.facts import told_by
from spark.report.summary import lines
from spark.trace import Trace
from spark.watching import WANTED, LiveTables, Watch
from tests.support.processes import Command
from tests.support.troubled import impossible, killed_and_shut_down
from wire.trace import MessageHandled

SLICES = 3


def sliced(folder: Path, into: Path) -> list[list[Path]]:
    """A trace in as many slices, each a list of parts below a folder of its own."""
    for part in folder.rglob("*.parquet"):
        table = pq.ParquetFile(part).read()
        size = -(-table.num_rows // SLICES)
        for number in range(SLICES):
            rows = table.slice(number * size, size)
            if rows.num_rows:
                name = part.relative_to(folder).with_name(f"part-0-{number:06d}.parquet")
                (into / str(number) / name).parent.mkdir(parents=True, exist_ok=True)
                pq.write_table(rows, into / str(number) / name)
    return [sorted((into / str(number)).rglob("*.parquet")) for number in range(SLICES)]


class Delivered:
    """Parts of a real run that come in steps, late, twice, merged; between them the watch ends."""

    def __init__(self, spark, folder: Path) -> None:
        self.spark, self.root, self.out = spark, folder / "trace", folder / "out"
        self.whole = folder / "whole"
        run(lambda: killed_and_shut_down(self.whole))
        self.slices = sliced(self.whole, folder / "slices")
        (self.root).mkdir()

    def watch(self) -> Watch:
        return Watch(self.spark, str(self.root), str(self.out))

    def place(self, part: Path) -> Path:
        """Where a part belongs."""
        at = next(number for number, parts in enumerate(self.slices) if part in parts)
        place = self.root / part.relative_to(part.parents[part.parts[::-1].index(str(at)) - 1])
        place.parent.mkdir(parents=True, exist_ok=True)
        return place

    def deliver(self, parts) -> None:
        for part in parts:
            shutil.copyfile(part, self.place(part))

    def deliver_again(self, part: Path) -> None:
        shutil.copyfile(part, self.place(part).with_name("part-0-again.parquet"))

    def forget_that_a_batch_was_done(self) -> None:
        """As if the process had ended between the last write and the checkpoint's word for it."""
        (commits,) = self.out.glob("watch-*/checkpoint/commits")
        last = max(int(each.name) for each in commits.iterdir() if each.name.isdecimal())
        (commits / str(last)).unlink()
        (commits / f".{last}.crc").unlink()


def children_of(process: int) -> list[str]:
    """The processes that one has started."""
    return Path(f"/proc/{process}/task/{process}/children").read_text().split()


def reported(spark, folder: Path):
    """What the report's jobs say of a whole trace."""
    trace = Trace(spark, [str(folder)])
    found = told_by(trace, LiveTables(trace), WANTED)
    trace.close()
    return found


@pytest.fixture(scope="module")
def delivered(spark, tmp_path_factory) -> Delivered:
    return Delivered(spark, tmp_path_factory.mktemp("watched"))


def test_late_double_and_merged_parts_count_once_also_after_restarts(spark, delivered, monkeypatch):
    monkeypatch.setattr(kept, "FOLD", 2)
    first, second, third = delivered.slices
    late, once = first[0], next(each for each in first if MessageHandled.__name__ in str(each))
    empty = delivered.watch().tell()

    delivered.deliver(first[1:])
    delivered.watch().take()
    delivered.deliver([*second, late])
    delivered.deliver_again(once)
    delivered.watch().take()
    delivered.forget_that_a_batch_was_done()
    delivered.deliver(third)
    compact(spark, [str(delivered.root)])  # the third slice is seen merged with the others only
    watch = delivered.watch()
    watch.take()
    told = watch.tell()

    wanted = reported(spark, delivered.whole)
    assert empty is None
    assert told.counts == {name: count for name, count in wanted.counts.items() if count}
    assert told.spans == wanted.spans
    assert told.tables == wanted.tables
    assert told.totals == wanted.totals
    assert lines(told)[1:] == lines(wanted)[1:]  # the first says how many parts there were


def test_ctrl_c_ends_a_watch_and_its_java(tmp_path):
    impossible().write(tmp_path / "trace", run="impossible", origin="9")

    with Command("trace-report", str(tmp_path / "trace"), "--watch", "--json", tmp=tmp_path) as it:
        told = json.loads(it.line_with("summary"))
        java = children_of(it.pid)
        code, _, said = it.interrupt()

    assert sum(told["events"].values()) > 0
    assert code == INTERRUPTED
    assert "Traceback" not in said
    assert "incubator" not in said
    assert java
    assert not any(Path(f"/proc/{each}").exists() for each in java)
