"""Topics: list, describe, create, grow, delete.

Rule: what a filter asks is answered from what the cluster told, never by walking logs.
"""

from typing import Final

from msgspec import Struct

from actors.clients import Clients
from actors.operations.given import Assignments, Configs, Count, TopicName, Topics
from actors.operations.operation import BadInput, Operation
from wire.configs import ConfigResource, ConfigResourceType, ConfigSource
from wire.errors import ApiError, TopicAlreadyExists, UnknownTopicOrPartition
from wire.ids import NO_LEADER
from wire.metadata import MetadataTopic

MOST_TOPICS: Final = 10_000
MIN_ISR: Final = "min.insync.replicas"


class ListTopics(Struct, kw_only=True, forbid_unknown_fields=True):
    """Which topics."""

    exclude_internal: bool = False


class TopicNames(Struct):
    """Names, sorted."""

    topics: tuple[str, ...]


class DescribeTopics(Struct, kw_only=True, forbid_unknown_fields=True):
    """Which topics, and which of their partitions; without topics: all."""

    topics: Topics | None = None
    exclude_internal: bool = False
    under_replicated: bool = False
    unavailable: bool = False
    under_min_isr: bool = False
    at_min_isr: bool = False

    @property
    def is_filtered(self) -> bool:
        """Whether only some partitions are wanted."""
        return self.under_replicated or self.unavailable or self.under_min_isr or self.at_min_isr


class PartitionDescription(Struct, frozen=True):
    """One partition; the leader is None if nobody leads."""

    partition: int
    leader: int | None
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    offline: tuple[int, ...] = ()
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()


class TopicDescription(Struct):
    """One topic; configs are those that were set for it."""

    topic: str
    topic_id: str | None
    is_internal: bool
    partition_count: int
    replication_factor: int
    configs: dict[str, str]
    partitions: list[PartitionDescription]


class TopicGiven(Struct, kw_only=True, forbid_unknown_fields=True):
    """One topic."""

    topic: TopicName


class CreateTopic(Struct, kw_only=True, forbid_unknown_fields=True):
    """A topic to be; what is left out is the brokers' choice."""

    topic: TopicName
    partitions: Count | None = None
    replication_factor: Count | None = None
    replica_assignment: Assignments | None = None  # of partition 0, 1, …
    configs: Configs = {}
    if_not_exists: bool = False
    validate_only: bool = False


class TopicCreated(Struct):
    """It is there, with leaders; or was there before."""

    topic: str
    topic_id: str | None = None
    partitions: int | None = None
    replication_factor: int | None = None
    is_new: bool = True


class AlterTopic(Struct, kw_only=True, forbid_unknown_fields=True):
    """How many partitions it shall have in all."""

    topic: TopicName
    partitions: Count
    replica_assignment: Assignments | None = None  # of the new ones


class DeleteTopic(Struct, kw_only=True, forbid_unknown_fields=True):
    """A topic to be deleted."""

    topic: TopicName
    if_exists: bool = False


async def list_topics(clients: Clients, given: ListTopics) -> TopicNames:
    """The names of all topics."""
    names = await clients.admin().list_topics()
    return TopicNames(
        tuple(each for each in names if not (given.exclude_internal and each.startswith("__")))
    )


async def describe_topics(clients: Clients, given: DescribeTopics) -> list[TopicDescription]:
    """Leaders, replicas, in-sync replicas and settings."""
    admin = clients.admin()
    if given.topics is not None and not given.topics:
        return []
    described = await admin.describe_topics(given.topics)
    for name, found in described.items():
        if isinstance(found, UnknownTopicOrPartition):
            raise UnknownTopicOrPartition(f"There is no topic {name!r:.100}.")
        if isinstance(found, ApiError):
            raise found
    topics = {
        name: found
        for name, found in sorted(described.items())
        if isinstance(found, MetadataTopic)
        and not (given.exclude_internal and name.startswith("__"))
    }
    moves = await admin.list_reassignments()
    resources = {name: ConfigResource(ConfigResourceType.TOPIC, name) for name in topics}
    configs = await admin.describe_configs(*resources.values()) if topics else {}
    answer = []
    for name, found in topics.items():
        entries = configs[resources[name]]
        if isinstance(entries, ApiError):
            raise entries
        in_force = {each.name: each.value or "" for each in entries}
        own = {
            each.name: each.value or ""
            for each in entries
            if each.source is ConfigSource.TOPIC_CONFIG
        }
        moving = {at.partition: move for at, move in moves.items() if at.topic == name}
        partitions = [
            PartitionDescription(
                each.partition,
                None if each.leader == NO_LEADER else each.leader,
                each.leader_epoch,
                each.replicas,
                each.isr,
                each.offline_replicas,
                moving[each.partition].adding_replicas if each.partition in moving else (),
                moving[each.partition].removing_replicas if each.partition in moving else (),
            )
            for each in found.partitions
        ]
        wanted = [each for each in partitions if _is_wanted(each, given, in_force)]
        if wanted or not given.is_filtered:
            answer.append(
                TopicDescription(
                    name,
                    found.topic_id,
                    found.is_internal,
                    len(partitions),
                    len(partitions[0].replicas) if partitions else 0,
                    own,
                    wanted,
                )
            )
    return answer


