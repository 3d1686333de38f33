"""An administrator's client: topics, configuration, elections, reassignments.

Rule: what was asked of one thing is returned or raised; what was asked of many is a dict with a
value or an ApiError for each. An error's text is the sentence that the broker answered.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, Protocol, Self, TypeVar

from actors.client.config import ConsumerConfig
from actors.client.connection import Connection
from actors.client.deadline import Deadline
from actors.client.group import Committed, GroupOffsets
from runtime.world import Clock, Network
from wire.admin import (
    AlterPartitionReassignments,
    CreatedTopic,
    CreatePartitions,
    CreateTopics,
    DeleteTopics,
    ElectionType,
    ElectLeaders,
    ListPartitionReassignments,
    NewPartitions,
    NewTopic,
    OngoingReassignment,
    PartitionAssignment,
    PartitionReassignment,
)
from wire.configs import (
    ConfigChange,
    ConfigChanges,
    ConfigEntry,
    ConfigQuery,
    ConfigResource,
    ConfigResourceType,
    DescribeConfigs,
    IncrementalAlterConfigs,
)
from wire.errors import ApiError, ErrorCode, MalformedMessage, exception_of
from wire.groups import (
    DeleteGroups,
    DeleteGroupsResponse,
    DescribedGroup,
    DescribeGroups,
    DescribeGroupsResponse,
    ListedGroup,
    ListGroups,
)
from wire.ids import BrokerId, TopicPartition
from wire.message import PartitionResult
from wire.metadata import DescribeCluster, DescribeClusterResponse, Metadata, MetadataTopic
from wire.znode_json import broker_ids

TIMEOUT_MS: Final = 30_000
BY_DEFAULT: Final = -1
LOADING_MS: Final = 100  # before a coordinator that loads is asked again
CONFIGS_AT_ONCE: Final = 500  # topics whose configuration is asked for in one request


class Answered(Protocol):
    """Whatever has a code and perhaps a sentence."""

    @property
    def error_code(self) -> ErrorCode:
        """NONE if all went well."""


AnsweredType = TypeVar("AnsweredType", bound=Answered)


class Admin:
    """An administrator of one cluster; `bootstrap` names brokers to begin with."""

    def __init__(
        self,
        network: Network,
        clock: Clock,
        bootstrap: Sequence[str],
        *,
        name_of: Callable[[BrokerId], str],
    ) -> None:
        self._connection = Connection(network, clock, bootstrap, name_of)
        self._clock = clock

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Leave the network, which is the administrator's own."""
        self._connection.close()

    # --- topics ----------------------------------------------------------------------------------

    async def create_topic(
        self,
        topic: str,
        *,
        partitions: int | None = None,
        replication_factor: int | None = None,
        assignments: Mapping[int, Sequence[int]] | None = None,
        configs: Mapping[str, str] | None = None,
        timeout_ms: int = TIMEOUT_MS,
        validate_only: bool = False,
    ) -> CreatedTopic:
        """Create a topic, and wait until it has leaders; what is not given is the broker's choice.

        As in Kafka, a first attempt whose answer was lost may have created what a second one then
        finds: TopicAlreadyExists.
        """
        new = NewTopic(
            topic=topic,
            num_partitions=BY_DEFAULT if partitions is None else partitions,
            replication_factor=BY_DEFAULT if replication_factor is None else replication_factor,
            assignments=tuple(
                PartitionAssignment(partition, broker_ids(tuple(replicas)))
                for partition, replicas in sorted((assignments or {}).items())
            ),
            configs=tuple(sorted((configs or {}).items())),
        )
        response = await self._connection.ask_controller(
            lambda within_ms: CreateTopics(
                topics=(new,), timeout_ms=within_ms, validate_only=validate_only
            ),
            timeout_ms,
        )
        return checked(response.topics[0])

    async def create_partitions(
        self,
        topic: str,
        count: int,
        assignments: Sequence[Sequence[int]] | None = None,
        *,
        timeout_ms: int = TIMEOUT_MS,
        validate_only: bool = False,
    ) -> None:
        """Give a topic so many partitions in all; `assignments` are of the new ones."""
        chosen = None
        if assignments is not None:
            chosen = tuple(broker_ids(tuple(replicas)) for replicas in assignments)
        new = NewPartitions(topic=topic, count=count, assignments=chosen)
        response = await self._connection.ask_controller(
            lambda within_ms: CreatePartitions(
                topics=(new,), timeout_ms=within_ms, validate_only=validate_only
            ),
            timeout_ms,
        )
        checked(response.topics[0])

    async def delete_topic(self, topic: str, *, timeout_ms: int = TIMEOUT_MS) -> None:
        """Delete a topic, and wait until clients can no longer see it; its logs go later."""
        response = await self._connection.ask_controller(
            lambda within_ms: DeleteTopics(topics=(topic,), timeout_ms=within_ms), timeout_ms
        )
        checked(response.topics[0])

    async def list_topics(self, *, timeout_ms: int = TIMEOUT_MS) -> tuple[str, ...]:
        """The names of all topics, sorted."""
        response = await self._connection.ask_any(Metadata(), timeout_ms)
        return tuple(sorted(each.topic for each in response.topics))

    async def describe_topics(
        self, topics: Iterable[str] | None = None, *, timeout_ms: int = TIMEOUT_MS
    ) -> dict[str, MetadataTopic | ApiError]:
        """Leaders, replicas and in-sync replicas of these topics, or of all."""
        request = Metadata(topics=None if topics is None else tuple(topics))
        response = await self._connection.ask_any(request, timeout_ms)
        return {
            each.topic: error_of(each, f"Topic {each.topic!r}") or each for each in response.topics
        }

    # --- the cluster ---------------------------------------------------------------------------

    async def describe_cluster(self, *, timeout_ms: int = TIMEOUT_MS) -> DescribeClusterResponse:
        """Who is in the cluster, and who is the controller."""
        return checked(await self._connection.ask_any(DescribeCluster(), timeout_ms))

    async def describe_configs(
        self, *resources: ConfigResource, timeout_ms: int = TIMEOUT_MS
    ) -> dict[ConfigResource, tuple[ConfigEntry, ...] | ApiError]:
        """What is in force, and where it comes from; a broker is asked for its own."""
        described: dict[ConfigResource, tuple[ConfigEntry, ...] | ApiError] = {}
        own = [each for each in resources if _is_one_broker(each)]
        others = [each for each in resources if not _is_one_broker(each)]
        for resource in own:
            request = DescribeConfigs(resources=(ConfigQuery(resource),))
            broker = BrokerId(int(resource.name))
            response = await self._connection.ask_broker(broker, request, timeout_ms)
            (result,) = response.resources
            described[resource] = error_of(result) or result.entries
        for start in range(0, len(others), CONFIGS_AT_ONCE):
            part = others[start : start + CONFIGS_AT_ONCE]
            request = DescribeConfigs(resources=tuple(map(ConfigQuery, part)))
            response = await self._connection.ask_any(request, timeout_ms)
            for resource, result in zip(part, response.resources, strict=True):
                described[resource] = error_of(result) or result.entries
        return {each: described[each] for each in resources}

    async def alter_configs(
        self,
        changes: Mapping[ConfigResource, Sequence[ConfigChange]],
        *,
        timeout_ms: int = TIMEOUT_MS,
        validate_only: bool = False,
    ) -> dict[ConfigResource, ApiError | None]:
        """Change some keys of some resources; None: it went well."""
        request = IncrementalAlterConfigs(
            resources=tuple(ConfigChanges(each, tuple(of)) for each, of in changes.items()),
            validate_only=validate_only,
        )
        response = await self._connection.ask_any(request, timeout_ms)
        return {each.resource: error_of(each) for each in response.resources}

    # --- groups ---------------------------------------------------------------------------------

    async def list_groups(self, *, timeout_ms: int = TIMEOUT_MS) -> tuple[ListedGroup, ...]:
        """The groups with members or offsets, sorted; every live broker is asked."""
        groups: dict[str, ListedGroup] = {}
        for node in (await self.describe_cluster(timeout_ms=timeout_ms)).brokers:
            found = await self._groups_of(node.id, Deadline(self._clock, timeout_ms))
            groups.update({each.group_id: each for each in found})
        return tuple(sorted(groups.values()))

    async def describe_group(self, group: str, *, timeout_ms: int = TIMEOUT_MS) -> DescribedGroup:
        """Its state and its members; one that nobody knows is Dead."""
        response = await self._group(group).ask(
            DescribeGroups(groups=(group,)), _code_of_group, Deadline(self._clock, timeout_ms)
        )
        return response.groups[0]

    async def delete_group(self, group: str, *, timeout_ms: int = TIMEOUT_MS) -> None:
        """Forget a group that nobody is a member of."""
        deadline = Deadline(self._clock, timeout_ms)
        await self._group(group).ask(DeleteGroups(groups=(group,)), _code_of_group, deadline)

    async def group_offsets(self, group: str, *, timeout_ms: int = TIMEOUT_MS) -> Committed:
        """All that a group has committed."""
        return await self._group(group).committed(None, Deadline(self._clock, timeout_ms))

    def _group(self, group: str) -> GroupOffsets:
        return GroupOffsets(group, ConsumerConfig(), self._connection, self._clock)

    async def _groups_of(self, broker: BrokerId, deadline: Deadline) -> tuple[ListedGroup, ...]:
        while True:
            within_ms = max(1, round(deadline.left_ms))
            response = await self._connection.ask_broker(broker, ListGroups(), within_ms)
            error = error_of(response, f"the groups of broker {broker}")
            if error is None:
                return response.groups
            # A broker that is still reading the groups' log will have read it soon.
            if not error.code.is_retriable or deadline.left_ms <= LOADING_MS:
                raise error
            await self._clock.sleep(LOADING_MS)

    # --- leaders and replicas --------------------------------------------------------------------

    async def elect_leaders(
        self,
        election_type: ElectionType,
        partitions: Iterable[TopicPartition] | None = None,
        *,
        timeout_ms: int = TIMEOUT_MS,
    ) -> dict[TopicPartition, ApiError | None]:
        """Elect leaders for these partitions, or for all that need one; None: it went well."""
        wanted = None if partitions is None else tuple(partitions)
        response = await self._connection.ask_controller(
            lambda within_ms: ElectLeaders(
                election_type=election_type, partitions=wanted, timeout_ms=within_ms
            ),
            timeout_ms,
        )
        return by_partition(checked(response).partitions)

    async def alter_reassignments(
        self,
        targets: Mapping[TopicPartition, Sequence[int] | None],
        *,
        timeout_ms: int = TIMEOUT_MS,
    ) -> dict[TopicPartition, ApiError | None]:
        """Begin to move partitions to these brokers, or cancel the move (None)."""
        wanted = tuple(
            PartitionReassignment(each, None if to is None else broker_ids(tuple(to)))
            for each, to in targets.items()
        )
        response = await self._connection.ask_controller(
            lambda within_ms: AlterPartitionReassignments(partitions=wanted, timeout_ms=within_ms),
            timeout_ms,
        )
        return by_partition(checked(response).partitions)

    async def list_reassignments(
        self,
        partitions: Iterable[TopicPartition] | None = None,
        *,
        timeout_ms: int = TIMEOUT_MS,
    ) -> dict[TopicPartition, OngoingReassignment]:
        """Which of these partitions, or of all, are on the move."""
        wanted = None if partitions is None else tuple(partitions)
        response = await self._connection.ask_controller(
            lambda within_ms: ListPartitionReassignments(partitions=wanted, timeout_ms=within_ms),
            timeout_ms,
        )
        return {each.partition: each for each in checked(response).partitions}


def _is_one_broker(resource: ConfigResource) -> bool:
    is_broker = resource.resource_type is ConfigResourceType.BROKER
    return is_broker and resource.name.isdecimal()


def error_of(answered: Answered, what: str = "") -> ApiError | None:
    """The exception that an answer amounts to; where it has no sentence, `what` is named."""
    if answered.error_code is ErrorCode.NONE:
        return None
    sentence = getattr(answered, "error_message", None) or (
        f"{what}: {answered.error_code.name}" if what else answered.error_code.name
    )
    return exception_of(answered.error_code)(sentence)


def checked(answered: AnsweredType) -> AnsweredType:
    """The answer, if it is no error."""
    if error := error_of(answered):
        raise error
    return answered


def by_partition(results: Iterable[PartitionResult]) -> dict[TopicPartition, ApiError | None]:
    """The results as a dict."""
    return {each.partition: error_of(each) for each in results}


def _code_of_group(response: DescribeGroupsResponse | DeleteGroupsResponse) -> ErrorCode:
    """What is said of the one group that was asked about."""
    if len(response.groups) != 1:
        raise MalformedMessage(f"{len(response.groups)} groups were answered for one")
    return response.groups[0].error_code
