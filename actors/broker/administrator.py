"""Takes what administrators ask for to ZooKeeper, where the controller sees it.

Rule: all of a request is validated before any of it is written, and each thing that it names has a
result of its own. Topics are the controller's broker's business, configuration is any broker's, and
so are topics that a client of this broker needs. The answer waits until this broker's own clients
can see what was done, or until time is up.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final, assert_never

from actors.administration.auto_topics import auto_topic
from actors.administration.new_topics import Defaults, TopicPlan, plan_growth, plan_topic
from actors.asked import Asked, refusal
from actors.broker.configurator import Configurator
from actors.broker.metadata import AwaitMetadata, MetadataCache, topic_is_gone, topic_is_ready
from actors.broker.topic_store import Results, TopicStore, as_api_error, unknown_topic
from actors.config import BrokerConfig
from actors.controller.topics import TOPIC_ID_BYTES, new_topic_id
from runtime.actor import Actor
from runtime.keeper import KeeperError
from runtime.ref import InboxFull, Receiver
from runtime.world import World
from wire.admin import (
    CreatedTopic,
    CreatePartitions,
    CreatePartitionsResponse,
    CreateTopics,
    CreateTopicsResponse,
    DeleteTopics,
    DeleteTopicsResponse,
    NewPartitions,
    NewTopic,
)
from wire.configs import DescribeConfigs, IncrementalAlterConfigs
from wire.errors import (
    ApiError,
    InvalidRequest,
    MalformedZNode,
    NotController,
    RequestTimedOut,
    TopicAlreadyExists,
    TopicDeletionDisabled,
)
from wire.message import Message, TopicResult
from wire.trace import TopicNotCreated

Holds = Callable[[MetadataCache], bool]
Respond = Callable[[Results], Message]

MAX_START: Final = 2**31


@dataclass(frozen=True)
class OfficeChanged:
    """Node → administrator: this broker has become the controller, or is it no longer."""

    is_active: bool


@dataclass(frozen=True)
class Settled:
    """Replica manager → administrator: the cache shows what was waited for, or time is up."""

    number: int
    topic: str
    is_in_time: bool


@dataclass(frozen=True)
class AutoCreateTopics:
    """Any actor of this broker → administrator: clients need these; nobody awaits an answer."""

    topics: tuple[str, ...]


@dataclass(frozen=True)
class CreateInternalTopic:
    """A coordinator → administrator: it needs this topic of Kafka's own, as it says."""

    topic: str
    partitions: int
    replication_factor: int
    configs: tuple[tuple[str, str], ...] = ()


AdministratorMessage = Asked | OfficeChanged | Settled | AutoCreateTopics | CreateInternalTopic


@dataclass
class _Wait:
    """A request whose answer waits for the metadata cache."""

    asked: Asked
    results: Results
    respond: Respond
    topics: set[str] = field(default_factory=set)  # those not settled yet


