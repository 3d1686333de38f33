"""Parts are complete or absent, and what was told is in them."""

import asyncio
import queue
import resource
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from operator import itemgetter
from pathlib import Path
from random import Random

import msgspec
import pyarrow.parquet as pq
import pytest

from runtime.actor import Actor
from runtime.recorder import FULL_EVENTS, FULL_MESSAGES, Recorder, write_parquet
from runtime.system import System
from runtime.tables import schema_of
from runtime.tracing import MESSAGE, NOT_TIMED
from tests.support.traces import EPOCH_US, StandingTrace, example_of, parts_of, rows_of
from wire.errors import StaleControllerEpoch
from wire.trace import (
    COLUMNS,
    EVENTS,
    ActorCrashed,
    BrokerRegistered,
    MessageHandled,
    NodePaused,
    NodeStarted,
    NodeStopped,
)

ROOT = Path(__file__).resolve().parents[2]
LONG_MS = 3_600_000
FIRST_HOUR = "2020-09-13T12"


class Work(msgspec.Struct, frozen=True):
    takes_us: int
    then: object = None


class Refuse(msgspec.Struct, frozen=True):
    pass


class Break(msgspec.Struct, frozen=True):
    pass


class Hang(msgspec.Struct, frozen=True):
    pass


class PassOn(msgspec.Struct, frozen=True):
    pass


class Worker(Actor):
    """Works for as long as it is told, by the trace's own clock, and passes work on."""

    def __init__(self, trace: StandingTrace, other=None) -> None:
        super().__init__()
        self.trace = trace
        self.other = other
        self.hangs = asyncio.Event()

    async def on_receive(self, message) -> None:
        match message:
            case Work(takes_us, then):
                if then is not None:
                    self.other.tell(then)
                self.trace.at_us += takes_us
            case PassOn():
                self.other.tell(message)
            case Refuse():
                raise StaleControllerEpoch("epoch 3 is over")
            case Break():
                raise ZeroDivisionError("a bug")
            case Hang():
                self.hangs.set()
                await asyncio.get_running_loop().create_future()


class Watched(Recorder):
    """Tells when it has written."""

    def __init__(self, *arguments, **options) -> None:
        super().__init__(*arguments, **options)
        self.written = queue.Queue()
        self.has_written = asyncio.Event()
        self._loop = asyncio.get_running_loop()

    def write(self) -> None:
        super().write()
        self.written.put(self.lost)
        self._loop.call_soon_threadsafe(self.has_written.set)


@pytest.fixture
def trace() -> StandingTrace:
    return StandingTrace()


def leave(trace: StandingTrace, *events) -> None:
    for event in events:
        trace.leave("broker-1", event)


