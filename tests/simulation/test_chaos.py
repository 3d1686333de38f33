"""Whatever is done to a cluster: nothing forbidden is ever written, and in the end all is well."""

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

from runtime.simulation.simulator import run
from tests.simulation.chaos import chaos

ROOT = Path(__file__).parents[2]
# These once failed: a topic deleted while it moved (88), a move and a deletion that waited for each
# other (116, 133), a partition moved before it had a leader (280), a fetch whose ISR write was
# lost (916), topics deleted behind the back of a broker without a session (34).
SEEDS = (34, 88, 116, 133, 171, 280, 293, 916, *range(1, 31))


@pytest.mark.parametrize("seed", SEEDS)
def test_random_faults_and_administration_end_well(seed):
    run(lambda: chaos(seed, is_wide=False))


# A leader stopped before its successor lived (5064), a deletion that an answer of a broker's former
# life had failed (8689).
@pytest.mark.parametrize("seed", [5064, 8689, *range(1, 31)])
def test_random_faults_requests_and_goodbyes_end_well(seed):
    run(lambda: chaos(seed))


@pytest.mark.parametrize("seed", [1, 2])
def test_one_seed_is_one_run_of_the_controller_too(seed):
    def trace_of(hash_seed: str, malloc: str) -> str:
        command = [sys.executable, "-m", "tests.simulation.chaos", str(seed)]
        environment = os.environ | {"PYTHONHASHSEED": hash_seed, "PYTHONMALLOC": malloc}
        return subprocess.run(
            command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True
        ).stdout

    first, second = trace_of("1", "pymalloc"), trace_of("4242", "malloc")

    assert first == second
    assert first.endswith(f"{hashlib.sha256(run(lambda: chaos(seed))).hexdigest()}\n")
