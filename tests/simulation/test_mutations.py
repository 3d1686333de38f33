"""The list of guards is what is in the source and in the table; and the machine works.

All of it runs outside: `python -m tests.simulation.mutations`.
"""

import time

import pytest

from actors.broker.fence import Fence
from actors.faults.violation import Violation
from tests.simulation.mutations import __main__ as command
from tests.simulation.mutations import hunt as hunting
from tests.simulation.mutations.grounds import SEEDS, Finding, Ground
from tests.simulation.mutations.guard import Rotten, check, function_of, guard
from tests.simulation.mutations.guards import GUARDS
from tests.simulation.mutations.hunt import HUNG, Begun, caught, hunt
from tests.simulation.mutations.table import TABLE, read_table, row_of, text_of

FENCE = "actors.broker.fence:Fence.check"
LEAST = 30  # guards
BY_NAME = {each.name: each for each in GUARDS}


def fence(fragment: str, replacement: str, play, most: int = 3):
    """A guard, and a ground of its own."""
    return guard("fence", FENCE, fragment, replacement, "", Ground("mine", play, most))


def asks_the_fence(number: int) -> Finding | None:
    """The third run finds a fence that lets everything pass."""
    names = Fence.check.__code__.co_names
    return Finding("I-2", "broken") if "broker_epoch" not in names and number == 3 else None


SAME = "request.controller_epoch < self.controller_epoch"
OPEN = """request.broker_epoch != UNKNOWN_BROKER_EPOCH and (
        request.broker_epoch < self.broker_epoch
    ):
        error = StaleBrokerEpoch(
            f"epoch {request.broker_epoch} is over: this is {self.broker_epoch}"
        )"""


# --- the list -------------------------------------------------------------------------------------


@pytest.mark.parametrize("each", GUARDS, ids=lambda each: each.name)
def test_a_guard_is_still_in_the_source(each):
    check(each)


def test_there_are_enough_of_them_and_each_is_another():
    assert len(GUARDS) >= LEAST
    assert len(BY_NAME) == len(GUARDS)
    assert len({each.edits for each in GUARDS}) == len(GUARDS)


def test_whoever_is_not_looked_for_by_seeds_says_why():
    assert [each.name for each in GUARDS if each.ground is not SEEDS and not each.ground.why] == []


def test_the_table_is_of_this_list_and_all_are_caught():
    rows = read_table()

    assert [row.told for row in rows.values()] == [row_of(each).told for each in GUARDS]
    assert [row.guard for row in rows.values() if not row.is_caught] == []
    assert TABLE.read_text() == text_of(GUARDS, rows)


# --- the machine ----------------------------------------------------------------------------------


def test_a_guard_that_is_removed_is_missed_by_a_seed():
    last = caught(BY_NAME["leader-epoch-of-leader-and-isr"])

    assert (last.finding.invariant, last.number) == ("I-11", 1)


@pytest.mark.parametrize("name", ["joiners-count", "returned-leaders-begin-an-epoch"])
def test_a_guard_that_is_removed_is_missed_by_its_schedule(name):
    assert caught(BY_NAME[name]).finding is not None


def test_runs_are_tried_until_one_of_them_finds_it_and_nothing_stays_removed():
    before = Fence.check.__code__

    said = list(hunt([fence(OPEN, "False:\n        pass", asks_the_fence)]))

    assert said[:3] == [Begun("fence", number) for number in (1, 2, 3)]
    assert (said[-1].number, said[-1].finding) == (3, Finding("I-2", "broken"))
    assert Fence.check.__code__ is before


def test_a_removal_that_changes_nothing_survives():
    last = caught(fence(SAME, SAME, asks_the_fence))

    assert (last.number, last.finding) == (3, None)


def test_what_goes_wrong_with_all_guards_in_place_proves_nothing():
    last = caught(fence(OPEN, "False:\n        pass", lambda number: Finding("I-2", f"{number}")))

    assert (last.number, last.finding) == (3, None)


def test_whatever_is_raised_in_a_run_is_a_finding():
    def play(number):
        if asks_the_fence(3):
            raise Violation("I-7", "gone") if number == 1 else ZeroDivisionError

    assert caught(fence(OPEN, "False:\n        pass", play)).finding == Finding("I-7", "I-7: gone")


def test_a_run_that_never_ends_is_a_finding(monkeypatch):
    monkeypatch.setattr(hunting, "RUN_CPU_S", 0.2)

    def play(number):
        while number == 2 and asks_the_fence(3):
            time.process_time()

    last = caught(fence(OPEN, "False:\n        pass", play))

    assert (last.number, last.finding) == (2, HUNG)


@pytest.mark.parametrize(
    ("function", "fragment", "why"),
    [
        (FENCE, "self.controller_epochs", "has 'self.controller_epochs' 0 times"),
        (FENCE, "error", "times"),
        ("actors.broker.fence:Fence.look", "", "there is no actors.broker.fence:Fence.look"),
    ],
)
def test_a_guard_that_is_not_in_the_source_is_refused(function, fragment, why):
    with pytest.raises(Rotten, match=why):
        check(guard("fence", function, fragment, "", ""))


def test_a_function_is_found_whatever_it_is_wrapped_in():
    names = (
        "actors.broker.replica:Replica.is_under_min_isr",
        "actors.controller.brokers:BrokerDifference.between",
    )
    edits = [guard("", name, "", "", "").edits[0] for name in names]

    assert [function_of(each).__name__ for each in edits] == ["is_under_min_isr", "between"]


# --- the command ----------------------------------------------------------------------------------


def test_the_command_refuses_names_that_nobody_has(capsys):
    assert command.main(["--only", "nothing-*"]) == 1
    assert "no guard is called nothing-*" in capsys.readouterr().err


def test_the_command_fails_when_a_guard_is_no_longer_there(monkeypatch, capsys):
    monkeypatch.setattr(command, "GUARDS", (fence("what was there", "", asks_the_fence),))

    assert command.main(["--list"]) == 1
    assert "has 'what was there' 0 times" in capsys.readouterr().err


def test_the_command_tells_survivors_and_writes_them_into_the_table(monkeypatch, capsys, tmp_path):
    guards = (
        fence(OPEN, "False:\n        pass", asks_the_fence),
        fence(SAME, SAME, asks_the_fence)._replace(name="same"),
    )
    monkeypatch.setattr(command, "GUARDS", guards)
    monkeypatch.setattr(command, "TABLE", tmp_path / "MUTATIONS.md")
    monkeypatch.setattr(command, "read_table", lambda: read_table(tmp_path / "MUTATIONS.md"))

    assert command.main(["--jobs", "1"]) == command.SURVIVORS

    assert "nobody missed same" in capsys.readouterr().err
    rows = read_table(tmp_path / "MUTATIONS.md")
    assert [row.is_caught for row in rows.values()] == [True, False]
    assert command.main(["--only", "fence", "--jobs", "1"]) == 0
    assert [row.is_caught for row in read_table(tmp_path / "MUTATIONS.md").values()] == [
        True,
        False,
    ]
