"""A scenario: a cluster, a load, what is done to it and when, and what must be so in the end.

Rule: it is a value, read from a TOML file and written as one, so that what a seed has found is a
file that anybody can replay. Steps come one after the other: each waits for its moment, is done,
and the next begins to wait.
"""

import tomllib
from pathlib import Path
from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta, Struct, field

from actors.config import GENERATIONS, BadConfig, BrokerConfig, options_of
from actors.faults.every import VIOLATIONS
from actors.faults.hand import FaultRefused
from actors.faults.vocabulary import (
    AnyFault,
    Count,
    Milliseconds,
    Name,
    Number,
    Who,
    fault_of,
)
from wire.message import CODES
from wire.trace import COLUMNS, EVENTS, MessageHandled

MOST_BYTES: Final = 1 << 20
MOST_BROKERS: Final = 25
TYPES: Final = {str: "a text in quotes", int: "a number", bool: "true or false"}
WORLDS: Final = ("simulated", "real")
# Of every message that is handled only a row is kept: nobody hears of it at that moment.
KINDS_OF_EVENTS: Final = {each.__name__: each for each in EVENTS if each is not MessageHandled}
Broker = Annotated[int, Meta(ge=1, le=MOST_BROKERS)]
Replicas = Annotated[tuple[Broker, ...], Meta(min_length=1, max_length=MOST_BROKERS)]


class BadScenario(ValueError):
    """A scenario that cannot be played; the sentence says why."""


