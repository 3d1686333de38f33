"""What happens at a broker: its life, its replicas, their logs.

Rule: a broker speaks of itself; the node in the stamp is the one that it happened to.
"""

from wire.trace_event import TraceEvent


class BrokerRegistered(TraceEvent, frozen=True):
    """A broker's znode is there, and its creation zxid is the broker's epoch."""

    broker: int
    broker_epoch: int
    session: int


class BrokerStateChanged(TraceEvent, frozen=True):
    """A broker is starting, running, running as controller, or not running."""

    state: str


class ControlRequestRefused(TraceEvent, frozen=True):
    """A broker did not do what a controller asked for, as a whole."""

    request: str
    controller: int
    controller_epoch: int
    error: str


class ErrorAnswered(TraceEvent, frozen=True):
    """A broker answered a request with an error code: for all of it, or so many of its parts."""

    source: str  # who had asked
    request: str
    error: str
    count: int


class ReplicaRoleChanged(TraceEvent, frozen=True):
    """A broker leads a partition, follows in it, or no longer holds it."""

    topic: str
    partition: int
    role: str
    leader: int
    leader_epoch: int


class IsrChanged(TraceEvent, frozen=True):
    """A leader changed the in-sync replicas in ZooKeeper."""

    topic: str
    partition: int
    leader_epoch: int
    isr: str
    partition_epoch: int


class RecordsAppended(TraceEvent, frozen=True):
    """A replica's log has grown."""

    topic: str
    partition: int
    role: str
    leader_epoch: int
    first_offset: int
    last_offset: int


class HighWatermarkMoved(TraceEvent, frozen=True):
    """A replica knows of more, or a follower of less, that is on all in-sync replicas."""

    topic: str
    partition: int
    role: str
    leader_epoch: int
    high_watermark: int


class LogTruncated(TraceEvent, frozen=True):
    """A follower has thrown away records that its leader does not have."""

    topic: str
    partition: int
    leader_epoch: int
    log_end_offset: int  # before
    offset: int  # the first that is gone


class FollowerFailed(TraceEvent, frozen=True):
    """A partition is no longer fetched until the controller speaks again, or for a while (B156)."""

    topic: str
    partition: int
    leader_epoch: int
    reason: str


class LogSkipped(TraceEvent, frozen=True):
    """A start met something in its folder that it could not open, or that is no log of its own."""

    name: str
    reason: str


class LogDirWentOffline(TraceEvent, frozen=True):
    """A disk refused to work; the replicas on it are given up (B074)."""

    partitions: int
    reason: str


class GroupOffsetsLoaded(TraceEvent, frozen=True):
    """A broker has read a partition of __consumer_offsets, and coordinates its groups (B176)."""

    partition: int
    leader_epoch: int
    records: int
    took_us: int


class TransactionStateChanged(TraceEvent, frozen=True):
    """A transactional id is in another state, or its producer in another epoch."""

    transactional_id: str
    before: str
    after: str
    producer_id: int
    producer_epoch: int


class TransactionsLoaded(TraceEvent, frozen=True):
    """A broker has read a partition of __transaction_state, and coordinates its transactions."""

    partition: int
    leader_epoch: int
    transactional_ids: int


class TransactionsUnloaded(TraceEvent, frozen=True):
    """A broker no longer coordinates the transactions of a partition of __transaction_state."""

    partition: int
    leader_epoch: int
    reason: str


class ProducerIdsTaken(TraceEvent, frozen=True):
    """A broker has taken a block of producer ids, the last one included."""

    first: int
    last: int


class GroupOffsetsUnloaded(TraceEvent, frozen=True):
    """A broker no longer coordinates the groups of a partition of __consumer_offsets."""

    partition: int
    leader_epoch: int
    reason: str


class GroupOffsetsForgotten(TraceEvent, frozen=True):
    """Committed offsets have got their tombstones (B178)."""

    partition: int
    leader_epoch: int
    offsets: int
    reason: str


class ControlledShutdownTried(TraceEvent, frozen=True):
    """A broker asked the controller to let it go."""

    broker: int
    outcome: str
    tries_left: int


class ConfigChanged(TraceEvent, frozen=True):
    """A broker took note of a changed configuration."""

    entity: str


class TopicNotCreated(TraceEvent, frozen=True):
    """A topic that was to be created because somebody needs it was not."""

    topic: str
    error: str
    reason: str
