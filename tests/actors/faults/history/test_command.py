"""bin/check-history."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from actors.commands.check_history import main
from tests.actors.faults.history.planted import Planted

ROOT = Path(__file__).parents[4]


@pytest.fixture
def history():
    history = Planted()
    history.send("a", 0)
    history.send("b", 1)
    return history


@pytest.fixture
def path(tmp_path):
    return tmp_path / "history.jsonl"


def run(history, path, *arguments):
    history.write(path)
    return main([str(path), *arguments])


def test_a_sound_history(history, path, capsys):
    history.read("ab")

    assert run(history, path) == 0
    assert capsys.readouterr().out == "8 events\nsound\n"


def test_one_sentence_an_anomaly(history, path, capsys):
    history.read("ax")

    assert run(history, path) == 2
    assert capsys.readouterr().out.splitlines() == [
        "8 events",
        "lost: record p-2 ('b') was acknowledged at offset 1 of orders-0 and is gone: "
        "c read 'x' there",
        "phantom: c read 'x' at offset 1 of orders-0, and nobody sent it there",
        "not sound: 1 lost, 1 phantom",
    ]


def test_so_many_are_shown_and_the_rest_is_counted(history, path, capsys):
    history.read("ax")

    assert run(history, path, "--most", "1") == 2
    assert "and 1 more, which --most or --json show" in capsys.readouterr().out


def test_json_has_the_events(history, path, capsys):
    history.read("a")

    assert run(history, path, "--json") == 2
    answer = json.loads(capsys.readouterr().out)
    assert (answer["events"], answer["is_sound"]) == (7, False)
    assert [each["kind"] for each in answer["anomalies"]] == ["lost"]
    assert [each["event"] for each in answer["anomalies"][0]["events"]] == [
        "sent",
        "acknowledged",
        "end_seen",
    ]


def test_what_is_allowed_is_said(history, path):
    history.send("d", 3)
    history.read("ab.d")

    assert run(history, path) == 2
    assert run(history, path, "--sparse", "orders-0") == 0
    history.read("abb", client="d")
    assert run(history, path, "--sparse", "orders-0", "--unclean", "orders-0") == 0


def test_copies_may_be_forbidden(path):
    history = Planted()
    history.send("a", 1)
    history.read("aa")

    assert run(history, path) == 0
    assert run(history, path, "--no-duplicates") == 2


def test_several_files_are_one_history(history, path, tmp_path):
    sent, history.events = history.events, []
    history.read("ab")
    history.write(tmp_path / "reader.jsonl")
    history.events = sent
    history.write(path)

    assert main([str(path), str(tmp_path / "reader.jsonl")]) == 0
    assert main([str(tmp_path / "reader.jsonl")]) == 2


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("{}", "line 1: object missing required field `event`"),
        ('{"event":"acknowledged","at_ms":1,"id":"x"}', "id 'x' was answered and never sent"),
    ],
)
def test_what_cannot_be_judged_is_one_sentence(path, capsys, line, sentence):
    path.write_text(line)

    assert main([str(path)]) == 1
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err.startswith("check-history: ")
    assert told.err.endswith(f"{sentence}\n")
    assert told.err.count("\n") == 1


@pytest.mark.parametrize("partition", ["orders", "orders-", "orders-x", "-1"])
def test_a_partition_has_a_number(path, capsys, partition):
    with pytest.raises(SystemExit) as ended:
        main([str(path), f"--unclean={partition}"])

    assert ended.value.code == 1
    assert capsys.readouterr().err.count("\n") == 1


def test_it_runs_as_a_module_and_helps_with_an_example(history, path):
    history.read("a")
    history.write(path)
    command = [sys.executable, "-m", "actors.commands.check_history"]

    def ran(argument):
        whole = [*command, argument]
        return subprocess.run(whole, cwd=ROOT, capture_output=True, text=True, check=False)

    told, helped = ran(path), ran("--help")

    assert (told.returncode, told.stderr) == (2, "")
    assert told.stdout.endswith("not sound: 1 lost\n")
    assert helped.returncode == 0
    assert "example: bin/check-history history.jsonl" in helped.stdout
