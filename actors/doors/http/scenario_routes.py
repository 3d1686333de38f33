"""Scenarios over HTTP: one is played on this cluster, and told of while it is played.

Rule: one at a time. A scenario brings topics of its own and takes them away; settings are the
cluster's. What is told is bounded; whoever asks for more waits a while for it.
"""

import tomllib
from typing import Annotated, Any, Final

from msgspec import Meta, Struct

from actors.clients import Clients
from actors.doors.http.guard import Refused
from actors.doors.http.source import Source
from actors.faults.narrator import Narrator
from actors.faults.real import judge_on
from actors.faults.scenario import BadScenario, Scenario, scenario_of
from actors.faults.simulated import Verdict
from actors.operations.operation import BadInput, Operation
from runtime.tasks import Bell, Tasks
from wire.errors import ApiError

MOST_LINES: Final = 100_000
MOST_KEPT: Final = 10  # scenarios of which one may still ask
WAIT_MS: Final = 10_000
Text = Annotated[str, Meta(max_length=1 << 20)]


class ScenarioGiven(Struct, kw_only=True, forbid_unknown_fields=True):
    """A scenario as its file has it."""

    toml: Text


class ScenarioStarted(Struct):
    """It has begun."""

    number: int


class ShowGiven(Struct, kw_only=True, forbid_unknown_fields=True):
    """Which one, and from which line on."""

    number: Annotated[int, Meta(ge=1, le=2**31 - 1)]
    after: Annotated[int, Meta(ge=0, le=2**31 - 1)] = 0


class StopGiven(Struct, kw_only=True, forbid_unknown_fields=True):
    """Which one."""

    number: Annotated[int, Meta(ge=1, le=2**31 - 1)]


class ScenarioShown(Struct):
    """What was told since, and what came of it if it is over."""

    lines: list[str]
    refusal: str = ""  # why it could not be played
    verdict: Verdict | None = None


class Show:
    """One that is played, or was."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.refusal = ""
        self.verdict: Verdict | None = None
        self.bell = Bell()
        self.tasks = Tasks(self._crashed)
        self.is_over = False

    def say(self, line: str) -> None:
        """One line more."""
        if len(self.lines) < MOST_LINES:
            self.lines.append(line)
        self.bell.ring()

    async def play(self, scenario: Scenario, source: Source) -> None:
        """From its beginning to its end."""
        narrator = Narrator(source.stage, self.say)
        try:
            self.verdict = await judge_on(
                scenario, source.stage, source.faults, narrator.tell, is_guest=True
            )
        except (BadScenario, ApiError) as error:
            self.refusal = str(error)
        finally:
            narrator.stop()
            self.is_over = True
            self.bell.ring()

    def _crashed(self, error: Exception) -> None:
        self.refusal = f"it could not be played to its end, which is a bug: {error!r}"
        self.is_over = True
        self.bell.ring()


class ScenarioDoor:
    """What the rows run."""

    def __init__(self, source: Source, *, has_faults: bool) -> None:
        self._source = source
        self._has_faults = has_faults
        self._shows: dict[int, Show] = {}
        self._last = 0

    async def close(self) -> None:
        """Stop what is played."""
        for show in self._shows.values():
            await show.tasks.close()

    async def start(self, _: Clients, given: ScenarioGiven) -> ScenarioStarted:
        """Begin."""
        self._check()
        try:
            scenario = scenario_of(tomllib.loads(given.toml), default_name="scenario")
        except (tomllib.TOMLDecodeError, BadScenario, RecursionError) as error:
            raise BadInput(str(error)) from None
        if any(not show.is_over for show in self._shows.values()):
            raise Refused(409, "CONFLICT", "a scenario is being played: stop it, or wait")
        self._last += 1
        show = self._shows[self._last] = Show()
        for number in sorted(self._shows)[:-MOST_KEPT]:
            del self._shows[number]
        show.tasks.start(show.play(scenario, self._source))
        return ScenarioStarted(self._last)

    async def show(self, _: Clients, given: ShowGiven) -> ScenarioShown:
        """Tell what is new, or wait a while for it."""
        self._check()
        show = self._found(given.number)
        if len(show.lines) <= given.after and not show.is_over:
            await show.bell.wait(WAIT_MS)
        return ScenarioShown(show.lines[given.after :], show.refusal, show.verdict)

    async def stop(self, _: Clients, given: StopGiven) -> None:
        """End it now; what it broke is healed."""
        self._check()
        await self._found(given.number).tasks.close()

    def _found(self, number: int) -> Show:
        if number not in self._shows:
            raise Refused(404, "NOT_FOUND", f"there is no scenario {number}")
        return self._shows[number]

    def _check(self) -> None:
        if not self._has_faults:
            raise Refused(403, "FORBIDDEN", "faults are off here: start with --faults")

    def operations(self) -> tuple[Operation, ...]:
        """The rows."""
        folder, one = "/api/scenarios", "/api/scenarios/{number}"
        rows: tuple[tuple[str, str, str, str, Any, Any, Any], ...] = (
            ("playScenario", "POST", folder, "Play a scenario.", ScenarioGiven, ScenarioStarted,
             self.start),
            ("showScenario", "GET", one, "What was told of a scenario, and its verdict.", ShowGiven,
             ScenarioShown, self.show),
            ("stopScenario", "DELETE", one, "Stop a scenario, and heal.", StopGiven, None,
             self.stop),
        )  # fmt: skip
        return tuple(Operation(*row) for row in rows)
