"""An administrator's hand on the topics in ZooKeeper.

Rule: a topic's configuration is written first, then its assignment, in no transaction (B083). A
write that finds its own work done, because a reply was lost, has succeeded (B021).
"""

from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import partial
from typing import Final, TypeVar

from actors.administration.new_topics import TopicPlan, View
from actors.administration.placement import BrokerRack
from runtime.keeper import (
    BadVersion,
    Create,
    KeeperError,
    KeeperSessionLost,
    NodeExists,
    NoNode,
    Set,
    ZNode,
)
from runtime.world import World
from wire.admin_znodes import DeleteTopicsTopicZNode, DeleteTopicsZNode
from wire.config_znodes import ConfigEntity, ConfigEntityType, ConfigEntityZNode
from wire.errors import (
    ApiError,
    MalformedZNode,
    NotController,
    TopicAlreadyExists,
    UnknownTopicOrPartition,
)
from wire.ids import BrokerId
from wire.trace import ZNodeSkipped
from wire.znodes import BrokerIdsZNode, BrokerIdZNode, TopicAssignment, TopicsZNode, TopicZNode

ATTEMPTS: Final = 3  # of a conditional write
Results = dict[str, ApiError | None]  # by topic, in the order of the request; None: it went well
Found = dict[str, tuple[TopicAssignment, int] | ApiError]  # with the version of the znode
Value = TypeVar("Value")


class TopicStore:
    """Reads and writes topics."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._keeper = world.keeper

    async def view(self) -> View:
        """Who lives, what there is, and what is on its way out."""
        return View(
            brokers=await self._brokers(),
            topics=frozenset(await self._children(TopicsZNode.path())),
            deleting=frozenset(await self._children(DeleteTopicsZNode.path())),
        )

    async def _children(self, path: str) -> tuple[str, ...]:
        try:
            return await self._keeper.children(path)
        except NoNode:
            return ()

    async def _brokers(self) -> tuple[BrokerRack, ...]:
        brokers: list[BrokerId] = []
        for name in await self._children(BrokerIdsZNode.path()):
            broker = self._decoded(partial(BrokerIdsZNode.broker_of, name))
            if broker is not None:
                brokers.append(broker)
        znodes = await self._keeper.read([BrokerIdZNode.path(broker) for broker in brokers])
        racks = (self._rack(*pair) for pair in zip(brokers, znodes, strict=True))
        return tuple(sorted(each for each in racks if each is not None))

    def _rack(self, broker: BrokerId, znode: ZNode | KeeperError) -> BrokerRack | None:
        if isinstance(znode, KeeperError):
            return None  # it has just died
        registered = self._decoded(lambda: BrokerIdZNode.decode(broker, znode.data))
        return None if registered is None else BrokerRack(broker, registered.rack)

    def _decoded(self, decode: Callable[[], Value]) -> Value | None:
        try:
            return decode()
        except MalformedZNode as error:
            self._world.trace(ZNodeSkipped(error.path, error.reason))
            return None

    async def read(self, topics: Sequence[str]) -> Found:
        """The assignments of these topics, or why there is none."""
        znodes = await self._keeper.read([TopicZNode.path(topic) for topic in topics])
        return {
            topic: _assignment(topic, znode) for topic, znode in zip(topics, znodes, strict=True)
        }

    async def create(self, plans: Sequence[TopicPlan]) -> Results:
        """Write new topics, and answer what became of each."""
        paths = [_config_path(plan.topic) for plan in plans]
        configs = [plan.config_data for plan in plans]
        written = await self._keeper.write(list(map(Create, paths, configs)))
        # As Kafka: what an earlier topic of the name has left there is replaced.
        left = [
            Set(path, data)
            for path, data, result in zip(paths, configs, written, strict=True)
            if isinstance(result, NodeExists)
        ]
        _raise_first([each for each in written if not isinstance(each, NodeExists)])
        _raise_first(await self._keeper.write(left))
        creates = [Create(TopicZNode.path(plan.topic), plan.data) for plan in plans]
        results: Results = {}
        for plan, result in zip(plans, await self._keeper.write(creates), strict=True):
            results[plan.topic] = None
            if isinstance(result, NodeExists):
                results[plan.topic] = await self._was_that_me(plan)
            elif isinstance(result, KeeperError):
                results[plan.topic] = as_api_error(result)
        return results

    async def _was_that_me(self, plan: TopicPlan) -> ApiError | None:
        """A topic's id is drawn by its maker: two plans are never the same."""
        (znode,) = await self._keeper.read([TopicZNode.path(plan.topic)])
        if isinstance(znode, ZNode) and znode.data == plan.data:
            return None
        return TopicAlreadyExists(f"Topic {plan.topic!r} exists already.")

    async def replace(
        self, plan: TopicPlan, think_again: Callable[[], Awaitable[TopicPlan]]
    ) -> None:
        """Write a topic on the condition of its version; if it has another one, think again."""
        path = TopicZNode.path(plan.topic)
        for _ in range(ATTEMPTS):
            try:
                await self._keeper.set(path, plan.data, version=plan.version)
                return
            except NoNode:
                raise unknown_topic(plan.topic) from None
            except BadVersion:
                (znode,) = await self._keeper.read([path])
                if isinstance(znode, ZNode) and znode.data == plan.data:
                    return  # it was me
                plan = await think_again()
        raise ApiError(f"Topic {plan.topic!r} is being changed by others all the time.")

    async def mark_for_deletion(self, topics: Sequence[str]) -> Results:
        """Ask the controller for their end; as Kafka, whoever asked first (B090)."""
        creates = [Create(DeleteTopicsTopicZNode.path(topic)) for topic in topics]
        written = await self._keeper.write(creates)
        return {
            topic: as_api_error(result)
            if isinstance(result, KeeperError) and not isinstance(result, NodeExists)
            else None
            for topic, result in zip(topics, written, strict=True)
        }


def _config_path(topic: str) -> str:
    return ConfigEntityZNode.path(ConfigEntity(ConfigEntityType.TOPICS, topic))


def _assignment(topic: str, znode: ZNode | KeeperError) -> tuple[TopicAssignment, int] | ApiError:
    if isinstance(znode, NoNode):
        return unknown_topic(topic)
    if isinstance(znode, KeeperError):
        return as_api_error(znode)
    try:
        return TopicZNode.decode(topic, znode.data), znode.stat.version
    except MalformedZNode as error:
        return as_api_error(error)


def _raise_first(results: Iterable[object]) -> None:
    for result in results:
        if isinstance(result, KeeperError):
            raise result


def as_api_error(error: ApiError | KeeperError | MalformedZNode) -> ApiError:
    """What to answer when ZooKeeper would not, or could not."""
    if isinstance(error, ApiError):
        return error
    if isinstance(error, KeeperSessionLost):
        return NotController("This broker has lost its ZooKeeper session; ask again.")
    return ApiError(str(error))


def unknown_topic(topic: str) -> ApiError:
    """There is none of that name."""
    return UnknownTopicOrPartition(f"Topic {topic!r} does not exist.")
