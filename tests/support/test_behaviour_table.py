"""The table of behaviours, in a small clone: three rows, and the tests that each test writes."""

import os
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
COPIED = (
    "bin/test",
    "pyproject.toml",
    "tests/support/__init__.py",
    "tests/support/behaviour_table.py",
    "tests/test_behaviours.py",
)
ROWS = {"B001": "Somebody leads", "B002": "Nobody leads twice", "H1": "A zombie does nothing"}
MARKED_EVERYWHERE = """
    import pytest

    pytestmark = pytest.mark.behaviour("B001")

    @pytest.mark.behaviour("B001", "B002")
    class TestLeader:
        def test_leads(self): raise AssertionError("this runs")

    @pytest.mark.parametrize("seed", [1, 2, pytest.param(3, marks=pytest.mark.behaviour("H1"))])
    def test_dies(seed): raise AssertionError("this runs")
"""
ONE_ROW = """
    import pytest

    @pytest.mark.behaviour("B002")
    def test_leads(): pass
"""


class Clone:
    """A clone with rows of its own."""

    def __init__(self, folder: Path) -> None:
        self.root = folder
        for name in COPIED:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, folder / name)
        self.write("conftest.py", 'pytest_plugins = ["tests.support.behaviour_table"]')
        self.write("behaviours.py", f"BEHAVIOURS = {ROWS}")

    def write(self, name: str, text: str) -> None:
        (self.root / "tests" / name).write_text(textwrap.dedent(text))

    def pytest(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return self.run("-m", "pytest", *arguments)

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, *arguments],
            cwd=self.root,
            env=os.environ | {"PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )


@pytest.fixture
def clone(tmp_path: Path) -> Clone:
    return Clone(tmp_path)


def test_the_table_shows_each_row_with_its_tests_wherever_the_mark_is(clone):
    clone.write("test_some.py", MARKED_EVERYWHERE)

    done = clone.pytest("--behaviours")

    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    assert done.stdout.strip().splitlines() == [
        "B001  Somebody leads         2 tests",
        "      tests/test_some.py::TestLeader::test_leads",
        "      tests/test_some.py::test_dies ×3",
        "B002  Nobody leads twice     1 test",
        "      tests/test_some.py::TestLeader::test_leads",
        "H1    A zombie does nothing  1 test",
        "      tests/test_some.py::test_dies",
        "",
        "3 of 3 rows have a test",
    ]


def test_the_table_ends_with_the_rows_that_have_no_test_and_fails(clone):
    clone.write("test_some.py", ONE_ROW)

    done = clone.pytest("--behaviours")

    assert (done.returncode, done.stderr) == (1, "")
    assert "B001  Somebody leads         no test\n" in done.stdout
    assert done.stdout.strip().splitlines()[-5:] == [
        "1 of 3 rows have a test",
        "",
        "Without a test:",
        "B001  Somebody leads",
        "H1    A zombie does nothing",
    ]


def test_the_table_is_not_shown_when_a_file_cannot_be_collected(clone):
    clone.write("test_some.py", MARKED_EVERYWHERE)
    clone.write("test_broken.py", "import nothing_of_this_name")

    done = clone.pytest("--behaviours")

    assert done.returncode == pytest.ExitCode.INTERRUPTED
    assert "No module named 'nothing_of_this_name'" in done.stdout
    assert "rows have a test" not in done.stdout


@pytest.mark.parametrize("arguments", [(), ("--behaviours",), ("-k", "other")], ids=" ".join)
def test_marks_that_name_no_row_are_refused_whatever_is_selected(clone, arguments):
    marks = ('("B001", "B01")', '(["B001"])', "", '(row="B001")')
    tests = (
        f"@pytest.mark.behaviour{mark}\ndef test_{number}(): pass\n"
        for number, mark in enumerate(marks)
    )
    clone.write("test_some.py", f"import pytest\n{''.join(tests)}def test_other(): pass\n")

    done = clone.pytest(*arguments)

    assert done.returncode == pytest.ExitCode.USAGE_ERROR
    assert "passed" not in done.stdout
    assert done.stderr.strip().removeprefix("ERROR: ").splitlines() == [
        "tests/test_some.py::test_0: behaviour 'B01' is not a row of tests/behaviours.py",
        "tests/test_some.py::test_1: behaviour ['B001'] is not a row of tests/behaviours.py",
        "tests/test_some.py::test_2: the mark behaviour takes ids of rows: behaviour('B001')",
        "tests/test_some.py::test_3: the mark behaviour takes ids of rows: behaviour('B001')",
    ]


def test_the_whole_suite_fails_for_a_row_without_a_test(clone):
    clone.write("test_some.py", ONE_ROW)

    done = clone.pytest("-v")

    assert done.returncode == pytest.ExitCode.TESTS_FAILED
    assert "1 failed, 1 passed" in done.stdout
    assert "no test proves B001, H1; see bin/test --behaviours" in done.stdout


@pytest.mark.parametrize(
    "selection",
    [
        ("tests/test_behaviours.py",),
        ("-k", "in_scope"),
        ("-m", "not behaviour"),
        ("--ignore=tests/test_some.py",),
        ("--deselect=tests/test_some.py",),
    ],
    ids=" ".join,
)
def test_a_selection_is_not_asked_for_every_row(clone, selection):
    clone.write("test_some.py", ONE_ROW)

    done = clone.pytest(*selection)

    assert done.returncode == pytest.ExitCode.OK, done.stdout


def test_bin_test_shows_the_table_and_runs_no_other_part(clone):
    clone.write("test_some.py", ONE_ROW)

    done = clone.run("bin/test", "--behaviours")

    assert (done.returncode, done.stderr) == (1, "bin/test: failed: pytest\n")
    assert [line for line in done.stdout.splitlines() if "==>" in line] == ["==> pytest"]
    assert "1 of 3 rows have a test" in done.stdout
