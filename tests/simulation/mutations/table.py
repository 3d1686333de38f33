"""MUTATIONS.md: what the last hunt found, a row a guard.

Rule: written by the command alone. What a row says of its guard must be what the list says, and a
test compares the two.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final, NamedTuple

from tests.simulation.mutations.guard import Guard
from tests.simulation.mutations.guards import REDUNDANT
from tests.simulation.mutations.hunt import Caught

TABLE: Final = Path(__file__).with_name("MUTATIONS.md")
COLUMNS: Final = (
    "guard",
    "in",
    "protects",
    "caught by",
    "run",
    "runs",
    "s",
    "why no random seed",
)
SURVIVED: Final = "**survived**"
HEAD: Final = """# Guards, and what notices when one is gone

Written by `python -m tests.simulation.mutations`; see `--help`. Each row is one guard of actors/,
taken out of the source of one function (of several, where one stands in for another) in a process
of its own. *Caught by* is the invariant (I, L), the history checker, what a scenario expects, a
crash, or a run that never ends; *run* is the first that shows it, and the same run with the guard
in its place is silent; *runs* is how many it took, *s* how many seconds of a processor. A seed is
what `bin/simulate --seed N` plays.

"""

FOOT: Final = """## Not in the list

Taken out as well, and missed by no invariant in a dozen seeds or more, in all scenarios and in ten
runs of chaos or more: something else does the same. Tests of their own modules do miss them.

"""


class Row(NamedTuple):
    """A guard, and how its absence was noticed."""

    guard: str
    functions: str
    protects: str
    caught_by: str
    run: str
    runs: str
    seconds: str
    why: str

    @property
    def told(self) -> tuple[str, str, str, str]:
        """What the list says, too."""
        return self.guard, self.functions, self.protects, self.why

    @property
    def is_caught(self) -> bool:
        """Whether it was noticed."""
        return self.caught_by not in {"", SURVIVED}


def row_of(guard: Guard, last: Caught | None = None) -> Row:
    """The row of a guard, and of its hunt if there was one."""
    functions = ", ".join(_place(edit.function) for edit in guard.edits)
    row = Row(guard.name, functions, guard.protects, "", "", "", "", guard.ground.why)
    if last is None:
        return row
    is_caught = last.finding is not None
    return row._replace(
        caught_by=last.finding.invariant if last.finding is not None else SURVIVED,
        run=f"{guard.ground.name} {last.number}" if is_caught else guard.ground.name,
        runs=str(last.number),
        seconds=f"{last.seconds:.1f}",
    )


def _place(function: str) -> str:
    module, _, path = function.partition(":")
    return f"`{module.removeprefix('actors.').replace('.', '/')}` {path}"


def read_table(path: Path = TABLE) -> dict[str, Row]:
    """The rows that were written last, by their guards."""
    lines = path.read_text().splitlines() if path.exists() else []
    cells = [
        [cell.strip() for cell in line.strip("|").split(" | ")] for line in lines if "|" in line
    ]
    rows = (Row(*each) for each in cells if len(each) == len(COLUMNS))
    return {row.guard: row for row in rows if row.guard not in {COLUMNS[0], "---"}}


def text_of(guards: Iterable[Guard], rows: Mapping[str, Row]) -> str:
    """The whole file, in the order of the list."""
    guards = tuple(guards)
    known = [rows.get(each.name, row_of(each)) for each in guards]
    count = sum(row.is_caught for row in known)
    minutes = sum(float(row.seconds or 0) for row in known) / 60
    runs = sum(int(row.runs or 0) for row in known)
    lines = [COLUMNS, ("---",) * len(COLUMNS), *known]
    table = "\n".join(f"| {' | '.join(line)} |" for line in lines)
    redundant = "\n".join(f"- {each}: {why}" for each, why in REDUNDANT.items())
    return (
        f"{HEAD}**{count} of {len(known)} are caught**, in {runs} runs and {minutes:.1f} minutes"
        f" of a processor.\n\n{table}\n\n{FOOT}{redundant}\n"
    )
