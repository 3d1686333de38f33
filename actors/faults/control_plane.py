"""All that must hold of controllers, of what they write and of what they order.

Rule: one class an invariant of behaviours.md, by its number.
"""

from actors.faults.deletions import DataIsDeletedOnPurpose, TopicsVanishWhole
from actors.faults.elections import ElectionsAreClean, PreferredLeadersOnly
from actors.faults.epochs import (
    ControllersHaveWon,
    OneControllerAnEpoch,
    PastControllersChangeNothing,
)
from actors.faults.goodbyes import GoodbyesTellWhatRemains
from actors.faults.invariant import Invariant
from actors.faults.moves import MovesKeepWhatTheyNeed
from actors.faults.orders import BrokersTakeNewsOnly, OrdersKeepTheirOrder
from actors.faults.phases import ChangesAreLegal
from actors.faults.states import (
    ControllersBelieveZooKeeper,
    InSyncReplicasAreAssigned,
    LeaderEpochsGrow,
)


def control_plane() -> tuple[Invariant, ...]:
    """One of each."""
    return (
        OneControllerAnEpoch(),
        PastControllersChangeNothing(),
        ControllersHaveWon(),
        LeaderEpochsGrow(),
        InSyncReplicasAreAssigned(),
        ElectionsAreClean(),
        ChangesAreLegal(),
        ControllersBelieveZooKeeper(),
        BrokersTakeNewsOnly(),
        OrdersKeepTheirOrder(),
        DataIsDeletedOnPurpose(),
        MovesKeepWhatTheyNeed(),
        TopicsVanishWhole(),
        PreferredLeadersOnly(),
        GoodbyesTellWhatRemains(),
    )
