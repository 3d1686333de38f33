"""What a test asks of its cluster: `@pytest.mark.cluster(brokers=5, config={…})`.

Rule: of several marks the closest to the test wins, argument by argument. What no cluster could
have is refused with a sentence that names it.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from msgspec import Struct

from actors.config import BrokerConfig, options_of
from actors.node_cluster import OWN

BROKERS: Final = 3


class BadMark(ValueError):
    """A mark that no cluster can follow."""


class Wish(Struct, frozen=True, kw_only=True):
    """A cluster that a test would like to have."""

    brokers: int = BROKERS
    config: Mapping[str, Any] = {}
    racks: Mapping[int, str] = {}
    session_timeout_ms: int | None = None  # None: as suits the world

    def timeout_ms(self, default: int) -> int:
        """How long a broker may be silent before ZooKeeper misses it."""
        return default if self.session_timeout_ms is None else self.session_timeout_ms


def wish_of(marks: Iterable[tuple[tuple[Any, ...], Mapping[str, Any]]]) -> Wish:
    """A test's wish, of the arguments of its marks; the closest mark comes first."""
    wanted: dict[str, Any] = {}
    for args, named in marks:
        if args:
            raise BadMark(f"its arguments have names, such as brokers={args[0]!r}")
        wanted = {**named, **wanted}
    unknown = sorted(wanted.keys() - set(Wish.__struct_fields__))
    if unknown:
        known = ", ".join(Wish.__struct_fields__)
        raise BadMark(f"there is no argument {unknown[0]}; there are {known}")
    wish = Wish(**wanted)
    _check_whole("brokers", wish.brokers)
    if wish.session_timeout_ms is not None:
        _check_whole("session_timeout_ms", wish.session_timeout_ms)
    for name in ("config", "racks"):
        if not isinstance(getattr(wish, name), Mapping):
            raise BadMark(f"{name} is {getattr(wish, name)!r}; it must be a dict")
    _check_racks(wish)
    BrokerConfig(broker_id=1, **options_of(BrokerConfig, wish.config, own=OWN))
    return wish


def _check_whole(name: str, value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise BadMark(f"{name} is {value!r}; it must be a whole number from 1 on")


def _check_racks(wish: Wish) -> None:
    for broker, rack in wish.racks.items():
        if broker not in range(1, wish.brokers + 1):
            raise BadMark(f"racks names broker {broker!r}; there are 1 to {wish.brokers}")
        if not isinstance(rack, str):
            raise BadMark(f"the rack of broker {broker} is {rack!r}; it must be text")
