"""What a controller decides, and what stands in its way.

Rule: an event is left when the fact is in ZooKeeper or has been refused, never before.
"""

from wire.trace_event import TraceEvent


class ControllerElected(TraceEvent, frozen=True):
    """This broker holds `/controller` under a new epoch."""

    broker: int
    controller_epoch: int
    epoch_version: int  # of the znode: what every write of this controller checks


class ControllerResigned(TraceEvent, frozen=True):
    """This broker is no longer the controller, and has forgotten all that it knew as one."""

    broker: int
    controller_epoch: int
    reason: str


class FailoverStep(TraceEvent, frozen=True):
    """One step of taking office, in its order (B027)."""

    controller_epoch: int
    step: str
    count: int  # of things read, moved or told
    took_us: int


class ResignationStep(TraceEvent, frozen=True):
    """One step of leaving office, in its order (B012)."""

    controller_epoch: int
    step: str
    took_us: int


class ControllerEventFailed(TraceEvent, frozen=True):
    """An event could not be handled to its end; the controller goes on (B016)."""

    event: str
    error: str


class PartitionStateChanged(TraceEvent, frozen=True):
    """A partition went from one state to the next."""

    topic: str
    partition: int
    before: str
    after: str


class ReplicaStateChanged(TraceEvent, frozen=True):
    """A replica went from one state to the next."""

    topic: str
    partition: int
    broker: int
    before: str
    after: str


class TransitionRefused(TraceEvent, frozen=True):
    """A change that is no row of its table: nothing was changed."""

    topic: str
    partition: int
    broker: int  # -1: the partition itself
    before: str
    wanted: str


class LeaderElected(TraceEvent, frozen=True):
    """A partition has a leader, in ZooKeeper too; also when it is the same one again."""

    topic: str
    partition: int
    leader: int
    leader_epoch: int
    isr: str
    partition_epoch: int
    reason: str
    is_unclean: bool
    replicas: str = ""  # all that are assigned; empty in traces of schema version 1


class ElectionFailed(TraceEvent, frozen=True):
    """Nobody could be elected, or it could not be written."""

    topic: str
    partition: int
    strategy: str
    error: str


class ReplicaLeftIsr(TraceEvent, frozen=True):
    """The controller took a replica out of the in-sync ones, and raised the leader epoch."""

    topic: str
    partition: int
    broker: int
    leader: int
    leader_epoch: int
    isr: str


class BrokersChanged(TraceEvent, frozen=True):
    """What the controller saw under `/brokers/ids`; lists of ids."""

    added: str
    bounced: str
    removed: str


class TopicDeletionStep(TraceEvent, frozen=True):
    """A topic on its way out."""

    topic: str
    step: str


class ReassignmentStep(TraceEvent, frozen=True):
    """A partition on the move."""

    topic: str
    partition: int
    step: str
    replicas: str
    adding: str
    removing: str


class RequestDropped(TraceEvent, frozen=True):
    """A request to a broker that the controller does not know."""

    broker: int
    request: str
    reason: str


class ZNodeSkipped(TraceEvent, frozen=True):
    """ZooKeeper holds what nobody can read there; it was passed over."""

    path: str
    reason: str
