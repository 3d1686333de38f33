"""bin/trace-report on three runs: one with a killed leader, one with planted lies, one much older.

What it says of the first is compared with what the cluster said while it ran.
"""

import json
import re
from contextlib import redirect_stderr, redirect_stdout
from html.parser import HTMLParser
from io import StringIO
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from actors.cluster import SimulatedCluster
from actors.conditions import isr, leader
from actors.story import listen
from runtime.recorder import Recorder
from runtime.simulation.simulator import Simulator, run
from spark.command import BROKEN_PROMISES, BadSince, main, parser, report, since_us
from spark.jobs.audit import CHECKS
from spark.pipeline import JOBS
from spark.trace import Trace
from tests.support.browser import opened
from tests.support.planted import SECOND, Planted, after
from tests.support.traces import parts_of
from wire.trace import (
    BrokerRegistered,
    ControllerElected,
    ErrorAnswered,
    FaultInjected,
    HighWatermarkMoved,
    LeaderElected,
    NodeStarted,
    PartitionStateChanged,
    RecordsAppended,
    ReplicaRoleChanged,
    TransitionRefused,
)

HOSTILE = "</title><script>alert('x')</script>\x00\u202e<img src=x onerror=1>"
BOLD = "<b>bold</b>"
FEW_MS = 50  # between what a client sees and what the broker did


class Live:
    """What the cluster said of itself while it ran; milliseconds of its clock."""

    def __init__(self) -> None:
        self.told = []
        self.killed_ms = self.led_again_ms = self.produced_ms = 0


async def killed_leader(folder) -> Live:
    live = Live()
    async with Simulator(seed=11) as sim:
        cluster = SimulatedCluster(sim, brokers=3)
        stop = listen(sim.trace, cluster.clock, live.told.append)
        await cluster.start_nodes()
        assignments = {0: (3, 1, 2), 1: (2, 1, 3)}
        await cluster.admin().create_topic("orders", assignments=assignments)
        async with cluster.producer(retries=100) as producer:
            await producer.send("orders", b"before", partition=0)
            live.killed_ms = cluster.clock.now_ms()
            cluster.kill(3)
            await cluster.until(leader("orders") != 3)
            live.led_again_ms = cluster.clock.now_ms()
            await producer.send("orders", b"after", partition=0)
            live.produced_ms = cluster.clock.now_ms()
        await cluster.start_broker(3)
        await cluster.until(isr("orders") == {1, 2, 3})
        await sim.settle()
        stop()
        Recorder(sim.trace, folder, run="killed").write()
    return live


def lies() -> Planted:
    """Every promise of the audit broken once, by a cluster that does not exist."""
    planted = Planted(origin=7)
    planted.at(1, HOSTILE, NodeStarted(), FaultInjected(HOSTILE, HOSTILE, HOSTILE, 1))
    planted.at(2, "broker-1", ControllerElected(1, 5, 5), BrokerRegistered(1, 90, 1))
    planted.at(3, "broker-2", ControllerElected(2, 5, 6), BrokerRegistered(1, 80, 1))
    planted.at(4, "broker-2", ControllerElected(2, 4, 6))
    planted.at(
        5,
        "broker-1",
        LeaderElected(HOSTILE, 0, 1, 7, "1,2", 1, "because", False, "1,2"),
        LeaderElected(HOSTILE, 0, 1, 6, "1,2,4", 1, "because", False, "1,2"),
        LeaderElected("fine", 0, 1, 7, "1,2", 1, "NewPartition", False, "1,2"),
        LeaderElected("fine", 0, 1, 0, "1,2", 1, "NewPartition", False, "1,2"),
    )
    planted.at(6, "broker-1", ReplicaRoleChanged("orders", 0, "leader", 1, 3))
    planted.at(7, "broker-2", RecordsAppended("orders", 0, "leader", 3, 0, 0))
    planted.at(8, "broker-1", HighWatermarkMoved("orders", 0, "leader", 3, 9))
    planted.at(9, "broker-1", HighWatermarkMoved("orders", 0, "follower", 3, 2))
    planted.at(10, "broker-1", HighWatermarkMoved("orders", 0, "leader", 3, 8))
    planted.at(
        11, "broker-1", PartitionStateChanged("orders", 0, "OnlinePartition", "NewPartition")
    )
    cause = planted.handled(12, "broker-1/controller", BOLD, queue_us=3_000)
    planted.at(13, "broker-1", TransitionRefused("orders", 0, -1, "New", "Gone"), cause=cause)
    refused = ErrorAnswered(HOSTILE, "Produce", "NOT_LEADER_OR_FOLLOWER", 3)
    planted.at(14, "broker-1", refused, refused)
    planted.at(30 * SECOND, "broker-1", NodeStarted())
    planted.at(20 * SECOND, "broker-1", NodeStarted())
    planted.handled(7_200 * SECOND, "broker-1/api", "Late")
    return planted


