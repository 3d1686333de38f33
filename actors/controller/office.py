"""The means of a controller in office.

Rule: an Office lasts one reign. It is made at an election with that election's epoch and thrown
away at the resignation, so nothing of one reign reaches into the next (B012).
"""

from collections.abc import Iterable
from dataclasses import dataclass

from actors.config import BrokerConfig
from actors.controller.context import ControllerContext
from actors.controller.metrics import ElectionTimes
from actors.controller.outbox import Channels, Outbox
from actors.controller.partition_states import PartitionStates
from actors.controller.replica_states import ReplicaStates
from actors.controller.store import Store
from runtime.ref import Receiver
from runtime.world import World
from wire.ids import BrokerId, ControllerEpoch, TopicPartition


@dataclass(frozen=True)
class Office:
    """What all who act for the controller share."""

    world: World
    config: BrokerConfig
    me: BrokerId
    watcher: Receiver  # who is told when a watch fires
    context: ControllerContext
    store: Store
    channels: Channels
    outbox: Outbox
    partitions: PartitionStates
    replicas: ReplicaStates

    def send_metadata(
        self, partitions: Iterable[TopicPartition], brokers: Iterable[BrokerId] | None = None
    ) -> None:
        """A batch of nothing but UpdateMetadata; with no partitions, of who is alive."""
        self.outbox.begin()
        self.outbox.add_metadata(partitions, brokers)
        self.outbox.send()


def open_office(
    world: World,
    config: BrokerConfig,
    watcher: Receiver,
    channels: Channels,
    epoch: ControllerEpoch,
    epoch_version: int,
    times: ElectionTimes,
) -> Office:
    """Everything a new controller needs, knowing nothing yet."""
    me = BrokerId(config.broker_id)
    context = ControllerContext()
    context.epoch, context.epoch_version = epoch, epoch_version
    store = Store(world.keeper, world.trace, epoch_version)
    outbox = Outbox(context, channels, me)
    partitions = PartitionStates(
        context,
        store,
        outbox,
        world.trace,
        me=me,
        unclean_default=config.unclean_leader_election_enable,
        times=times,
    )
    replicas = ReplicaStates(context, store, outbox, world.trace)
    return Office(
        world, config, me, watcher, context, store, channels, outbox, partitions, replicas
    )
