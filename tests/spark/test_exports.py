"""A trace in other people's forms: arrows begin in their causes, and nothing said breaks a form."""

import json
import re

import pytest

from runtime.recorder import Recorder
from runtime.tracing import CAUSE, MESSAGE
from spark.exports.facts import latest_run
from spark.exports.perfetto import write_perfetto
from spark.exports.sequence import NoSuchCause, chain_of, mermaid, most_consequential
from spark.trace import Trace
from tests.support.traces import EPOCH_US, StandingTrace
from wire.trace import (
    BrokerStateChanged,
    FaultInjected,
    LeaderElected,
    NodeStarted,
    NodeStopped,
    ZNodeSkipped,
)

RUN = "20200913T120000"
HOSTILE = 'x"}];\n#<script>'


class WatchEvent:
    """A message, by its name."""


class Send:
    """Another."""


class Fetch:
    """What goes round for ever."""


def handled(trace, number, cause, actor, kind, *, at_us, queue_us=0, handle_us=10):
    mark = trace.marks_of(actor.split("/")[0], actor)[kind]
    begun = 1 + at_us / 1e6
    times = (begun - queue_us / 1e6, begun, begun + handle_us / 1e6)
    trace.messages.extend(MESSAGE.pack(number, cause, mark, *times))


def left(trace, node, event, *, cause=0, at_us=0):
    trace.at_us = at_us
    token = CAUSE.set([cause])
    trace.leave(node, event)
    CAUSE.reset(token)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A controller hears of a dead broker, elects two leaders and tells two brokers so."""
    trace = StandingTrace()
    left(trace, "broker-1", FaultInjected("kill", "broker-3", HOSTILE), at_us=5)
    handled(trace, 100, 0, "broker-1/controller", WatchEvent, at_us=50, handle_us=40)
    for partition in (0, 1):
        elected = LeaderElected("orders", partition, 2, 1, "2,1", 3, "offline", False)
        left(trace, "broker-1", elected, cause=100, at_us=70)
    handled(trace, 101, 100, "broker-1/controller/channel-1", Send, at_us=95, queue_us=20)
    handled(trace, 102, 100, "broker-1/controller/channel-2", Send, at_us=96, queue_us=21)
    handled(trace, 103, 100, "broker-1/controller/channel-2", Send, at_us=107, queue_us=30)
    handled(trace, 104, 102, "broker-2/replica-manager", Send, at_us=120, queue_us=14)
    left(trace, "broker-2", ZNodeSkipped(HOSTILE, HOSTILE), cause=104, at_us=125)
    handled(trace, 105, 104, "broker-2/fetcher-0-1", Fetch, at_us=140, queue_us=5)
    handled(trace, 106, 105, "broker-1/replica-manager", Fetch, at_us=150, queue_us=5)
    folder = tmp_path_factory.mktemp("a trace")
    Recorder(trace, folder, run=RUN).write()
    older = StandingTrace()
    older.at_us = -10
    handled(older, 1, 0, "broker-9/controller", WatchEvent, at_us=-1000)
    Recorder(older, folder, run="20190101T000000").write()
    return folder


@pytest.fixture(scope="module")
def trace(spark, folder):
    found = Trace(spark, [str(folder)])
    yield found
    found.close()


@pytest.fixture(scope="module")
def opened(trace, tmp_path_factory):
    file = tmp_path_factory.mktemp("out") / "run.json"
    exported = write_perfetto(trace, file, RUN)
    return exported, json.loads(file.read_text())


def of(opened, phase):
    return [each for each in opened[1]["traceEvents"] if each["ph"] == phase]


def test_the_run_that_began_last_is_shown(trace):
    assert latest_run(trace) == RUN


def test_every_message_is_a_slice_on_its_actors_track(opened):
    names = {(each["pid"], each["tid"]): each["args"]["name"] for each in of(opened, "M")}
    slices = {each["args"]["id"]: each for each in of(opened, "X")}

    assert set(slices) == {100, 101, 102, 103, 104, 105, 106}
    first = slices[100]
    assert (first["name"], first["ts"], first["dur"]) == ("WatchEvent", EPOCH_US + 50, 40)
    assert names[first["pid"], first["tid"]] == "controller"
    assert names[first["pid"], 0] == "broker-1"
    assert names[slices[104]["pid"], slices[104]["tid"]] == "replica-manager"


def test_an_arrow_begins_within_its_cause_and_ends_where_its_effect_is_taken_up(opened):
    slices = {each["args"]["id"]: each for each in of(opened, "X")}
    begins = {each["id"]: each for each in of(opened, "s")}
    ends = {each["id"]: each for each in of(opened, "f")}

    assert set(begins) == set(ends) == {101, 102, 103, 104, 105, 106}
    for number, begin in begins.items():
        effect = slices[number]
        cause = slices[effect["args"]["cause"]]
        assert (begin["pid"], begin["tid"]) == (cause["pid"], cause["tid"])
        assert cause["ts"] <= begin["ts"] <= cause["ts"] + cause["dur"]
        end = ends[number]
        assert (end["pid"], end["tid"], end["ts"]) == (effect["pid"], effect["tid"], effect["ts"])
        assert end["bp"] == "e"  # it ends in the slice around it, not in the next one
    assert begins[101]["ts"] == EPOCH_US + 75  # when it was sent


def test_all_else_is_a_mark_where_it_happened_whatever_it_says(opened):
    marks = {each["name"]: each for each in of(opened, "i")}
    names = {(each["pid"], each["tid"]): each["args"]["name"] for each in of(opened, "M")}

    fault, skipped = marks["FaultInjected"], marks["ZNodeSkipped"]
    assert json.loads(fault["args"]["said"])["detail"] == HOSTILE
    assert names[fault["pid"], fault["tid"]] == "broker-1"
    assert names[skipped["pid"], skipped["tid"]] == "replica-manager"
    assert opened[0] == (7, 0, 4)


def test_what_a_viewer_could_not_open_is_left_out_and_counted(trace, tmp_path):
    exported = write_perfetto(trace, tmp_path / "short.json", RUN, most=2)

    lines = json.loads((tmp_path / "short.json").read_text())["traceEvents"]
    assert {each["args"]["id"] for each in lines if each["ph"] == "X"} == {100, 101}
    assert exported[:2] == (2, 5)
    assert [each.name for each in tmp_path.iterdir()] == ["short.json"]


def test_a_chain_is_one_arrow_for_each_kind_of_message_and_stops_where_it_goes_round(trace):
    cause = most_consequential(trace, RUN)
    assert cause == 100

    text = mermaid(chain_of(trace, RUN, cause))

    lines = [line.strip() for line in text.splitlines()]
    assert lines[0] == "sequenceDiagram"
    assert "a0->>a0: WatchEvent (+0.0 ms)" in lines
    assert "a0->>a2: Send × 2 (+0.0 ms)" in lines
    assert "a2->>a3: Send (+0.1 ms)" in lines
    assert any(line.startswith("a3->>a4: Fetch") for line in lines)
    assert not any(line.startswith("a4->>") for line in lines)  # its effects would never end
    (elected,) = [line for line in lines if "LeaderElected" in line]
    assert elected.startswith("Note over a0: LeaderElected topic=orders, partition=0, leader=2")
    assert elected.endswith(" and 1 more")


def test_a_diagram_does_not_begin_with_what_the_clusters_end_led_to(spark, tmp_path):
    trace = StandingTrace()
    left(trace, "broker-1", NodeStarted(), at_us=1)
    for cause, partitions, at_us in ((100, 1, 50), (200, 3, 900)):
        handled(trace, cause, 0, "broker-1/controller", WatchEvent, at_us=at_us)
        for partition in range(partitions):
            elected = LeaderElected("orders", partition, 2, 1, "2,1", 3, "offline", False)
            left(trace, "broker-1", elected, cause=cause, at_us=at_us)
    left(trace, "broker-1", BrokerStateChanged("PendingControlledShutdown"), at_us=800)
    left(trace, "broker-1", NodeStopped("stopped"), at_us=1_000)
    Recorder(trace, tmp_path, run=RUN).write()
    found = Trace(spark, [str(tmp_path)])

    assert most_consequential(found, RUN) == 100
    found.close()


def test_nothing_that_is_said_breaks_the_diagram(trace):
    text = mermaid(chain_of(trace, RUN, 100))

    grammar = re.compile(
        r"sequenceDiagram|    participant a\d+ as .+|    a\d+->>a\d+: .+|    Note over a\d+: .+"
    )
    assert all(grammar.fullmatch(line) for line in text.splitlines())
    assert "#59;" in text
    assert not re.search(r"[<>]s|(?<!#\d\d);", text.replace("->>", ""))


def test_what_does_not_fit_is_counted(trace):
    text = mermaid(chain_of(trace, RUN, 100, most=2))

    assert text.count("->>") == 2
    assert text.splitlines()[-1].strip() == "Note over a0: and 3 more"


def test_a_cause_that_is_not_there_is_refused(trace):
    with pytest.raises(NoSuchCause, match="there is no message 7 in this trace"):
        chain_of(trace, RUN, 7)