def files_in(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def tell_messages(trace: StandingTrace, count: int) -> None:
    mark = trace.marks_of("broker-1", "broker-1/api")[Work]
    for _ in range(count):
        trace.messages.extend(MESSAGE.pack(trace.next_id(), 0, mark, 1, 1, 1))


# --- what is written ------------------------------------------------------------------------------


@pytest.mark.parametrize("event", EVENTS)
def test_every_event_is_written_and_read_back_with_the_declared_schema(trace, tmp_path, event):
    example = example_of(event)
    trace.at_us = 17
    leave(trace, example, example)
    Recorder(trace, tmp_path, run="a").write()

    (part,) = parts_of(tmp_path, event)
    assert pq.read_schema(part).equals(schema_of(event))
    assert pq.read_schema(part).names == list(COLUMNS[event.__name__])
    assert pq.read_metadata(part).metadata == {b"understudy.schema": b"2"}
    stamp = {"time_us": EPOCH_US + 17, "node": "broker-1", "cause": 0}
    assert rows_of(tmp_path, event) == [
        {"id": number} | stamp | msgspec.structs.asdict(example) for number in (1, 2)
    ]


def test_parts_lie_by_event_run_and_hour(trace, tmp_path):
    leave(trace, NodeStarted())
    Recorder(trace, tmp_path, run="20200913T120000", origin="3").write()

    folder = f"NodeStarted/run=20200913T120000/hour={FIRST_HOUR}"
    assert files_in(tmp_path) == [f"{folder}/part-3-000001.parquet"]


def test_events_of_two_hours_lie_in_two_folders(trace, tmp_path):
    leave(trace, NodeStopped("early"))
    trace.at_us = 3_600_000_000
    leave(trace, NodeStopped("late"))
    Recorder(trace, tmp_path, run="a").write()

    early, late = parts_of(tmp_path, NodeStopped)
    assert (early.parent.name, late.parent.name) == (f"hour={FIRST_HOUR}", "hour=2020-09-13T13")
    assert [row["reason"] for row in rows_of(tmp_path, NodeStopped)] == ["early", "late"]


async def test_handled_messages_have_actor_cause_times_and_outcome(trace, tmp_path):
    node = System("broker-1", trace.at("broker-1"))
    second = node.start("second", Worker(trace))
    first = node.start("first", Worker(trace, second))
    first.tell(Work(7_000, then=Work(30)))
    await node.stop()
    Recorder(trace, tmp_path, run="a").write()

    told, passed_on = rows_of(tmp_path, MessageHandled)
    assert told == {
        "id": told["id"],
        "time_us": EPOCH_US,
        "node": "broker-1",
        "cause": 0,
        "actor": "broker-1/first",
        "message": "Work",
        "queue_us": 0,
        "handle_us": 7_000,
        "outcome": "ok",
    }
    assert passed_on == told | {
        "id": passed_on["id"],
        "time_us": EPOCH_US + 7_000,
        "cause": told["id"],
        "actor": "broker-1/second",
        "queue_us": 7_000,
        "handle_us": 30,
    }


async def test_a_message_may_be_refused_or_crash_and_the_crash_points_to_it(trace, tmp_path):
    node = System("broker-1", trace.at("broker-1"))
    worker = node.start("worker", Worker(trace))
    with pytest.raises(StaleControllerEpoch):
        await worker.ask(Refuse())
    worker.tell(Break())
    await node.down()
    Recorder(trace, tmp_path, run="a").write()

    refused, crashed = rows_of(tmp_path, MessageHandled)
    assert (refused["message"], refused["outcome"]) == ("Refuse", "refused")
    assert (crashed["message"], crashed["outcome"]) == ("Break", "crashed")
    (crash,) = rows_of(tmp_path, ActorCrashed)
    assert crash["cause"] == crashed["id"]
    assert "ZeroDivisionError: a bug" in crash["traceback"]


async def test_a_message_that_a_kill_interrupts_is_cancelled(trace, tmp_path):
    node = System("broker-1", trace.at("broker-1"))
    worker = Worker(trace)
    node.start("worker", worker).tell(Hang())
    await worker.hangs.wait()
    node.kill()
    await asyncio.sleep(0)
    Recorder(trace, tmp_path, run="a").write()

    (row,) = rows_of(tmp_path, MessageHandled)
    assert (row["message"], row["outcome"]) == ("Hang", "cancelled")


def test_a_table_says_of_a_message_what_the_trace_itself_says(trace, tmp_path):
    chance = Random(1)
    marks = [trace.marks_of("broker-1", f"broker-1/{name}")[Work] for name in "abc"]
    for number in range(2_000):
        begun = chance.uniform(1, 1e6)
        sent = chance.choice((NOT_TIMED, begun, begun - chance.uniform(0, 1e-4)))
        mark = chance.choice(marks) + chance.randrange(4)
        ended = begun + chance.uniform(0, 1e-4)
        trace.messages.extend(MESSAGE.pack(trace.next_id(), number, mark, sent, begun, ended))
    told = [
        msgspec.structs.asdict(stamp) | msgspec.structs.asdict(event)
        for stamp, event in trace.handled(trace.messages)
    ]
    Recorder(trace, tmp_path, run="a").write()

    assert sorted(rows_of(tmp_path, MessageHandled), key=itemgetter("id")) == told


def test_a_part_names_only_the_actors_that_are_in_it(trace, tmp_path):
    for number in range(10_000):
        trace.marks_of("broker-9", f"broker-9/idle-{number}")[Work]
    tell_messages(trace, 1)
    Recorder(trace, tmp_path, run="a").write()

    (part,) = parts_of(tmp_path, MessageHandled)
    assert part.stat().st_size < 4_000


def test_actors_of_one_name_and_actors_of_one_node_keep_their_names(trace, tmp_path):
    names = [("broker-1", "broker-1/a"), ("broker-1", "broker-1/b"), ("broker-1", "broker-1/a")]
    for node, address in (*names, ("broker-2", "broker-2/a")):
        mark = trace.marks_of(node, address)[Work]
        trace.messages.extend(MESSAGE.pack(trace.next_id(), 0, mark, 1, 1, 1))
    Recorder(trace, tmp_path, run="a").write()

    rows = rows_of(tmp_path, MessageHandled)
    assert [(row["node"], row["actor"]) for row in rows] == [*names, ("broker-2", "broker-2/a")]


def test_two_hundred_and_fifty_thousand_messages_take_less_than_ten_bytes_each(trace, tmp_path):
    names = [f"broker-1/fetcher-{number}" for number in range(20)]
    marks = [trace.marks_of("broker-1", name)[Work] for name in names]
    for number in range(250_000):
        begun = number * 31_000 + number * number % 997 * 10
        queued, took = number * 7919 % 250_000, number * 104_729 % 30_000
        times = (begun + 1 - min(queued, begun), begun + 1, begun + 1 + took)
        cause = max(0, number - number % 50)
        seconds = (each / 1e9 for each in times)
        trace.messages.extend(MESSAGE.pack(trace.next_id(), cause, marks[number % 20], *seconds))
    Recorder(trace, tmp_path, run="a").write()

    (part,) = parts_of(tmp_path, MessageHandled)
    assert part.stat().st_size < 10 * 250_000


# --- when it is written ---------------------------------------------------------------------------


async def test_nothing_is_written_when_nothing_happened(trace, tmp_path):
    recorder = Watched(trace, tmp_path / "trace", run="a", flush_ms=0)
    await recorder.start()
    await asyncio.to_thread(recorder.written.get, timeout=20)
    await recorder.close()

    assert not (tmp_path / "trace").exists()


async def test_close_writes_everything(trace, tmp_path):
    recorder = Recorder(trace, tmp_path, run="a", flush_ms=LONG_MS)
    await recorder.start()
    leave(trace, NodeStarted())
    tell_messages(trace, 3)
    await recorder.close()

    assert len(rows_of(tmp_path, NodeStarted)) == 1
    assert len(rows_of(tmp_path, MessageHandled)) == 3
    assert "recorder" not in [thread.name for thread in threading.enumerate()]


async def test_flush_writes_what_has_come_while_the_recorder_goes_on(trace, tmp_path):
    recorder = Recorder(trace, tmp_path, run="a", flush_ms=LONG_MS)
    await recorder.start()
    leave(trace, NodeStopped("first"))
    await recorder.flush()
    flushed = rows_of(tmp_path, NodeStopped)
    leave(trace, NodeStopped("second"))
    await recorder.close()

    assert [row["reason"] for row in flushed] == ["first"]
    assert [row["reason"] for row in rows_of(tmp_path, NodeStopped)] == ["first", "second"]


async def test_events_are_written_in_time_even_if_the_loop_hangs(trace, tmp_path):
    recorder = Watched(trace, tmp_path, run="a")
    await recorder.start()
    leave(trace, NodeStarted())
    lost = recorder.written.get(timeout=20)  # blocks the loop on purpose
    rows = rows_of(tmp_path, NodeStarted)
    await recorder.close()

    assert (lost, len(rows)) == (0, 1)


async def test_events_are_written_in_time_even_if_the_loop_never_rests(trace, tmp_path):
    recorder = Watched(trace, tmp_path, run="a")
    node = System("broker-1", trace.at("broker-1"))
    workers = [Worker(trace) for _ in range(20)]
    refs = [node.start(f"worker-{number}", worker) for number, worker in enumerate(workers)]
    for number, worker in enumerate(workers):
        worker.other = refs[number - 1]
        refs[number].tell(PassOn())
    began = time.monotonic()
    await recorder.start()
    async with asyncio.timeout(20):
        await recorder.has_written.wait()
    took_s = time.monotonic() - began
    node.kill()
    await recorder.close()

    assert took_s < 1
    assert len(parts_of(tmp_path, MessageHandled)) > 1


@pytest.mark.parametrize("kind", [MessageHandled, NodeStarted])
async def test_a_full_part_is_written_before_its_time(trace, tmp_path, kind):
    recorder = Watched(trace, tmp_path, run="a", flush_ms=LONG_MS)
    await recorder.start()
    if kind is MessageHandled:
        tell_messages(trace, FULL_MESSAGES)
    else:
        leave(trace, *[NodeStarted()] * FULL_EVENTS)
    await asyncio.to_thread(recorder.written.get, timeout=20)
    parts = parts_of(tmp_path, kind)
    await recorder.close()

    assert len(parts) == 1


async def test_flushes_at_the_same_time_lose_nothing(trace, tmp_path):
    recorder = Recorder(trace, tmp_path, run="a", flush_ms=0)
    await recorder.start()
    for number in range(50):
        leave(trace, NodeStopped(str(number)))
        await asyncio.gather(*(recorder.flush() for _ in range(4)))
    await recorder.close()

    reasons = [row["reason"] for row in rows_of(tmp_path, NodeStopped)]
    assert reasons == [str(number) for number in range(50)]


def test_a_program_that_ends_without_closing_leaves_a_whole_trace(tmp_path):
    program = (
        "import asyncio, sys; from pathlib import Path; from runtime.clock import real_trace;"
        "from runtime.recorder import Recorder; from wire.trace import NodeStarted;"
        "trace = real_trace(recording=True);"
        "recorder = Recorder(trace, Path(sys.argv[1]), run='a');"
        "asyncio.run(recorder.start()); trace.leave('broker-1', NodeStarted()); sys.exit(3)"
    )
    ended = subprocess.run([sys.executable, "-c", program, tmp_path], cwd=ROOT, check=False)

    assert ended.returncode == 3
    assert len(rows_of(tmp_path, NodeStarted)) == 1


# --- several recorders, several lives -------------------------------------------------------------


@pytest.mark.parametrize(("run", "origin"), [("a", "1"), ("b", "0")])
def test_two_recorders_in_one_folder_do_not_collide(trace, tmp_path, run, origin):
    other = StandingTrace(origin=1)
    leave(trace, NodeStopped("here"))
    leave(other, NodeStopped("there"))
    Recorder(trace, tmp_path, run="a", origin="0").write()
    Recorder(other, tmp_path, run=run, origin=origin).write()

    rows = rows_of(tmp_path, NodeStopped)
    assert {row["reason"] for row in rows} == {"here", "there"}
    assert len({row["id"] for row in rows}) == 2


def test_a_restart_counts_on_where_the_parts_of_its_run_end(trace, tmp_path):
    for life in range(3):
        leave(trace, NodeStopped(f"life {life}"))
        Recorder(trace, tmp_path, run="a").write()
    (tmp_path / f"NodeStopped/run=a/hour={FIRST_HOUR}/part-0-mine.parquet").touch()
    leave(trace, NodeStopped("life 3"))
    Recorder(trace, tmp_path, run="a").write()

    numbers = [part.stem.rpartition("-")[2] for part in parts_of(tmp_path, NodeStopped)]
    assert numbers == ["000001", "000002", "000003", "000004", "mine"]


@pytest.mark.parametrize("name", ["", "a/b", "../a", "a=b", "a*", "a b"])
def test_a_run_whose_name_is_no_folder_is_refused(trace, tmp_path, name):
    with pytest.raises(ValueError, match="a run's name becomes a folder's"):
        Recorder(trace, tmp_path, run=name)


@pytest.mark.parametrize("origin", ["", "1-2", "*"])
def test_an_origin_that_would_blur_the_names_of_parts_is_refused(trace, tmp_path, origin):
    with pytest.raises(ValueError, match="an origin is a word"):
        Recorder(trace, tmp_path, run="a", origin=origin)


# --- trouble --------------------------------------------------------------------------------------


@contextmanager
def full_disk():
    """No file may grow beyond half a part."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (400, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_full_disk_is_reported_once_and_recording_goes_on_when_there_is_room(
    trace, tmp_path, caplog
):
    recorder = Recorder(trace, tmp_path, run="a")
    with full_disk():
        for number in range(3):
            leave(trace, NodeStopped(f"lost {number}"), NodePaused())
            recorder.write()
    after_loss = files_in(tmp_path)
    leave(trace, NodeStopped("kept"))
    recorder.write()

    assert (recorder.lost, after_loss) == (6, [])
    assert [row["reason"] for row in rows_of(tmp_path, NodeStopped)] == ["kept"]
    assert [record.levelname for record in caplog.records] == ["ERROR", "ERROR", "WARNING"]
    assert "1 NodeStopped events of the trace are lost: " in caplog.text
    assert "the trace is written again; it lacks 6 events" in caplog.text


async def test_a_folder_that_cannot_be_is_reported_and_used_once_it_can(trace, tmp_path, caplog):
    folder = tmp_path / "file" / "trace"
    folder.parent.write_text("a file is in the way")
    recorder = Watched(trace, folder, run="a", flush_ms=0)
    leave(trace, NodeStarted())
    await recorder.start()
    lost = await asyncio.to_thread(recorder.written.get, timeout=20)
    folder.parent.unlink()
    leave(trace, NodeStarted())
    await recorder.close()

    assert (lost, recorder.lost) == (1, 1)
    assert "1 NodeStarted events of the trace are lost: " in caplog.text
    assert len(rows_of(folder, NodeStarted)) == 1


@pytest.mark.parametrize("value", [None, 2**64, "text"])
def test_an_event_with_a_wrong_value_costs_its_table_and_not_the_trace(
    trace, tmp_path, caplog, value
):
    recorder = Recorder(trace, tmp_path, run="a")
    leave(trace, BrokerRegistered(value, 0, 0), NodeStarted())
    recorder.write()

    assert recorder.lost == 1
    assert "1 BrokerRegistered events of the trace are lost: " in caplog.text
    assert len(rows_of(tmp_path, NodeStarted)) == 1
    assert all(name.endswith(".parquet") for name in files_in(tmp_path))


def test_a_text_that_is_no_unicode_is_written_with_escapes(trace, tmp_path):
    leave(trace, NodeStopped("/data/\udcff"), NodeStopped("käse"))
    Recorder(trace, tmp_path, run="a").write()

    assert [row["reason"] for row in rows_of(tmp_path, NodeStopped)] == [r"/data/\udcff", "käse"]


# --- a kill ---------------------------------------------------------------------------------------


@contextmanager
def endless(folder: Path, *arguments: str):
    command = [sys.executable, "-m", "tests.support.endless", folder, "killed", *arguments]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as program:
        try:
            yield program
        finally:
            program.kill()


def killed_after(folder: Path, after_us: int) -> dict[int, int]:
    """Kill a program that has recorded for so long; what it has said, time by number."""
    times = {}
    with endless(folder) as program:
        for line in program.stdout:
            number, time_us = map(int, line.split())
            times[number] = time_us
            if time_us >= times[1] + after_us:
                program.kill()  # and read on: what it said before it died
    if not program.returncode:
        raise AssertionError("it ended by itself")
    return times


@pytest.mark.parametrize("after_ms", [20, 510, 733, 1_049])
def test_a_kill_costs_at_most_the_last_second(tmp_path, after_ms):
    times = killed_after(tmp_path, after_ms * 1000)

    written = [row["broker"] for row in rows_of(tmp_path, BrokerRegistered)]
    assert written == list(range(1, len(written) + 1))
    last_us = max(times.values())
    for count in (len(written), len(rows_of(tmp_path, MessageHandled))):
        assert times.get(count + 1, last_us) >= last_us - 1_000_000
    half_written = [name for name in files_in(tmp_path) if not name.endswith(".parquet")]
    assert all(name.startswith(".") and name.endswith(".tmp") for name in half_written)


def test_a_restart_sweeps_what_a_kill_left_and_keeps_the_parts(tmp_path):
    killed_after(tmp_path, 1_100_000)
    before = {path: path.read_bytes() for path in tmp_path.rglob("*.parquet")}
    with endless(tmp_path, "half") as program:
        program.communicate()
    left_over = [name for name in files_in(tmp_path) if not name.endswith(".parquet")]
    killed_after(tmp_path, 1_100_000)

    assert before
    assert len(left_over) == 1
    assert left_over[0].startswith(".")
    assert left_over[0] not in files_in(tmp_path)
    assert {path: path.read_bytes() for path in before} == before
    assert len(list(tmp_path.rglob("*.parquet"))) > len(before)


def test_a_sweep_leaves_alone_what_somebody_is_writing(trace, tmp_path, monkeypatch):
    other = Recorder(StandingTrace(origin=1), tmp_path, run="other")
    dead = tmp_path / ".NodeStarted-a-part-0-000007.parquet.1.tmp"
    dead.touch()

    def write_while_another_sweeps(table, path):
        write_parquet(table, path)
        other._sweep()

    monkeypatch.setattr("runtime.recorder.write_parquet", write_while_another_sweeps)
    leave(trace, NodeStarted())
    Recorder(trace, tmp_path, run="a").write()

    assert not dead.exists()
    assert len(rows_of(tmp_path, NodeStarted)) == 1
