"""What can go wrong between two who talk, as Kafka numbers it.

Rule: an ApiError is expected and is answered with its code; the one who raises it is well.
Malformed bytes are a ValueError with a sentence: MalformedMessage for a frame, MalformedZNode for
a znode.

    ApiError                               UNKNOWN_SERVER_ERROR; codes not drawn are its children
    ├── Fenced                             an epoch or version in the request is not the current one
    │   ├── StaleControllerEpoch
    │   │   ├── ControllerMoved            found out at home, in ZooKeeper: resign
    │   │   └── OvertakenRequest           a late copy of what was sent twice
    │   ├── StaleBrokerEpoch
    │   ├── FencedLeaderEpoch
    │   ├── UnknownLeaderEpoch
    │   └── InvalidUpdateVersion
    ├── WrongBroker                        somebody else can answer
    │   ├── NotController
    │   ├── NotCoordinator
    │   └── NotLeaderOrFollower
    ├── NotNow                             nobody can answer yet
    │   ├── BrokerNotAvailable
    │   ├── CoordinatorLoadInProgress
    │   ├── CoordinatorNotAvailable
    │   ├── EligibleLeadersNotAvailable
    │   ├── LeaderNotAvailable
    │   ├── ListenerNotFound
    │   ├── NotEnoughReplicas
    │   ├── NotEnoughReplicasAfterAppend
    │   ├── OffsetNotAvailable
    │   ├── PreferredLeaderNotAvailable
    │   ├── ReassignmentInProgress
    │   ├── ReplicaNotAvailable
    │   └── RequestTimedOut
    ├── NotFound                           the thing named does not exist
    │   ├── NoReassignmentInProgress
    │   ├── OffsetOutOfRange
    │   ├── UnknownTopicId
    │   └── UnknownTopicOrPartition
    ├── Refused                            the request asks for what must not be
    │   ├── ElectionNotNeeded
    │   ├── InconsistentTopicId
    │   ├── IneligibleReplica
    │   ├── InvalidCommitOffsetSize
    │   ├── InvalidConfig
    │   ├── InvalidPartitions
    │   ├── InvalidReplicaAssignment
    │   ├── InvalidReplicationFactor
    │   ├── InvalidRequest
    │   ├── InvalidRequiredAcks
    │   ├── InvalidTopic
    │   ├── MessageTooLarge
    │   ├── OffsetMetadataTooLarge
    │   ├── TopicAlreadyExists
    │   ├── TopicDeletionDisabled
    │   └── UnsupportedVersion
    └── BadData                            bytes of a log are not what they should be
        ├── CorruptRecordBatch
        ├── InvalidRecord
        ├── KafkaStorageError
        └── UnsupportedCompressionType
"""

from collections.abc import Iterator, Mapping
from enum import IntEnum
from typing import ClassVar, Final