class Table(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A part of a scenario."""


class Topic(Table, frozen=True, kw_only=True):
    """A topic that is there from the beginning."""

    name: Name = "orders"
    replicas: Annotated[tuple[Replicas, ...], Meta(min_length=1, max_length=1_000)]
    config: dict[str, str] = {}


class Load(Table, frozen=True, kw_only=True):
    """Records that clients send and read while all this happens."""

    records: Annotated[int, Meta(ge=0, le=1_000_000)] = 100
    over_ms: Milliseconds = 5_000
    acks: Annotated[int, Meta(ge=-1, le=1)] = -1
    idempotence: bool = False  # enable.idempotence: a record that is there twice is a violation
    groups: bool = False  # whether a group commits and reads its offsets
    # Who share all topics in a group of theirs, and commit what they read.
    members: Annotated[int, Meta(ge=0, le=100)] = 0


class Event(Table, frozen=True, kw_only=True):
    """An event of the trace, by its kind and by some of its columns."""

    event: Name
    where: dict[str, str | int | bool] = {}
    nth: Count = 1


class Sent(Table, frozen=True, kw_only=True):
    """A message between two nodes, addressed as a fault on links would be."""

    message: Name
    source: Who | None = None
    to: Who | None = None
    controller_epoch: int | None = None
    leader_epoch: int | None = None
    topic: Name | None = None
    partition: Number | None = None
    nth: Count = 1


class State(Table, frozen=True, kw_only=True):
    """What can be seen of a partition."""

    partition: Annotated[str, Meta(pattern=r"^.{1,249}-\d{1,10}$")]
    is_there: bool = True
    leader: int | None = None  # -1: none
    not_leader: int | None = None
    isr: tuple[Broker, ...] | None = None


class Action(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="action"):
    """Something that an administrator or a client does."""


class CreateTopic(Action, frozen=True, kw_only=True, tag="create-topic"):
    """Make a topic."""

    topic: Name
    replicas: tuple[Replicas, ...]
    config: dict[str, str] = {}


class DeleteTopic(Action, frozen=True, kw_only=True, tag="delete-topic"):
    """Delete a topic."""

    topic: Name


class AddPartitions(Action, frozen=True, kw_only=True, tag="add-partitions"):
    """Let a topic have so many partitions."""

    topic: Name
    count: Annotated[int, Meta(ge=1, le=1_000)]


class Reassign(Action, frozen=True, kw_only=True, tag="reassign"):
    """Move a partition; without replicas, cancel its move."""

    topic: Name
    partition: Annotated[int, Meta(ge=0)] = 0
    replicas: Replicas | None = None


class ElectLeaders(Action, frozen=True, kw_only=True, tag="elect-leaders"):
    """Let preferred replicas lead, or whoever lives."""

    topic: Name
    partition: Annotated[int, Meta(ge=0)] = 0
    unclean: bool = False


class Produce(Action, frozen=True, kw_only=True, tag="produce"):
    """Send some records and wait for them, beside the load."""

    topic: Name = "orders"
    partition: Annotated[int, Meta(ge=0)] = 0
    records: Annotated[int, Meta(ge=1, le=10_000)] = 1
    acks: Annotated[int, Meta(ge=-1, le=1)] = -1
    via: Broker | None = None  # who is asked which broker leads, and so may send it astray
    timeout_ms: Annotated[int, Meta(ge=1, le=3_600_000)] | None = None  # of one try, the only one
    may_fail: bool = True


class WriteZNode(Action, frozen=True, kw_only=True, tag="write-znode"):
    """Write a znode, as a person at a ZooKeeper shell would, or remove it if there are no data."""

    path: Annotated[str, Meta(pattern="^/", max_length=1_000)]
    data: str | None = None


class Mend(Action, frozen=True, kw_only=True, tag="mend"):
    """Undo what a step before, by its name, has broken."""

    step: Name


AnyAction = (
    CreateTopic
    | DeleteTopic
    | AddPartitions
    | Reassign
    | ElectLeaders
    | Produce
    | WriteZNode
    | Mend
)


class Step(Table, frozen=True, kw_only=True):
    """Something that is done, and when."""

    name: Name = ""  # by which a later step can mend it
    do: Any = None  # an AnyFault or AnyAction; None: only wait
    at_ms: Milliseconds | None = None  # since the load began
    after_ms: Milliseconds | None = None  # since the step before
    on: Event | None = None
    on_message: Sent | None = None
    after_messages: Count | None = None  # since the step before
    when: State | None = None
    is_awaited: bool = True  # whether the next step waits for its end


class Expect(Table, frozen=True, kw_only=True):
    """What must be so, beside every invariant."""

    events: tuple[Event, ...] = ()  # at least so many (nth) of each
    never: tuple[Event, ...] = ()
    states: tuple[State, ...] = ()  # in the end, when all is healed and whole
    acknowledged: Annotated[int, Meta(ge=0)] = 0  # at least so many records
    is_violated: str = ""  # the invariant that must be violated, to show a bug of the past
    violated_in: dict[str, str] = {}  # the same, if that is the replication.generation


class Scenario(Table, frozen=True, kw_only=True):
    """All of it."""

    name: Name
    about: Annotated[str, Meta(max_length=2_000)] = ""
    brokers: Annotated[int, Meta(ge=1, le=MOST_BROKERS)] = 3
    controller: Broker | None = None  # who starts first, and so is elected
    seed: Annotated[int, Meta(ge=0, le=2**62)] = 1
    session_timeout_ms: Annotated[int, Meta(ge=100, le=3_600_000)] = 2_000
    worlds: tuple[str, ...] = WORLDS
    overrides: dict[str, Any] = {}
    topics: tuple[Topic, ...] = field(default_factory=lambda: (Topic(replicas=((1, 2, 3),)),))
    load: Load = field(default_factory=Load)
    steps: Annotated[tuple[Step, ...], Meta(max_length=10_000)] = ()
    expect: Expect = field(default_factory=Expect)

    @property
    def generation(self) -> str:
        """How followers truncate."""
        return str(self.overrides.get("replication.generation", GENERATIONS[-1]))

    @property
    def violated(self) -> str:
        """The invariant that must be violated; empty: none may be."""
        return self.expect.violated_in.get(self.generation, self.expect.is_violated)


# --- files ----------------------------------------------------------------------------------------


def read_scenario(path: Path) -> Scenario:
    """A scenario from a file, or BadScenario."""
    try:
        if not path.is_file() and path.exists():  # a pipe would be waited for, perhaps for ever
            raise BadScenario(f"{path} is no file")
        if path.stat().st_size > MOST_BYTES:
            raise BadScenario(f"{path} is larger than {MOST_BYTES} bytes")
        table = tomllib.loads(path.read_text())
        if not table:
            raise BadScenario("it is empty")
        return scenario_of(table, default_name=path.stem)
    except OSError as error:
        raise BadScenario(f"{path} cannot be read: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise BadScenario(f"{path} is no TOML: {error}") from None
    except RecursionError:
        raise BadScenario(f"{path} is nested too deeply") from None
    except BadScenario as error:
        raise BadScenario(f"{path}: {error}") from None


def scenario_of(table: dict[str, Any], *, default_name: str = "") -> Scenario:
    """A scenario from tables, or BadScenario."""
    table = {"name": default_name} | table
    if isinstance(table.get("steps"), list):
        table["steps"] = [_step(number, each) for number, each in enumerate(table["steps"], 1)]
    try:
        scenario: Scenario = msgspec.convert(table, Scenario)
        options_of(BrokerConfig, scenario.overrides)
    except (msgspec.ValidationError, BadConfig) as error:
        raise BadScenario(str(error)) from None
    _check(scenario)
    return scenario


def _step(number: int, step: Any) -> Any:
    """Faults and actions are told apart by their tags, which msgspec wants in one field."""
    do = step.get("do") if isinstance(step, dict) else None
    if do is None:
        return step
    try:
        return step | {"do": _done(do)}
    except (FaultRefused, msgspec.ValidationError) as error:
        raise BadScenario(f"step {number}: {error}") from None


def _done(do: Any) -> AnyFault | AnyAction:
    if not isinstance(do, dict) or "fault" not in do:
        done: AnyAction = msgspec.convert(do, AnyAction)
        return done
    return fault_of(do)


def _check(scenario: Scenario) -> None:
    _check_topics(scenario)
    _check_names(scenario)
    if scenario.controller is not None and scenario.controller > scenario.brokers:
        raise BadScenario(f"controller is {scenario.controller} of {scenario.brokers} brokers")
    for number, step in enumerate(scenario.steps, 1):
        if step.on_message is not None and step.on_message.message not in CODES:
            raise BadScenario(f"step {number}: there is no message {step.on_message.message!r}")
    waited = [step.on for step in scenario.steps if step.on is not None]
    for event in (*waited, *scenario.expect.events, *scenario.expect.never):
        kind = KINDS_OF_EVENTS.get(event.event)
        if kind is None:
            raise BadScenario(f"there is no event {event.event!r}")
        unknown = set(event.where) - set(kind.__struct_fields__) - {"node"}
        if unknown:
            known = ", ".join(("node", *kind.__struct_fields__))
            raise BadScenario(f"{event.event} has no {', '.join(sorted(unknown))}; it has {known}")
        _check_values(event)


def _check_values(event: Event) -> None:
    """A value of another type would never match, and what must never happen could not fail."""
    columns = COLUMNS[event.event]
    for name, value in event.where.items():
        if type(value) is not columns[name]:
            raise BadScenario(
                f"{event.event}'s {name} is {value!r:.60}, and must be {TYPES[columns[name]]}"
            )


def _check_topics(scenario: Scenario) -> None:
    topics = [topic.name for topic in scenario.topics]
    if len(set(topics)) < len(topics):
        raise BadScenario(f"topics are {', '.join(topics)}: one twice")
    for topic in scenario.topics:
        for replicas in topic.replicas:
            if not set(replicas) <= set(range(1, scenario.brokers + 1)):
                raise BadScenario(
                    f"topic {topic.name} has replicas {list(replicas)}, and there are brokers "
                    f"1 to {scenario.brokers}"
                )
            if len(set(replicas)) < len(replicas):
                raise BadScenario(f"topic {topic.name} has replicas {list(replicas)}: one twice")


def _check_names(scenario: Scenario) -> None:
    named: set[str] = set()
    for number, step in enumerate(scenario.steps, 1):
        if isinstance(step.do, Mend) and step.do.step not in named:
            raise BadScenario(f"step {number} mends {step.do.step!r}, and no step before is that")
        if step.name in named:
            raise BadScenario(f"step {number} is {step.name!r}, and so is one before")
        named |= {step.name} - {""}
    expected = {scenario.expect.is_violated, *scenario.expect.violated_in.values()} - {""}
    for name in sorted(expected - set(VIOLATIONS)):
        raise BadScenario(f"{name!r:.60} cannot be violated; there are {', '.join(VIOLATIONS)}")
    unknown = scenario.expect.violated_in.keys() - set(GENERATIONS)
    if unknown:
        known = ", ".join(GENERATIONS)
        raise BadScenario(f"there is no generation {min(unknown)!r}; there are {known}")
    strange = set(scenario.worlds) - set(WORLDS)
    if strange or not scenario.worlds:
        raise BadScenario(f"worlds are {list(scenario.worlds)}; there are {', '.join(WORLDS)}")
