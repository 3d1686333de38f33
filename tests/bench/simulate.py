"""Random faults by seed: how fast, how repeatable, and what they find.

Seeds are counted by the processor's time of this process, since machines are shared; a scenario
with its verdict by the time that whoever waits for it waits. The seeds of the default generation
run on all cores, half an hour on two; SEEDS=200 in the environment is for who has no time, and the
row says of how many it speaks.
"""

import multiprocessing
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from itertools import count
from pathlib import Path

from actors.faults.nemesis import FAULTS, RECORDS
from actors.faults.scenario import read_scenario
from actors.faults.simulated import Verdict, judge, scenario_of_seed
from tests.bench.harness import Row, at_least, at_most, less_than, progress, seconds
from tests.simulation.mutations.guards import GUARDS
from tests.simulation.mutations.hunt import Begun, Caught, hunt

ROOT = Path(__file__).parents[2]
EVERYDAY = ROOT / "tests" / "scenarios" / "leader-dies.toml"
ROUNDS = 3
COUNTED = 40  # seeds
LOSSES = ("I-7", "I-19", "history")
OLD = {"replication.generation": "high-watermark"}
MOST_TILL_LOSS = 500
SEEDS = int(os.environ.get("SEEDS", "10000"))
TOLD = 100  # seeds between two words of progress


def rows() -> Iterator[Row]:
    """The table of issue 6."""
    scenario = read_scenario(EVERYDAY)
    judge(scenario)  # what is imported and decoded for the first time
    took = min(seconds(lambda: judge(scenario)) for _ in range(ROUNDS))
    yield less_than("one everyday scenario with verdict", took, 1, " s", scenario.name)
    detail = f"3 brokers, {FAULTS} faults, {RECORDS} records"
    yield at_least("seeds a minute and core", seeds_a_minute(), 200, "", detail)
    first, second = trace_of(11, "1", "pymalloc"), trace_of(11, "4242", "malloc")
    yield Row("the same seed twice, in two processes", first[:16], second[:16], first == second)
    yield at_most("high-watermark: seeds until a loss", till_loss(), MOST_TILL_LOSS)
    bad = violations(SEEDS)
    measure = f"{FAULTS} faults each: seeds with a violation"
    yield at_most(measure, len(bad), 0, "", f"of {SEEDS:,}: {', '.join(bad) or 'none'}")
    gone = survivors()
    detail = f"of {len(GUARDS)} guards taken out: {', '.join(gone) or 'none is missed'}"
    yield at_least("mutations caught", len(GUARDS) - len(gone), len(GUARDS), "", detail)


def seeds_a_minute() -> float:
    """By one core, with every invariant looking on."""
    begun = time.process_time()
    for seed in range(1, COUNTED + 1):
        judge(scenario_of_seed(seed))
    return COUNTED * 60 / (time.process_time() - begun)


def trace_of(seed: int, hash_seed: str, malloc: str) -> str:
    """The digest of a whole trace, from a process of its own."""
    told = subprocess.run(
        [sys.executable, "-m", "actors.commands.simulate", "--seed", str(seed)],
        cwd=ROOT,
        env=os.environ | {"PYTHONHASHSEED": hash_seed, "PYTHONMALLOC": malloc},
        capture_output=True,
        text=True,
        check=False,
    ).stdout
    (line,) = [line for line in told.splitlines() if line.startswith("trace: sha256 ")]
    return line.removeprefix("trace: sha256 ")


def till_loss() -> int:
    """How many seeds the truncation of before KIP-101 takes until records are lost."""
    for seed in count(1):
        scenario = scenario_of_seed(seed, overrides=OLD)
        is_lost = judge(scenario, only=LOSSES).invariant in LOSSES
        if is_lost or seed > MOST_TILL_LOSS:
            return seed
    raise AssertionError("counting has no end")


def violations(seeds: int) -> list[str]:
    """What so many seeds of the default generation violate."""
    with multiprocessing.get_context("fork").Pool() as pool:
        verdicts = pool.imap_unordered(_run, range(1, seeds + 1), chunksize=4)
        bad = []
        for done, each in enumerate(verdicts, 1):
            if not each.is_good:
                bad.append(f"{each.invariant} by {each.seed}")
            if done % TOLD == 0:
                progress(f"{done:,} of {seeds:,} seeds, violations: {', '.join(bad) or 'none'}")
        progress("")
        return bad


def survivors() -> list[str]:
    """Guards whose absence nobody notices."""
    found, done = [], 0
    for said in hunt(GUARDS, os.cpu_count() or 1):
        if isinstance(said, Caught):
            done += 1
            progress(f"{done} of {len(GUARDS)} guards taken out")
        if is_survivor(said):
            found.append(said.guard)
    progress("")
    return found


def is_survivor(said: Begun | Caught) -> bool:
    """Whether nobody has noticed that a guard was gone."""
    return isinstance(said, Caught) and said.finding is None


def _run(seed: int) -> Verdict:
    return judge(scenario_of_seed(seed))
