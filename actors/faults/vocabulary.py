"""Every fault by its name: the same words in Python, in scenario files, over HTTP and in a shell.

Rule: a fault is a value that says what and to whom; how it is done is the hand's business. A broker
is named by its number, or by what it is when the fault comes: "controller", "leader of orders-0",
"follower of orders-0". Faults on links say which messages they want; what is not said matches all.
"""

import re
from collections.abc import Mapping
from difflib import get_close_matches
from typing import Annotated, Any, ClassVar, Final

import msgspec
from msgspec import Meta, Struct

from actors.faults.hand import FaultRefused
from wire.errors import ErrorCode

Name = Annotated[str, Meta(max_length=249)]
Who = int | Name
Milliseconds = Annotated[float, Meta(ge=0, le=3_600_000)]
Count = Annotated[int, Meta(ge=1, le=1_000_000_000)]
Number = Annotated[int, Meta(ge=0, le=2**62)]


def _kebab(name: str) -> str:
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "-", name).lower().replace("zoo-keeper", "zookeeper")


class Fault(
    Struct, frozen=True, kw_only=True, tag=_kebab, tag_field="fault", forbid_unknown_fields=True
):
    """Something that is broken, or mended, on purpose."""

    is_local: ClassVar[bool] = False  # done inside the process that has the broker

    @property
    def name(self) -> str:
        """As scenarios spell it."""
        return _kebab(type(self).__name__)

    @property
    def detail(self) -> str:
        """All that is said of it, in a line."""
        fields = msgspec.structs.asdict(self)
        fields.pop("broker", None)
        given = {key: value for key, value in fields.items() if value not in (None, False)}
        return " ".join(f"{key}={value}" for key, value in given.items())


class OfBroker(Fault, frozen=True, kw_only=True):
    """Something that happens to one broker."""

    broker: Who


class Kill(OfBroker, frozen=True, kw_only=True):
    """End a broker as a power cut would, or only its process."""

    process_only: bool = False  # what it wrote is the operating system's to keep, as always there


class Restart(OfBroker, frozen=True, kw_only=True):
    """Start a broker that is down; one that is up stops in its own time before."""


class Pause(OfBroker, frozen=True, kw_only=True):
    """Freeze a broker, perhaps only for a while."""

    for_ms: Milliseconds | None = None


class Resume(OfBroker, frozen=True, kw_only=True):
    """Let a frozen broker go on."""


class ShutDown(OfBroker, frozen=True, kw_only=True):
    """Stop a broker in its own time: leadership moves away, then it leaves."""


class ExpireSession(OfBroker, frozen=True, kw_only=True):
    """End a broker's ZooKeeper session although it is well."""


class ZombieController(Fault, frozen=True, kw_only=True):
    """Freeze the controller past the end of its session, then let it go on as if nothing was."""

    for_ms: Milliseconds | None = None  # half as long again as a session, unless said


class Cut(OfBroker, frozen=True, kw_only=True):
    """Lose all that passes between two brokers, or a broker and "zookeeper"."""

    other: Who
    one_way: bool = False  # only what the first sends


class OnLink(Fault, frozen=True, kw_only=True):
    """Something that happens to messages under way."""

    is_local: ClassVar[bool] = True

    source: Who | None = None
    to: Who | None = None
    message: Name | None = None  # its type: LeaderAndIsr, FetchResponse
    controller_epoch: int | None = None
    leader_epoch: int | None = None
    topic: Name | None = None
    partition: Number | None = None
    nth: Count | None = None  # only this one of those that match
    times: Count | None = None  # at most so many
    probability: Annotated[float, Meta(ge=0, le=1)] = 1.0


class Drop(OnLink, frozen=True, kw_only=True):
    """Lose messages."""


class Duplicate(OnLink, frozen=True, kw_only=True):
    """Let messages come twice."""


class Delay(OnLink, frozen=True, kw_only=True):
    """Let messages come later."""

    ms: Milliseconds


class Hold(OnLink, frozen=True, kw_only=True):
    """Keep messages until healed."""


class Reorder(OnLink, frozen=True, kw_only=True):
    """Let messages be overtaken by the next of their link."""


class OnRequest(Fault, frozen=True, kw_only=True):
    """Something that happens to requests of Kafka's clients."""

    is_local: ClassVar[bool] = True

    broker: Who | None = None  # that has the request
    api: Name | None = None  # Produce, Fetch, OffsetCommit
    client: Name | None = None  # client.id
    nth: Count | None = None  # only this one of those that match
    times: Count | None = None  # at most so many
    probability: Annotated[float, Meta(ge=0, le=1)] = 1.0