class Administrator(Actor):
    """Answers requests about topics and configuration."""

    def __init__(self, world: World, config: BrokerConfig, replica_manager: Receiver) -> None:
        super().__init__()
        self._world = world
        self._config = config
        self._replica_manager = replica_manager
        self._store = TopicStore(world)
        self._configurator = Configurator(world, config)
        self._is_active = False
        self._waits: dict[int, _Wait] = {}
        self._next_wait = 0

    async def on_receive(self, message: AdministratorMessage) -> None:
        """One message at a time."""
        match message:
            case Asked():
                await self._on_asked(message)
            case OfficeChanged():
                self._is_active = message.is_active
            case Settled():
                self._on_settled(message)
            case AutoCreateTopics():
                topics = dict.fromkeys(message.topics)
                await self._auto_create([auto_topic(each, self._config) for each in topics])
            case CreateInternalTopic():
                await self._auto_create([_internal_topic(message)])
            case _:
                assert_never(message)

    async def _on_asked(self, asked: Asked) -> None:
        """Nothing is awaited after a wait has begun: whatever is raised, nobody has answered."""
        try:
            await self._dispatch(asked)
        except (ApiError, KeeperError, MalformedZNode) as error:
            asked.answer(refusal(asked.request, as_api_error(error)))

    async def _dispatch(self, asked: Asked) -> None:
        request = asked.request
        match request:
            case DescribeConfigs():
                asked.answer(await self._configurator.describe(request))
            case IncrementalAlterConfigs():
                asked.answer(await self._configurator.alter(request))
            case _ if not self._is_active:
                raise NotController("This broker is not the controller.")
            case CreateTopics():
                await self._create_topics(asked, request)
            case CreatePartitions():
                await self._create_partitions(asked, request)
            case DeleteTopics():
                await self._delete_topics(asked, request)
            case _:
                raise InvalidRequest(f"{type(request).__name__} is not for an administrator.")

    # --- CreateTopics -----------------------------------------------------------------------------

    async def _create_topics(self, asked: Asked, request: CreateTopics) -> None:
        results = refuse_repeated(new.topic for new in request.topics)
        plans = await self._plan_topics(request.topics, results)

        def respond(results: Results) -> Message:
            created = tuple(
                _created(topic, error, plans.get(topic), is_made=not request.validate_only)
                for topic, error in results.items()
            )
            return CreateTopicsResponse(topics=created)

        if request.validate_only:
            asked.answer(respond(results))
            return
        results.update(await self._store.create(tuple(plans.values())))
        waits = {
            topic: topic_is_ready(topic, plan.partitions)
            for topic, plan in plans.items()
            if results[topic] is None
        }
        self._answer_when_seen(asked, waits, request.timeout_ms, results, respond)

    async def _plan_topics(
        self, wanted: Sequence[NewTopic], results: Results
    ) -> dict[str, TopicPlan]:
        """What can be created; the rest has its error in the results."""
        view = await self._store.view()
        plans: dict[str, TopicPlan] = {}
        for new in wanted:
            if results[new.topic] is None:
                try:
                    plans[new.topic] = plan_topic(new, view, plans.keys(), self._defaults())
                except ApiError as error:
                    results[new.topic] = error
        return plans

    async def _auto_create(self, wanted: Sequence[NewTopic]) -> None:
        """Write what is not there yet, whoever is the controller, as ZkAdminManager does.

        A topic that somebody else has just created is what was wanted.
        """
        results: Results = {new.topic: None for new in wanted}
        try:
            plans = await self._plan_topics(wanted, results)
            if plans:
                results.update(await self._store.create(tuple(plans.values())))
        except (ApiError, KeeperError, MalformedZNode) as error:
            failed = as_api_error(error)
            results = {topic: earlier or failed for topic, earlier in results.items()}
        for topic, refused in results.items():
            if refused is not None and not isinstance(refused, TopicAlreadyExists):
                self._world.trace(TopicNotCreated(topic, refused.code.name, str(refused)))

    def _defaults(self) -> Defaults:
        random = self._world.random
        return Defaults(
            num_partitions=self._config.num_partitions,
            replication_factor=self._config.default_replication_factor,
            start=random.randrange(MAX_START),
            shift=random.randrange(MAX_START),
            topic_id=new_topic_id(random.randbytes(TOPIC_ID_BYTES)),
        )

    # --- CreatePartitions -------------------------------------------------------------------------

    async def _create_partitions(self, asked: Asked, request: CreatePartitions) -> None:
        results = refuse_repeated(new.topic for new in request.topics)
        wanted = [new for new in request.topics if results[new.topic] is None]
        plans = await self._plan_growth(wanted, results)

        def respond(results: Results) -> Message:
            return CreatePartitionsResponse(topics=topic_results(results))

        if request.validate_only:
            asked.answer(respond(results))
            return
        for new in wanted:
            if new.topic in plans:
                results[new.topic] = await self._grow(new, plans[new.topic])
        waits = {
            topic: topic_is_ready(topic, plan.partitions)
            for topic, plan in plans.items()
            if results[topic] is None
        }
        self._answer_when_seen(asked, waits, request.timeout_ms, results, respond)

    async def _plan_growth(
        self, wanted: Sequence[NewPartitions], results: Results
    ) -> dict[str, TopicPlan]:
        """What can grow; the rest has its error in the results."""
        view = await self._store.view()
        found = await self._store.read([new.topic for new in wanted if new.topic in view.topics])
        plans: dict[str, TopicPlan] = {}
        for new in wanted:
            try:
                current = found.get(new.topic) or unknown_topic(new.topic)
                if isinstance(current, ApiError):
                    raise current
                plans[new.topic] = plan_growth(new, *current, view)
            except ApiError as error:
                results[new.topic] = error
        return plans

    async def _grow(self, new: NewPartitions, plan: TopicPlan) -> ApiError | None:
        """Write on the condition of the version; if somebody was faster, think again."""

        async def think_again() -> TopicPlan:
            results: Results = {new.topic: None}
            plans = await self._plan_growth([new], results)
            if error := results[new.topic]:
                raise error
            return plans[new.topic]

        try:
            await self._store.replace(plan, think_again)
        except ApiError as error:
            return error
        return None

    # --- DeleteTopics -----------------------------------------------------------------------------

    async def _delete_topics(self, asked: Asked, request: DeleteTopics) -> None:
        if not self._config.delete_topic_enable:
            raise TopicDeletionDisabled(
                "Topics are not deleted here: delete.topic.enable is false."
            )
        view = await self._store.view()
        results: Results = {
            topic: None if topic in view.topics else unknown_topic(topic)
            for topic in request.topics
        }
        wanted = [topic for topic, error in results.items() if error is None]
        results.update(await self._store.mark_for_deletion(wanted))
        waits = {topic: topic_is_gone(topic) for topic in wanted if results[topic] is None}

        def respond(results: Results) -> Message:
            return DeleteTopicsResponse(topics=topic_results(results))

        self._answer_when_seen(asked, waits, request.timeout_ms, results, respond)

    # --- waiting ----------------------------------------------------------------------------------

    def _answer_when_seen(
        self,
        asked: Asked,
        waits: dict[str, Holds],
        timeout_ms: int,
        results: Results,
        respond: Respond,
    ) -> None:
        """Answer when all of it can be seen. Without time, as Kafka: what is done timed out."""
        if timeout_ms <= 0:
            results.update((topic, timed_out(topic)) for topic in waits)
            waits = {}
        if not waits:
            asked.answer(respond(results))
            return
        self._next_wait += 1
        number = self._next_wait
        self._waits[number] = _Wait(asked, results, respond, set(waits))
        for topic, holds in waits.items():
            done = self._settler(number, topic)
            try:
                self._replica_manager.tell(AwaitMetadata(holds, timeout_ms, done))
            except InboxFull:  # what is not waited for is not seen in time
                self._on_settled(Settled(number, topic, is_in_time=False))

    def _settler(self, number: int, topic: str) -> Callable[[bool], None]:
        return lambda is_in_time: self.ref.tell(Settled(number, topic, is_in_time))

    def _on_settled(self, event: Settled) -> None:
        wait = self._waits[event.number]
        wait.topics.discard(event.topic)
        if not event.is_in_time:
            wait.results[event.topic] = timed_out(event.topic)
        if not wait.topics:
            del self._waits[event.number]
            wait.asked.answer(wait.respond(wait.results))


