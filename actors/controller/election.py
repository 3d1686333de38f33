"""Who leads: pure functions from what is known to who is elected.

Rule: the order of the assigned replicas decides, never that of the ISR (B067). An answer of None
is an election that failed; it changes nothing (B047).
"""

from collections.abc import Callable, Collection
from enum import Enum
from typing import NamedTuple

from wire.ids import BrokerId

IsOnline = Callable[[BrokerId], bool]
Brokers = tuple[BrokerId, ...]


class Strategy(Enum):
    """Why an election is held, as Kafka names the reasons."""

    OFFLINE = "OfflinePartitionLeaderElectionStrategy"
    OFFLINE_UNCLEAN = "OfflinePartitionLeaderElectionStrategy(allowUnclean)"
    REASSIGN = "ReassignPartitionLeaderElectionStrategy"
    PREFERRED = "PreferredReplicaPartitionLeaderElectionStrategy"
    CONTROLLED_SHUTDOWN = "ControlledShutdownPartitionLeaderElectionStrategy"


class Elected(NamedTuple):
    """A new leader and the in-sync replicas that it begins with."""

    leader: BrokerId
    isr: Brokers
    is_unclean: bool = False


def elect_first(replicas: Brokers, is_online: IsOnline) -> Elected | None:
    """The first leader of a new partition; all who live are in sync with nothing (B041)."""
    live = tuple(filter(is_online, replicas))
    return Elected(live[0], live) if live else None


def elect_offline(
    replicas: Brokers, isr: Brokers, is_online: IsOnline, *, allow_unclean: bool
) -> Elected | None:
    """The leader is gone: a live in-sync replica, or with permission any live one (B060, B061)."""
    live_isr = tuple(filter(is_online, isr))
    for replica in replicas:
        if replica in live_isr:
            return Elected(replica, live_isr)
    if allow_unclean:
        for replica in replicas:
            if is_online(replica):
                return Elected(replica, (replica,), is_unclean=True)
    return None


def elect_reassigned(target: Brokers, isr: Brokers, is_online: IsOnline) -> Elected | None:
    """At the end of a move: the first of the target replicas that is live and in sync (B064)."""
    for replica in target:
        if replica in isr and is_online(replica):
            return Elected(replica, isr)
    return None


def elect_preferred(replicas: Brokers, isr: Brokers, is_online: IsOnline) -> Elected | None:
    """The head of the assigned replicas or nobody (B065)."""
    return elect_reassigned(replicas[:1], isr, is_online)


def elect_for_shutdown(
    replicas: Brokers,
    isr: Brokers,
    is_online: IsOnline,
    shutting_down: Collection[BrokerId],
) -> Elected | None:
    """While a broker leaves: one that stays; who leaves is in sync no more (B066).

    Here a broker that is shutting down counts as online: it is excluded by its name.
    """
    staying = tuple(each for each in isr if each not in shutting_down)
    for replica in replicas:
        if replica in staying and is_online(replica):
            return Elected(replica, staying)
    return None
