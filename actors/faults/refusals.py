"""What may become of a deed on a cluster in which much is broken, and is no bug.

Rule: whoever does it tells of it and goes on; all else ends the play.
"""

from typing import Final

from runtime.keeper import KeeperError
from runtime.main import Sentence
from runtime.network import NetworkError
from runtime.ref import ActorGone, AskTimedOut
from wire.errors import (
    ApiError,
    InvalidConfig,
    InvalidPartitions,
    InvalidReplicaAssignment,
    InvalidReplicationFactor,
    InvalidTopic,
    MalformedMessage,
)

REFUSALS: Final = (ApiError, MalformedMessage, NetworkError, KeeperError, TimeoutError)
NOT_STARTED: Final = (
    KeeperError,
    ValueError,
    TimeoutError,
    ActorGone,
    AskTimedOut,
    Sentence,
)
WRONG_TOPICS: Final = (  # whatever is broken, they cannot be made
    InvalidConfig,
    InvalidPartitions,
    InvalidReplicaAssignment,
    InvalidReplicationFactor,
    InvalidTopic,
)