def age(folder: Path, run: str) -> None:
    """Make a run one of schema version 1, which did not know who the replicas are."""
    for part in parts_of(folder, LeaderElected):
        if f"run={run}" in str(part):
            table = pq.ParquetFile(part).read().drop_columns(["replicas"])
            old = table.replace_schema_metadata({"understudy.schema": "1"})
            pq.write_table(old, part)


def spoil(folder: Path) -> dict[str, Path]:
    """Three parts that cannot be read: one ends too early, one is text, one is noise inside."""
    (whole,) = [part for part in parts_of(folder, HighWatermarkMoved) if "run=lies" in str(part)]
    content = whole.read_bytes()
    spoilt = {
        each: whole.with_name(f"part-9-{each}.parquet")
        for each in ("half", "text", "middle", "empty")
    }
    spoilt["empty"].touch()
    spoilt["half"].write_bytes(content[: len(content) // 2])
    spoilt["text"].write_text("nothing of Parquet")
    data_ends = len(content) - 8 - int.from_bytes(content[-8:-4], "little")
    spoilt["middle"].write_bytes(content[:4] + b"\xff" * (data_ends - 4) + content[data_ends:])
    return spoilt


class Told:
    """What the report said, and what was live."""

    def __init__(self, spark, folder: Path, out: Path) -> None:
        self.spark, self.folder, self.out = spark, folder, out
        self.live = run(lambda: killed_leader(folder))
        lies().write(folder, run="lies", origin="7")
        ancient = Planted()
        elected = LeaderElected("ancient", 0, 1, 0, "1,2,3", 1, "NewPartition", False)
        ancient.at(1, "broker-1", NodeStarted(), elected)
        ancient.write(folder, run="ancient")
        age(folder, "ancient")
        self.spoilt = spoil(folder)
        said, complained = StringIO(), StringIO()
        with redirect_stdout(said), redirect_stderr(complained):
            self.code = report(
                spark, parser().parse_args([str(folder), "--out", str(out), "--json"])
            )
        self.answer, self.errors = json.loads(said.getvalue()), complained.getvalue()
        self.page = (out / "report.html").read_text()

    def rows(self, name, run="killed"):
        table = self.spark.read.parquet(f"{self.out}/tables/{name}")
        return [row.asDict() for row in table.where(f"run = '{run}'").collect()]

    def said_live(self, pattern) -> int:
        """When the cluster first said so, after the kill; milliseconds."""
        return next(
            each.time_ms
            for each in self.live.told
            if re.search(pattern, each.text) and each.time_ms >= self.live.killed_ms
        )


@pytest.fixture(scope="module")
def told(spark, tmp_path_factory) -> Told:
    folder = tmp_path_factory.mktemp("what happened")
    return Told(spark, folder / "trace", folder / "out")


# --- the numbers agree with what the cluster said -------------------------------------------------


def test_the_killed_leader_is_the_one_incident(told):
    (incident,) = told.rows("incidents")

    assert (incident["what"], incident["target"]) == ("kill", "broker-3")
    assert incident["time_us"] // 1000 == pytest.approx(told.live.killed_ms, abs=2)
    back_ms = told.said_live("broker 3 is up")
    assert 0 <= back_ms - incident["mended_us"] / 1000 < 1_000


def test_the_partition_had_no_leader_from_the_kill_until_another_led(told):
    (window,) = [row for row in told.rows("availability_windows") if row["kind"] == "leaderless"]

    assert (window["topic"], window["partition"], window["incident"]) == ("orders", 0, 1)
    assert window["from_us"] / 1000 == pytest.approx(told.live.killed_ms, abs=2)
    elected_ms = told.said_live("orders-0: broker 1 leads")
    assert elected_ms - 2 <= window["to_us"] / 1000 <= told.live.led_again_ms + FEW_MS
    assert not window["is_open"]


def test_under_replication_lasts_from_the_shrunk_isr_to_the_replicas_return(told):
    windows = [row for row in told.rows("availability_windows") if row["kind"] != "leaderless"]

    assert {(row["topic"], row["partition"]) for row in windows} == {("orders", 0), ("orders", 1)}
    zero = next(row for row in windows if row["partition"] == 0)
    assert zero["from_us"] // 1000 == pytest.approx(
        told.said_live("orders-0: broker 1 leads"), abs=2
    )
    whole_ms = told.said_live(r"orders-0: broker 3 is in sync again")
    assert zero["to_us"] // 1000 == pytest.approx(whole_ms, abs=2)


def test_the_failover_is_broken_into_its_steps_in_order(told):
    (row,) = told.rows("failover_budget")

    moments = [
        row[name]
        for name in (
            "time_us",
            "watch_us",
            "begun_us",
            "first_write_us",
            "elected_us",
            "serving_us",
        )
    ]
    assert None not in moments
    assert moments == sorted(moments)
    assert row["written_us"] <= row["told_us"]
    assert row["serving_us"] <= row["told_us"]
    assert row["elections"] == 1
    assert row["brokers_told"] == 2
    assert row["first_produce_us"] / 1000 <= told.live.produced_ms
    assert row["first_produce_us"] > row["serving_us"]


def test_the_controllers_are_those_that_the_cluster_named(told):
    named = [
        tuple(map(int, re.findall(r"broker (\d+), epoch (\d+)", each.text)[0]))
        for each in told.live.told
        if each.text.startswith("the controller is")
    ]

    assert [(row["broker"], row["controller_epoch"]) for row in told.rows("controller")] == named


def test_every_event_is_counted(told):
    wanted = {
        event: sum(
            pq.read_metadata(part).num_rows
            for part in (told.folder / event).rglob("*.parquet")
            if part not in told.spoilt.values()
        )
        for event in told.answer["events"]
    }

    assert {each: count for each, count in told.answer["events"].items() if count} == wanted


# --- the audit ------------------------------------------------------------------------------------


def test_each_broken_promise_is_found_and_none_where_all_were_kept(told):
    lies = {row["invariant"] for row in told.rows("audit", run="lies")}

    assert told.rows("audit") == []
    assert lies == {
        "one controller an epoch",
        "controller epochs rise",
        "broker epochs rise",
        "leader epochs never fall",
        "the ISR is within the replicas",
        "one leader an epoch",
        "high watermarks never fall",
        "states change by their tables",
    }
    assert len(lies) == len(CHECKS)
    assert told.code == BROKEN_PROMISES


def test_a_finding_names_its_event(told):
    (fall,) = [row for row in told.rows("audit", "lies") if "watermark" in row["invariant"]]

    assert fall["detail"] == "the high watermark fell from 9 to 8 in leader epoch 3"
    assert (fall["node"], fall["topic"], fall["partition"]) == ("broker-1", "orders", 0)
    assert fall["time_us"] == after(10)


def test_a_topic_that_is_made_anew_may_begin_at_epoch_0(told):
    assert "fine" not in {row["topic"] for row in told.rows("audit", "lies")}


def test_a_refused_change_has_its_cause(told):
    (refused,) = told.rows("states_refused", "lies")

    assert (refused["machine"], refused["before"], refused["wanted"]) == (
        "partition",
        "New",
        "Gone",
    )
    assert refused["message"] == BOLD


def test_a_report_leaves_its_page_and_its_tables_and_nothing_else(told):
    assert sorted(each.name for each in told.out.iterdir()) == ["report.html", "tables"]
    assert {each.name for each in (told.out / "tables").iterdir()} == set(JOBS)


def test_answers_with_an_error_code_are_told_by_who_was_refused_what(told):
    (refused,) = told.rows("requests_refused", "lies")

    assert (refused["node"], refused["source"]) == ("broker-1", HOSTILE)
    assert (refused["request"], refused["error"]) == ("Produce", "NOT_LEADER_OR_FOLLOWER")
    assert (refused["answers"], refused["times"]) == (2, 6)
    assert (refused["first_us"], refused["last_us"]) == (after(14), after(14))
    assert "answered with an error code (mostly" in " ".join(told.answer["summary"])


# --- what is wrong with the files -----------------------------------------------------------------


def test_each_spoilt_part_is_named_and_the_rest_is_told(told):
    for name, part in told.spoilt.items():
        (sentence,) = [each for each in told.answer["complaints"] if part.name in each]
        assert "is left out: " in sentence, name
        assert sentence in told.errors
    assert told.answer["summary"][0].startswith("3 runs")


def test_a_trace_from_before_the_last_change_of_the_schema_is_read(spark, told):
    trace = Trace(spark, [str(told.folder)])

    (row,) = trace.events(LeaderElected).where("run = 'ancient'").collect()

    assert row.replicas == ""
    assert row.isr == "1,2,3"


def test_a_clock_that_was_set_is_told(told):
    (back,) = [each for each in told.answer["complaints"] if "went back" in each]
    (forward,) = [each for each in told.answer["complaints"] if "set forward" in each]

    assert back.startswith("the clock of broker-1 went back by 10.0 s at 2020-09-13 12:27:10")
    assert "no message was handled for 120 min" in forward or "2 h 0 min" in forward


# --- the page -------------------------------------------------------------------------------------


class Reader(HTMLParser):
    """What a browser would make of it."""

    def __init__(self) -> None:
        super().__init__()
        self.tags, self.attributes, self.words = [], [], []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs

    def handle_data(self, data):
        self.words.append(data)


def test_nothing_of_a_trace_becomes_markup(told):
    reader = Reader()
    reader.feed(told.page)

    assert "script" not in reader.tags
    assert "img" not in reader.tags
    assert not [name for name, _ in reader.attributes if name.startswith("on")]
    assert any("<script>alert" in each for each in reader.words), "it is there, as text"


def test_the_page_needs_nothing_from_anywhere(told):
    reader = Reader()
    reader.feed(told.page)

    links = [value for name, value in reader.attributes if name in ("href", "src")]
    assert links
    assert all(link.startswith("#") for link in links)
    assert ("content", "default-src 'none'; style-src 'unsafe-inline'") in reader.attributes
    assert "url(" not in told.page


def test_every_drawing_has_a_sentence_and_every_section_is_in_the_contents(told):
    assert told.page.count("<figure>") == told.page.count("<figcaption>") > 8
    anchors = re.findall(r'<section id="(\w+)"', told.page)
    assert re.findall(r'<a href="#(\w+)"', told.page) == anchors
    assert len(anchors) == 11


@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_a_browser_has_nothing_to_complain_of(told, browser, scheme):
    url = (told.out / "report.html").as_uri()
    async with opened(browser, url, color_scheme=scheme) as seen:
        for width in (1_280, 420):
            await seen.page.set_viewport_size({"width": width, "height": 900})
            wide = await seen.page.evaluate("document.documentElement.scrollWidth")
            assert wide <= width, "only charts and tables scroll sideways, in their boxes"
        ground = await seen.page.evaluate("getComputedStyle(document.body).backgroundColor")

    assert seen.complaints == []
    assert seen.addresses == [url]
    assert (ground == "rgb(22, 25, 29)") == (scheme == "dark")


def test_every_job_leaves_a_table(told):
    assert {each.name for each in (told.out / "tables").iterdir()} == set(JOBS)


# --- arguments ------------------------------------------------------------------------------------


def test_since_is_a_time_or_so_long_before_the_end():
    assert since_us("2020-09-13T12:26:40", 0) == after(0)
    assert since_us("2m", after(0)) == after(-120 * SECOND)
    with pytest.raises(BadSince, match="neither a time"):
        since_us("yesterday", 0)


@pytest.mark.parametrize("arguments", [[], [""], ["t", "--since"], ["t", "--wrong"]])
def test_wrong_arguments_are_one_sentence(capsys, arguments):
    with pytest.raises(SystemExit) as ended:
        main(lambda: Path("/nowhere"), arguments)

    assert ended.value.code == 1
    assert re.fullmatch(r"trace-report: .+; see bin/trace-report --help\n", capsys.readouterr().err)