class ErrorCode(IntEnum):
    """Kafka's error codes, by Kafka's names. The numbers are the protocol; they never change."""

    UNKNOWN_SERVER_ERROR = -1
    NONE = 0
    OFFSET_OUT_OF_RANGE = 1
    CORRUPT_MESSAGE = 2
    UNKNOWN_TOPIC_OR_PARTITION = 3
    INVALID_FETCH_SIZE = 4
    LEADER_NOT_AVAILABLE = 5
    NOT_LEADER_OR_FOLLOWER = 6
    REQUEST_TIMED_OUT = 7
    BROKER_NOT_AVAILABLE = 8
    REPLICA_NOT_AVAILABLE = 9
    MESSAGE_TOO_LARGE = 10
    STALE_CONTROLLER_EPOCH = 11
    OFFSET_METADATA_TOO_LARGE = 12
    NETWORK_EXCEPTION = 13
    COORDINATOR_LOAD_IN_PROGRESS = 14
    COORDINATOR_NOT_AVAILABLE = 15
    NOT_COORDINATOR = 16
    INVALID_TOPIC_EXCEPTION = 17
    RECORD_LIST_TOO_LARGE = 18
    NOT_ENOUGH_REPLICAS = 19
    NOT_ENOUGH_REPLICAS_AFTER_APPEND = 20
    INVALID_REQUIRED_ACKS = 21
    ILLEGAL_GENERATION = 22
    INCONSISTENT_GROUP_PROTOCOL = 23
    INVALID_GROUP_ID = 24
    UNKNOWN_MEMBER_ID = 25
    INVALID_SESSION_TIMEOUT = 26
    REBALANCE_IN_PROGRESS = 27
    INVALID_COMMIT_OFFSET_SIZE = 28
    TOPIC_AUTHORIZATION_FAILED = 29
    GROUP_AUTHORIZATION_FAILED = 30
    CLUSTER_AUTHORIZATION_FAILED = 31
    INVALID_TIMESTAMP = 32
    UNSUPPORTED_SASL_MECHANISM = 33
    ILLEGAL_SASL_STATE = 34
    UNSUPPORTED_VERSION = 35
    TOPIC_ALREADY_EXISTS = 36
    INVALID_PARTITIONS = 37
    INVALID_REPLICATION_FACTOR = 38
    INVALID_REPLICA_ASSIGNMENT = 39
    INVALID_CONFIG = 40
    NOT_CONTROLLER = 41
    INVALID_REQUEST = 42
    UNSUPPORTED_FOR_MESSAGE_FORMAT = 43
    POLICY_VIOLATION = 44
    OUT_OF_ORDER_SEQUENCE_NUMBER = 45
    DUPLICATE_SEQUENCE_NUMBER = 46
    INVALID_PRODUCER_EPOCH = 47
    INVALID_TXN_STATE = 48
    INVALID_PRODUCER_ID_MAPPING = 49
    INVALID_TRANSACTION_TIMEOUT = 50
    CONCURRENT_TRANSACTIONS = 51
    TRANSACTION_COORDINATOR_FENCED = 52
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED = 53
    SECURITY_DISABLED = 54
    OPERATION_NOT_ATTEMPTED = 55
    KAFKA_STORAGE_ERROR = 56
    LOG_DIR_NOT_FOUND = 57
    SASL_AUTHENTICATION_FAILED = 58
    UNKNOWN_PRODUCER_ID = 59
    REASSIGNMENT_IN_PROGRESS = 60
    DELEGATION_TOKEN_AUTH_DISABLED = 61
    DELEGATION_TOKEN_NOT_FOUND = 62
    DELEGATION_TOKEN_OWNER_MISMATCH = 63
    DELEGATION_TOKEN_REQUEST_NOT_ALLOWED = 64
    DELEGATION_TOKEN_AUTHORIZATION_FAILED = 65
    DELEGATION_TOKEN_EXPIRED = 66
    INVALID_PRINCIPAL_TYPE = 67
    NON_EMPTY_GROUP = 68
    GROUP_ID_NOT_FOUND = 69
    FETCH_SESSION_ID_NOT_FOUND = 70
    INVALID_FETCH_SESSION_EPOCH = 71
    LISTENER_NOT_FOUND = 72
    TOPIC_DELETION_DISABLED = 73
    FENCED_LEADER_EPOCH = 74
    UNKNOWN_LEADER_EPOCH = 75
    UNSUPPORTED_COMPRESSION_TYPE = 76
    STALE_BROKER_EPOCH = 77
    OFFSET_NOT_AVAILABLE = 78
    MEMBER_ID_REQUIRED = 79
    PREFERRED_LEADER_NOT_AVAILABLE = 80
    GROUP_MAX_SIZE_REACHED = 81
    FENCED_INSTANCE_ID = 82
    ELIGIBLE_LEADERS_NOT_AVAILABLE = 83
    ELECTION_NOT_NEEDED = 84
    NO_REASSIGNMENT_IN_PROGRESS = 85
    GROUP_SUBSCRIBED_TO_TOPIC = 86
    INVALID_RECORD = 87
    UNSTABLE_OFFSET_COMMIT = 88
    THROTTLING_QUOTA_EXCEEDED = 89
    PRODUCER_FENCED = 90
    RESOURCE_NOT_FOUND = 91
    DUPLICATE_RESOURCE = 92
    UNACCEPTABLE_CREDENTIAL = 93
    INCONSISTENT_VOTER_SET = 94
    INVALID_UPDATE_VERSION = 95
    FEATURE_UPDATE_FAILED = 96
    PRINCIPAL_DESERIALIZATION_FAILURE = 97
    SNAPSHOT_NOT_FOUND = 98
    POSITION_OUT_OF_RANGE = 99
    UNKNOWN_TOPIC_ID = 100
    DUPLICATE_BROKER_REGISTRATION = 101
    BROKER_ID_NOT_REGISTERED = 102
    INCONSISTENT_TOPIC_ID = 103
    INCONSISTENT_CLUSTER_ID = 104
    TRANSACTIONAL_ID_NOT_FOUND = 105
    FETCH_SESSION_TOPIC_ID_ERROR = 106
    INELIGIBLE_REPLICA = 107
    NEW_LEADER_ELECTED = 108
    OFFSET_MOVED_TO_TIERED_STORAGE = 109
    FENCED_MEMBER_EPOCH = 110
    UNRELEASED_INSTANCE_ID = 111
    UNSUPPORTED_ASSIGNOR = 112
    STALE_MEMBER_EPOCH = 113
    MISMATCHED_ENDPOINT_TYPE = 114
    UNSUPPORTED_ENDPOINT_TYPE = 115
    UNKNOWN_CONTROLLER_ID = 116
    UNKNOWN_SUBSCRIPTION_ID = 117
    TELEMETRY_TOO_LARGE = 118
    INVALID_REGISTRATION = 119
    TRANSACTION_ABORTABLE = 120
    INVALID_RECORD_STATE = 121
    SHARE_SESSION_NOT_FOUND = 122
    INVALID_SHARE_SESSION_EPOCH = 123
    FENCED_STATE_EPOCH = 124
    INVALID_VOTER_KEY = 125
    DUPLICATE_VOTER = 126
    VOTER_NOT_FOUND = 127
    INVALID_REGULAR_EXPRESSION = 128
    REBOOTSTRAP_REQUIRED = 129
    STREAMS_INVALID_TOPOLOGY = 130
    STREAMS_INVALID_TOPOLOGY_EPOCH = 131
    STREAMS_TOPOLOGY_FENCED = 132
    SHARE_SESSION_LIMIT_REACHED = 133

    @property
    def is_retriable(self) -> bool:
        """Whether the same request may succeed later without being changed."""
        return self in RETRIABLE


