"""bin/simulate."""

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from actors.commands.simulate import main
from actors.faults.scenario import read_scenario
from tests.support.losing import FAULTS, GENERATION, LOSS, RECORDS, is_lost, losing_seed

ROOT = Path(__file__).parents[3]
SMALL = ("--faults", "4", "--records", "40")


def losing_options(most: int) -> tuple[str, ...]:
    """From the first seed that loses records on."""
    first = losing_seed()
    given = {
        "--seeds": f"{first}..{first + most - 1}",
        "--generation": GENERATION,
        "--invariant": LOSS,
        "--faults": str(FAULTS),
        "--records": str(RECORDS),
        "--jobs": "1",
    }
    return (*(word for pair in given.items() for word in pair), "--no-shrink")


def started(*arguments: str, **environment: str) -> subprocess.Popen:
    return subprocess.Popen(
        [sys.executable, "-m", "actors.commands.simulate", *arguments],
        cwd=ROOT,
        env=os.environ | environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_one_seed_is_told_from_its_first_fault_to_its_verdict(capsys):
    assert main(["--seed", "7", *SMALL]) == 0

    out = capsys.readouterr().out
    assert "heal: all links" in out
    assert "seed 7: " in out
    assert "trace: sha256 " in out
    assert out.endswith("verdict: every invariant held\n")


def test_many_seeds_are_summed_up(capsys):
    assert main(["--seeds", "1..3", "--jobs", "1", *SMALL]) == 0

    first, second = capsys.readouterr().out.splitlines()
    assert first.startswith("3 seeds, 0 with a violation; ")
    assert "seeds a minute" in first
    assert second.startswith("coverage: ")
    assert "state transitions" in second


def test_as_json_each_seed_is_a_line_and_nothing_else_is(capsys):
    assert main(["--seeds", "1..2", "--jobs", "1", "--json", *SMALL]) == 0

    verdicts = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [each["seed"] for each in verdicts] == [1, 2]
    assert [each["invariant"] for each in verdicts] == ["", ""]
    assert all(each["coverage"] for each in verdicts)


def test_a_violation_is_told_with_its_causes_and_written_as_a_file_that_shows_it(tmp_path, capsys):
    seed = losing_seed()
    assert main([*losing_options(2), "--out", str(tmp_path / "new")]) == 2

    out = capsys.readouterr().out.splitlines()
    assert out[0].startswith(f"seed {seed} violates {LOSS} ")
    assert ": acknowledged by " in out[0]
    assert out[1] == "the first bad event, and what led to it:"
    assert " ms broker-" in out[2]
    path = tmp_path / "new" / f"seed-{seed}.toml"
    (told,) = [line for line in out if "replay" in line]
    assert re.search(r"[0-9] steps? shows? it; ", told)
    assert told.endswith(f"; replay: bin/inject-fault {path} --invariant {LOSS}")
    assert out[-2].startswith("1 seed, 1 with a violation; ")
    assert is_lost(read_scenario(path))


def test_after_a_violation_it_goes_on_if_it_is_told_to(tmp_path, capsys):
    seed = losing_seed()

    assert main([*losing_options(2), "--keep-going", "--json", "--out", str(tmp_path)]) == 2

    captured = capsys.readouterr()
    verdicts = [json.loads(line) for line in captured.out.splitlines()]
    assert [each["seed"] for each in verdicts] == [seed, seed + 1]
    assert verdicts[0]["invariant"] == LOSS
    assert f"seed {seed} violates {LOSS}" in captured.err


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ((), "one of the arguments --seed --seeds is required"),
        (("--seed", "x"), "'x' is no seed"),
        (("--seed", "-1"), "is no seed"),
        (("--seeds", "9..1"), "'9..1' is no range"),
        (("--seeds", "1..99999999999"), "has more than 10000000 seeds"),
        (("--seed", "1", "--seeds", "1..2"), "not allowed with"),
        (("--seed", "1", "--generation", "kip-1"), "kip-1"),
        (("--seed", "1", "--faults", "0"), "'0' is not a number"),
        (("--seed", "1", "--invariant", "I-99"), "I-99"),
    ],
)
def test_what_is_no_request_is_refused_in_a_sentence(arguments, sentence, capsys):
    with pytest.raises(SystemExit) as refused:
        main(list(arguments))

    assert refused.value.code == 1
    assert sentence in capsys.readouterr().err


def test_one_seed_gives_one_trace_in_processes_with_different_hashes():
    """Objects lie elsewhere with another allocator: the order of a set of them differs then."""
    first = started("--seed", "11", *SMALL, PYTHONHASHSEED="1")
    second = started("--seed", "11", *SMALL, PYTHONHASHSEED="4242", PYTHONMALLOC="malloc")

    told = [process.communicate(timeout=120)[0].splitlines() for process in (first, second)]

    traces = [line for lines in told for line in lines if line.startswith("trace: sha256 ")]
    assert len(traces) == 2
    assert len(set(traces)) == 1


def test_what_was_found_is_told_and_written_before_it_is_made_shorter(
    tmp_path, capsys, monkeypatch
):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("actors.commands.simulate.shrink", interrupted)
    wanted = [each for each in losing_options(2) if each != "--no-shrink"]

    assert main([*wanted, "--out", str(tmp_path)]) == 130

    out = capsys.readouterr().out
    assert f"seed {losing_seed()} violates {LOSS} " in out
    assert "the first bad event" in out
    (written,) = tmp_path.iterdir()
    assert read_scenario(written).seed == losing_seed()


def test_a_place_that_cannot_be_written_to_is_told_before_the_first_seed(tmp_path, capsys):
    (tmp_path / "file").write_text("")

    assert main(["--seed", "1", *SMALL, "--out", str(tmp_path / "file")]) == 1

    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith(f"simulate: {tmp_path / 'file'} cannot be written to: ")


def test_whoever_presses_ctrl_c_is_told_how_far_it_came():
    process = started("--seeds", "1..1000000", "--jobs", "2", *SMALL, "--json")
    assert process.stdout is not None
    json.loads(process.stdout.readline())  # it works

    process.send_signal(signal.SIGINT)

    try:
        _, told = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == 130
    assert "Traceback" not in told
