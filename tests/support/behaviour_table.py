"""The marker `behaviour` names the rows of tests/behaviours.py that a test proves.

    @pytest.mark.behaviour("B001", "B002")

Rule: a mark names rows that exist, or nothing runs at all. `--behaviours` prints each row with its
tests instead of running them, and fails while a row has none.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

import pytest

from tests.behaviours import BEHAVIOURS

SELECTIONS = ("keyword", "markexpr", "deselect", "ignore", "ignore_glob", "lf", "stepwise")
SILENT = -2  # as -qq: the table is all there is to read


def tests_by_row(items: Iterable[pytest.Item]) -> dict[str, Counter[str]]:
    """All rows, with the names of their tests, and how many variants there are of each test."""
    table = {row: Counter() for row in BEHAVIOURS}
    for item in items:
        name = item.nodeid.partition("[")[0]
        for row in {row for mark in item.iter_markers("behaviour") for row in mark.args}:
            table[row][name] += 1
    return table


def untested(items: Iterable[pytest.Item]) -> list[str]:
    return [row for row, tests in tests_by_row(items).items() if not tests]


def is_whole_suite(config: pytest.Config) -> bool:
    chosen = any(config.getoption(option, default=None) for option in SELECTIONS)
    return config.args == config.getini("testpaths") and not chosen


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.getgroup("understudy").addoption(
        "--behaviours",
        action="store_true",
        help="run nothing, print each row of tests/behaviours.py with its tests; "
        "exit 1 when a row has none",
    )


def pytest_configure(config: pytest.Config) -> None:
    if config.option.behaviours:
        config.option.verbose = SILENT


@pytest.hookimpl(tryfirst=True)  # before -k, so that a typo is seen whatever is selected
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if mistakes := sorted({mistake for item in items for mistake in _mistakes(item)}):
        raise pytest.UsageError("\n".join(mistakes))


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> bool | None:
    if not session.config.option.behaviours or session.testsfailed:
        return None  # what could not be collected is pytest's to tell
    writer = session.config.get_terminal_writer()
    for line in _lines(tests_by_row(session.items)):
        writer.line(line)
    return True


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    ran = exitstatus in {pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED}
    if session.config.option.behaviours and ran:
        missing = untested(session.items)
        session.exitstatus = pytest.ExitCode.TESTS_FAILED if missing else pytest.ExitCode.OK


def _mistakes(item: pytest.Item) -> Iterator[str]:
    name = item.nodeid.partition("[")[0]
    for mark in item.iter_markers("behaviour"):
        if mark.kwargs or not mark.args:
            yield f"{name}: the mark behaviour takes ids of rows: behaviour('B001')"
        for row in mark.args:
            if row not in tuple(BEHAVIOURS):
                yield f"{name}: behaviour {row!r} is not a row of tests/behaviours.py"


def _lines(table: Mapping[str, Counter[str]]) -> Iterator[str]:
    width = max(map(len, BEHAVIOURS.values()))
    for row, tests in table.items():
        yield f"{row:<4}  {BEHAVIOURS[row]:<{width}}  {_count(len(tests))}"
        for name, variants in sorted(tests.items()):
            yield f"      {name}" + (f" ×{variants}" if variants > 1 else "")
    missing = [row for row, tests in table.items() if not tests]
    yield f"\n{len(table) - len(missing)} of {len(table)} rows have a test"
    if missing:
        yield "\nWithout a test:"
        yield from (f"{row:<4}  {BEHAVIOURS[row]}" for row in missing)


def _count(tests: int) -> str:
    return {0: "no test", 1: "1 test"}.get(tests, f"{tests} tests")