RETRIABLE: Final = frozenset(
    {
        ErrorCode.CORRUPT_MESSAGE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.REPLICA_NOT_AVAILABLE,
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode.NOT_CONTROLLER,
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
        ErrorCode.INVALID_FETCH_SESSION_EPOCH,
        ErrorCode.LISTENER_NOT_FOUND,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.OFFSET_NOT_AVAILABLE,
        ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE,
        ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE,
        ErrorCode.ELECTION_NOT_NEEDED,
        ErrorCode.UNSTABLE_OFFSET_COMMIT,
        ErrorCode.THROTTLING_QUOTA_EXCEEDED,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.INCONSISTENT_TOPIC_ID,
        ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
        ErrorCode.SHARE_SESSION_NOT_FOUND,
        ErrorCode.INVALID_SHARE_SESSION_EPOCH,
        ErrorCode.SHARE_SESSION_LIMIT_REACHED,
    }
)


class MalformedMessage(ValueError):
    """Bytes that are no message. The sentence says why; whoever sent them is not to be believed."""


class MalformedZNode(ValueError):
    """What ZooKeeper holds at a path is not what belongs there."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"{path} is malformed: {reason}")
        self.path = path
        self.reason = reason


class ApiError(Exception):
    """Expected, and answered with its code."""

    code: ClassVar[ErrorCode] = ErrorCode.UNKNOWN_SERVER_ERROR


class Fenced(ApiError):
    """An epoch or version in the request is not the current one."""


class StaleControllerEpoch(Fenced):
    """A deposed controller is still talking. Answer it; nothing here is wrong."""

    code = ErrorCode.STALE_CONTROLLER_EPOCH


class ControllerMoved(StaleControllerEpoch):
    """This broker was the controller and is no longer: it must resign and change nothing more."""


class OvertakenRequest(StaleControllerEpoch):
    """The controller has said more since: this is a late copy of what it sent twice."""


class StaleBrokerEpoch(Fenced):
    """The request was meant for, or comes from, an earlier life of this broker."""

    code = ErrorCode.STALE_BROKER_EPOCH


class FencedLeaderEpoch(Fenced):
    """The sender knows an older leader epoch than this broker."""

    code = ErrorCode.FENCED_LEADER_EPOCH


class UnknownLeaderEpoch(Fenced):
    """The sender knows a newer leader epoch than this broker."""

    code = ErrorCode.UNKNOWN_LEADER_EPOCH


class InvalidUpdateVersion(Fenced):
    """The partition's state was changed since the sender read it."""

    code = ErrorCode.INVALID_UPDATE_VERSION