class RefuseRequest(OnRequest, frozen=True, kw_only=True):
    """Answer requests with an error, and do nothing of what they ask."""

    error: Name  # NOT_LEADER_OR_FOLLOWER

    def __post_init__(self) -> None:
        """Refuse an error that nobody knows."""
        if self.error not in ErrorCode.__members__ or self.error == ErrorCode.NONE.name:
            near = get_close_matches(self.error.upper(), ErrorCode.__members__, n=1)
            hint = f"; {near[0]} is the nearest" if near else ""
            raise ValueError(f"there is no error {self.error!r:.60}{hint}")


class DisconnectRequest(OnRequest, frozen=True, kw_only=True):
    """End the connection by which a request came, before or after it is handled."""

    handled: bool = False


class DelayRequest(OnRequest, frozen=True, kw_only=True):
    """Let requests wait before they are handled, and what follows on their connections, too."""

    ms: Milliseconds


class BlackholeRequest(OnRequest, frozen=True, kw_only=True):
    """Never answer requests, nor what follows on their connections; perhaps handle them."""

    handled: bool = False


class Local(OfBroker, frozen=True, kw_only=True):
    """Something that happens inside one broker's process."""

    is_local: ClassVar[bool] = True


class DelayWatch(Local, frozen=True, kw_only=True):
    """Let a broker's watch events come later."""

    path: Name = "/"
    ms: Milliseconds
    times: Count = 1


class LoseWatch(Local, frozen=True, kw_only=True):
    """Lose a broker's watch events."""

    path: Name = "/"
    times: Count = 1


class LoseReply(Local, frozen=True, kw_only=True):
    """Apply a broker's next write to ZooKeeper, and lose the answer."""


class StopZooKeeper(Fault, frozen=True, kw_only=True):
    """ZooKeeper is down; what it has written stays."""


class StartZooKeeper(Fault, frozen=True, kw_only=True):
    """ZooKeeper is back."""


class FillDisk(Local, frozen=True, kw_only=True):
    """Leave no room on a broker's disk."""


class SlowDisk(Local, frozen=True, kw_only=True):
    """Every sync takes so much longer."""

    ms: Milliseconds


class FailDisk(Local, frozen=True, kw_only=True):
    """Whatever touches a path that begins so has failed."""

    path: Name = ""


class LoseUnsynced(Local, frozen=True, kw_only=True):
    """Nothing that a broker has not synced outlives its next power cut."""


class FlipBit(Local, frozen=True, kw_only=True):
    """Let one bit of a partition's newest segment rot."""

    topic: Name
    partition: Number = 0
    position: int = -1  # from the start, or from the end if it is negative
    bit: Annotated[int, Meta(ge=0, le=7)] = 0


class SkewClock(Local, frozen=True, kw_only=True):
    """Put a broker's clock forward, or back."""

    ms: Annotated[int, Meta(ge=-(10**12), le=10**12)]


class Heal(Fault, frozen=True, kw_only=True):
    """Undo one fault by its number, or all."""

    number: Number | None = None


AnyFault = (
    Kill
    | Restart
    | Pause
    | Resume
    | ShutDown
    | ExpireSession
    | ZombieController
    | Cut
    | Drop
    | Duplicate
    | Delay
    | Hold
    | Reorder
    | RefuseRequest
    | DisconnectRequest
    | DelayRequest
    | BlackholeRequest
    | DelayWatch
    | LoseWatch
    | LoseReply
    | StopZooKeeper
    | StartZooKeeper
    | FillDisk
    | SlowDisk
    | FailDisk
    | LoseUnsynced
    | FlipBit
    | SkewClock
    | Heal
)
KINDS: Final[dict[str, type[Fault]]] = {_kebab(kind.__name__): kind for kind in AnyFault.__args__}


def fault_of(given: Mapping[str, Any]) -> AnyFault:
    """The fault that a table describes, or FaultRefused with what is wrong with it."""
    kind = given.get("fault")
    if kind not in KINDS:
        known = ", ".join(KINDS)
        raise FaultRefused(f"fault is {str(kind)!r:.60}; it must be one of {known}")
    try:
        fault: AnyFault = msgspec.convert(given, AnyFault)
        return fault
    except msgspec.ValidationError as error:
        raise FaultRefused(f"{kind}: {error}") from None


def as_table(fault: Fault) -> dict[str, Any]:
    """As a scenario would write it: what is as always is not said."""
    table: dict[str, Any] = {"fault": fault.name}
    defaults = {
        each.name: each.default for each in msgspec.structs.fields(fault) if not each.required
    }
    said = msgspec.structs.asdict(fault).items()
    return table | {key: value for key, value in said if defaults.get(key, ...) != value}