def _is_wanted(
    partition: PartitionDescription, given: DescribeTopics, configs: dict[str, str]
) -> bool:
    if not given.is_filtered:
        return True
    least = int(configs.get(MIN_ISR) or 1)
    expected = set(partition.replicas) - set(partition.adding)
    return (
        (given.under_replicated and bool(expected - set(partition.isr)))
        or (given.unavailable and partition.leader is None)
        or (given.under_min_isr and len(partition.isr) < least)
        or (given.at_min_isr and len(partition.isr) == least)
    )


async def describe_topic(clients: Clients, given: TopicGiven) -> TopicDescription:
    """One topic."""
    (found,) = await describe_topics(clients, DescribeTopics(topics=[given.topic]))
    return found


async def create_topic(clients: Clients, given: CreateTopic) -> TopicCreated:
    """Create a topic, and wait until it has leaders."""
    if given.replica_assignment is not None and (
        given.partitions is not None or given.replication_factor is not None
    ):
        raise BadInput(
            "replica_assignment says where partitions are: partitions and replication_factor "
            "must not be given with it"
        )
    assignments = (
        None
        if given.replica_assignment is None
        else dict(enumerate(map(tuple, given.replica_assignment)))
    )
    try:
        created = await clients.admin().create_topic(
            given.topic,
            partitions=given.partitions,
            replication_factor=given.replication_factor,
            assignments=assignments,
            configs=given.configs,
            validate_only=given.validate_only,
        )
    except TopicAlreadyExists:
        if not given.if_not_exists:
            raise
        return TopicCreated(given.topic, is_new=False)
    return TopicCreated(
        created.topic, created.topic_id, created.num_partitions, created.replication_factor
    )


async def alter_topic(clients: Clients, given: AlterTopic) -> None:
    """Give a topic more partitions."""
    await clients.admin().create_partitions(given.topic, given.partitions, given.replica_assignment)


async def delete_topic(clients: Clients, given: DeleteTopic) -> None:
    """Delete a topic, and wait until clients can no longer see it."""
    try:
        await clients.admin().delete_topic(given.topic)
    except UnknownTopicOrPartition:
        if not given.if_exists:
            raise


OPERATIONS: Final = (
    Operation(
        "listTopics",
        "GET",
        "/api/topics",
        "The names of all topics.",
        ListTopics,
        TopicNames,
        list_topics,
    ),
    Operation(
        "describeTopics",
        "GET",
        "/api/topic-descriptions",
        "Partitions and settings of some topics or of all; filters choose partitions.",
        DescribeTopics,
        list[TopicDescription],
        describe_topics,
    ),
    Operation(
        "describeTopic",
        "GET",
        "/api/topics/{topic}",
        "Partitions and settings of one topic.",
        TopicGiven,
        TopicDescription,
        describe_topic,
    ),
    Operation(
        "createTopic",
        "POST",
        "/api/topics",
        "Create a topic, and wait until it has leaders.",
        CreateTopic,
        TopicCreated,
        create_topic,
    ),
    Operation(
        "alterTopic",
        "PATCH",
        "/api/topics/{topic}",
        "Give a topic more partitions.",
        AlterTopic,
        None,
        alter_topic,
    ),
    Operation(
        "deleteTopic",
        "DELETE",
        "/api/topics/{topic}",
        "Delete a topic.",
        DeleteTopic,
        None,
        delete_topic,
    ),
)