class WrongBroker(ApiError):
    """Somebody else can answer: refresh the metadata and ask there."""


class NotController(WrongBroker):
    """This broker is not the active controller."""

    code = ErrorCode.NOT_CONTROLLER


class NotCoordinator(WrongBroker):
    """This broker does not lead the group's partition of __consumer_offsets."""

    code = ErrorCode.NOT_COORDINATOR


class NotLeaderOrFollower(WrongBroker):
    """This broker does not lead the partition, or holds no replica of it."""

    code = ErrorCode.NOT_LEADER_OR_FOLLOWER


class NotNow(ApiError):
    """Nobody can answer yet."""


class BrokerNotAvailable(NotNow):
    """No such broker is alive."""

    code = ErrorCode.BROKER_NOT_AVAILABLE


class CoordinatorLoadInProgress(NotNow):
    """The coordinator is still reading its log."""

    code = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


class CoordinatorNotAvailable(NotNow):
    """The group has no coordinator at the moment."""

    code = ErrorCode.COORDINATOR_NOT_AVAILABLE


class EligibleLeadersNotAvailable(NotNow):
    """No live replica may be elected leader."""

    code = ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE


class LeaderNotAvailable(NotNow):
    """The partition has no live leader."""

    code = ErrorCode.LEADER_NOT_AVAILABLE


class ListenerNotFound(NotNow):
    """The leader has no listener of the name the request came in by."""

    code = ErrorCode.LISTENER_NOT_FOUND


class NotEnoughReplicas(NotNow):
    """Fewer replicas are in sync than min.insync.replicas: nothing was appended."""

    code = ErrorCode.NOT_ENOUGH_REPLICAS


class NotEnoughReplicasAfterAppend(NotNow):
    """The records were appended, and then the ISR shrank below the minimum."""

    code = ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND


class OffsetNotAvailable(NotNow):
    """A new leader's high watermark has not caught up yet."""

    code = ErrorCode.OFFSET_NOT_AVAILABLE


class PreferredLeaderNotAvailable(NotNow):
    """The first assigned replica is not alive and in sync."""

    code = ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE


class ReassignmentInProgress(NotNow):
    """The partition's replicas are on the move."""

    code = ErrorCode.REASSIGNMENT_IN_PROGRESS


class ReplicaNotAvailable(NotNow):
    """An assigned replica is not alive."""

    code = ErrorCode.REPLICA_NOT_AVAILABLE


class RequestTimedOut(NotNow):
    """The time ran out; what was asked may still happen."""

    code = ErrorCode.REQUEST_TIMED_OUT


class NotFound(ApiError):
    """The thing named in the request does not exist."""


class NoReassignmentInProgress(NotFound):
    """There is no reassignment to cancel."""

    code = ErrorCode.NO_REASSIGNMENT_IN_PROGRESS


class OffsetOutOfRange(NotFound):
    """The offset lies before the log's start or after its end."""

    code = ErrorCode.OFFSET_OUT_OF_RANGE


class UnknownTopicId(NotFound):
    """No topic has this id."""

    code = ErrorCode.UNKNOWN_TOPIC_ID


class UnknownTopicOrPartition(NotFound):
    """This broker knows no such partition."""

    code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


class Refused(ApiError):
    """The request asks for what must not be; asking again will not help."""