def _internal_topic(wanted: CreateInternalTopic) -> NewTopic:
    return NewTopic(
        topic=wanted.topic,
        num_partitions=wanted.partitions,
        replication_factor=wanted.replication_factor,
        configs=wanted.configs,
    )


def refuse_repeated(topics: Iterable[str]) -> Results:
    """A request that says two things of one topic contradicts itself."""
    return {
        topic: InvalidRequest(f"Topic {topic!r} is in the request {times} times.")
        if times > 1
        else None
        for topic, times in Counter(topics).items()
    }


def topic_results(results: Results) -> tuple[TopicResult, ...]:
    """The results as they are sent."""
    return tuple(
        TopicResult(topic) if error is None else TopicResult(topic, error.code, str(error))
        for topic, error in results.items()
    )


def timed_out(topic: str) -> ApiError:
    """The time ran out for one topic."""
    return RequestTimedOut(f"Topic {topic!r} was not seen done in time; it may be done later.")


def _created(
    topic: str, error: ApiError | None, plan: TopicPlan | None, *, is_made: bool
) -> CreatedTopic:
    if error is not None:
        return CreatedTopic(topic=topic, error_code=error.code, error_message=str(error))
    assert plan is not None, "what has no plan has an error"
    return CreatedTopic(
        topic=topic,
        topic_id=plan.assignment.topic_id if is_made else None,
        num_partitions=plan.partitions,
        replication_factor=plan.replication_factor,
    )
