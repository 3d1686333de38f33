"""Topics that nobody asked an administrator for: they are created because somebody needs them.

Rule: as AutoTopicCreationManager, a topic of Kafka's own has the settings that its coordinator
needs, any other the broker's defaults. A client is told to come back before anything is written.
"""

from typing import Final

from actors.administration.names import check_topic_name
from actors.config import BrokerConfig
from wire.admin import NewTopic
from wire.errors import ErrorCode, InvalidTopic

OFFSETS_TOPIC: Final = "__consumer_offsets"
TRANSACTIONS_TOPIC: Final = "__transaction_state"
INTERNAL_TOPICS: Final = frozenset({OFFSETS_TOPIC, TRANSACTIONS_TOPIC})  # coordinators write them


def auto_topic(topic: str, config: BrokerConfig) -> NewTopic:
    """The topic as it shall be."""
    if topic == TRANSACTIONS_TOPIC:
        return NewTopic(
            topic=topic,
            num_partitions=config.transaction_state_log_num_partitions,
            replication_factor=config.transaction_state_log_replication_factor,
            configs=(
                ("cleanup.policy", "compact"),
                ("segment.bytes", str(config.transaction_state_log_segment_bytes)),
                ("compression.type", "uncompressed"),
                ("min.insync.replicas", str(config.transaction_state_log_min_isr)),
                ("unclean.leader.election.enable", "false"),
            ),
        )
    if topic != OFFSETS_TOPIC:
        return NewTopic(
            topic=topic,
            num_partitions=config.num_partitions,
            replication_factor=config.default_replication_factor,
        )
    return NewTopic(
        topic=topic,
        num_partitions=config.offsets_topic_num_partitions,
        replication_factor=config.offsets_topic_replication_factor,
        configs=(
            ("cleanup.policy", "compact"),
            ("segment.bytes", str(config.offsets_topic_segment_bytes)),
            ("compression.type", "producer"),
        ),
    )


def auto_creatable(topic: str, *, replicas: int = 0, live_brokers: int = 0) -> ErrorCode:
    """What Metadata answers for a topic that is not there and whose creation was asked for.

    With both counts also when there are too few brokers for it; it need not be asked for then.
    """
    try:
        check_topic_name(topic)
    except InvalidTopic as error:
        return error.code
    if replicas > live_brokers:
        return ErrorCode.INVALID_REPLICATION_FACTOR
    return ErrorCode.LEADER_NOT_AVAILABLE