class ElectionNotNeeded(Refused):
    """The partition is already led as asked."""

    code = ErrorCode.ELECTION_NOT_NEEDED


class InconsistentTopicId(Refused):
    """The log belongs to an earlier topic of the same name."""

    code = ErrorCode.INCONSISTENT_TOPIC_ID


class IneligibleReplica(Refused):
    """A proposed ISR member is not alive, or is shutting down."""

    code = ErrorCode.INELIGIBLE_REPLICA


class InvalidCommitOffsetSize(Refused):
    """The commit is larger than a record may be."""

    code = ErrorCode.INVALID_COMMIT_OFFSET_SIZE


class InvalidConfig(Refused):
    """A configuration key or value is not acceptable."""

    code = ErrorCode.INVALID_CONFIG


class InvalidPartitions(Refused):
    """The number of partitions is not acceptable."""

    code = ErrorCode.INVALID_PARTITIONS


class InvalidReplicaAssignment(Refused):
    """The replica list is empty, repeats a broker, or names one that is not alive."""

    code = ErrorCode.INVALID_REPLICA_ASSIGNMENT


class InvalidReplicationFactor(Refused):
    """The replication factor is below one or above the number of brokers."""

    code = ErrorCode.INVALID_REPLICATION_FACTOR


class InvalidRequest(Refused):
    """The request contradicts itself."""

    code = ErrorCode.INVALID_REQUEST


class InvalidRequiredAcks(Refused):
    """acks is none of 0, 1 and -1."""

    code = ErrorCode.INVALID_REQUIRED_ACKS


class InvalidTopic(Refused):
    """The topic's name is not allowed, or the topic is being deleted."""

    code = ErrorCode.INVALID_TOPIC_EXCEPTION


class MessageTooLarge(Refused):
    """A record batch is larger than max.message.bytes."""

    code = ErrorCode.MESSAGE_TOO_LARGE


class OffsetMetadataTooLarge(Refused):
    """The note sent with a committed offset is too long."""

    code = ErrorCode.OFFSET_METADATA_TOO_LARGE


class TopicAlreadyExists(Refused):
    """A topic of this name exists."""

    code = ErrorCode.TOPIC_ALREADY_EXISTS


class TopicDeletionDisabled(Refused):
    """delete.topic.enable is false."""

    code = ErrorCode.TOPIC_DELETION_DISABLED


class UnsupportedVersion(Refused):
    """This version of the request is not spoken here."""

    code = ErrorCode.UNSUPPORTED_VERSION


class BadData(ApiError):
    """The bytes of a log, or the disk under them, are not what they should be."""


class CorruptRecordBatch(BadData):
    """A record batch whose bytes contradict themselves or their CRC."""

    code = ErrorCode.CORRUPT_MESSAGE


class InvalidRecord(BadData):
    """A well-formed record that the topic does not accept."""

    code = ErrorCode.INVALID_RECORD


class KafkaStorageError(BadData):
    """The log directory of this replica has failed."""

    code = ErrorCode.KAFKA_STORAGE_ERROR


class UnsupportedCompressionType(BadData):
    """Records compressed by a codec that is not read here."""

    code = ErrorCode.UNSUPPORTED_COMPRESSION_TYPE


def _tree(root: type[ApiError]) -> Iterator[type[ApiError]]:
    yield root
    for child in root.__subclasses__():
        yield from _tree(child)


def _class_for_each_code() -> Mapping[ErrorCode, type[ApiError]]:
    classes: dict[ErrorCode, type[ApiError]] = {}
    for error in _tree(ApiError):
        classes.setdefault(error.code, error)  # a parent comes before children that share its code
    for code in ErrorCode:
        if code is not ErrorCode.NONE and code not in classes:
            name = "".join(word.capitalize() for word in code.name.split("_"))
            classes[code] = type(name, (ApiError,), {"code": code, "__module__": __name__})
    return classes


_CLASS_OF: Final = _class_for_each_code()


def exception_of(code: ErrorCode) -> type[ApiError]:
    """The class to raise when somebody answers with this code, which is not NONE."""
    return _CLASS_OF[code]
