"""What seeds once found, made short, and kept: each failed before its cause was mended."""

from pathlib import Path

import pytest

from actors.faults.scenario import read_scenario
from actors.faults.simulated import judge

KEPT = sorted((Path(__file__).parents[1] / "scenarios" / "seeds").glob("*.toml"))


@pytest.mark.parametrize("path", KEPT, ids=lambda path: path.stem)
def test_what_a_seed_once_found_does_not_come_back(path):
    verdict = judge(read_scenario(path))

    assert verdict.is_good, verdict.violation


def test_seeds_were_kept():
    assert KEPT
