"""Rows of measure, bar and verdict.

Rule: a bar is a ratio inside one run wherever it can be, since machines differ and are shared. What
is compared is measured in turn, several times, and the best of each side counts: noise only slows.
"""

import gc
import importlib
import json
import pkgutil
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from time import perf_counter


@dataclass(frozen=True)
class Row:
    """One measurement against its bar."""

    measure: str
    measured: str
    bar: str
    reached: bool


def at_least(measure: str, value: float, bar: float, unit: str = "", detail: str = "") -> Row:
    """A row that is reached from the bar upwards."""
    return Row(measure, _show(value, unit, detail), f"≥ {_number(bar)}{unit}", value >= bar)


def at_most(measure: str, value: float, bar: float, unit: str = "", detail: str = "") -> Row:
    """A row that is reached up to the bar."""
    return Row(measure, _show(value, unit, detail), f"≤ {_number(bar)}{unit}", value <= bar)


def less_than(measure: str, value: float, bar: float, unit: str = "", detail: str = "") -> Row:
    """A row that is reached below the bar."""
    return Row(measure, _show(value, unit, detail), f"< {_number(bar)}{unit}", value < bar)


def seconds(work: Callable[[], object]) -> float:
    """How long something takes, with no garbage collection of what others left."""
    gc.collect()
    gc.disable()
    try:
        begun = perf_counter()
        work()
        return perf_counter() - begun
    finally:
        gc.enable()


def in_turn(rounds: int, *sides: Callable[[], float]) -> list[float]:
    """The best time of each side, measured in turn."""
    times = [[side() for side in sides] for _ in range(rounds)]
    return [min(column) for column in zip(*times, strict=True)]


def progress(line: str) -> None:
    """How far a long measurement is: one line that changes, for whoever watches at a terminal."""
    if sys.stderr.isatty():
        sys.stderr.write(f"\r{line}\x1b[K")
        sys.stderr.flush()


def _show(value: float, unit: str, detail: str) -> str:
    return f"{_number(value)}{unit}" + (f"  ({detail})" if detail else "")


def _number(value: float) -> str:
    if value >= 1000:
        return f"{value:,.0f}"
    return f"{value:.3g}"


def names() -> list[str]:
    """The benchmarks there are."""
    folder = Path(__file__).parent
    return sorted(m.name for m in pkgutil.iter_modules([str(folder)]) if m.name != "harness")


def main(wanted: list[str], json_file: Path | None) -> int:
    """Run benchmarks, print their rows as they come, and say whether all were reached."""
    strangers = sorted(set(wanted) - set(names()))
    if strangers:
        sys.stderr.write(f"bench: no benchmark {', '.join(strangers)}; there is {_list()}\n")
        return 1
    results: dict[str, list[Row]] = {}
    for name in wanted or names():
        print(f"\n{name}\n{'measure':<46} {'measured':<44} {'bar':<12} verdict", flush=True)
        rows: Callable[[], Iterator[Row]] = importlib.import_module(f"tests.bench.{name}").rows
        results[name] = []
        for row in rows():
            results[name].append(row)
            verdict = "reached" if row.reached else "SHORT"
            print(f"{row.measure:<46} {row.measured:<44} {row.bar:<12} {verdict}", flush=True)
    if json_file is not None:
        table = {name: [asdict(row) for row in rows] for name, rows in results.items()}
        json_file.write_text(json.dumps(table, indent=2, ensure_ascii=False) + "\n")
    short = [row.measure for rows in results.values() for row in rows if not row.reached]
    total = sum(map(len, results.values()))
    print(f"\n{total - len(short)} of {total} bars reached", flush=True)
    return 1 if short else 0


def _list() -> str:
    return ", ".join(names())
