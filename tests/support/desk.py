"""A broker's administrator alone with ZooKeeper, and somebody who asks it."""

import json

from actors.asked import Asked
from actors.broker.administrator import Administrator, OfficeChanged
from actors.broker.registration import make_paths
from actors.config import BrokerConfig
from runtime.system import System
from wire.admin import CreatePartitions, CreateTopics, DeleteTopics, NewPartitions
from wire.configs import ConfigChanges, ConfigQuery, DescribeConfigs, IncrementalAlterConfigs
from wire.ids import Endpoint
from wire.znodes import PERSISTENT_ROOTS, BrokerIdZNode, BrokerRegistration


class Cache:
    """In a replica manager's place: shows at once what is waited for, or only when told."""

    def __init__(self):
        self.waits = []
        self.shows = True

    def tell(self, wait):
        self.waits.append(wait)
        if self.shows is not None:
            wait.done(self.shows)


class Desk:
    """An administrator, and somebody who asks it."""

    def __init__(self, sim, world, cache):
        self.sim, self.world, self.cache = sim, world, cache

    @classmethod
    async def open(cls, sim):
        world = sim.world("broker-1")
        await world.keeper.start()
        await make_paths(world.keeper, PERSISTENT_ROOTS)
        desk = cls(sim, world, Cache())
        for broker in (1, 2, 3):
            await desk.register(broker)
        desk.start()
        return desk

    @property
    def tree(self):
        return self.sim.zookeeper.tree

    def json(self, path):
        return json.loads(self.tree.get(path).data)

    def exists(self, path):
        return self.tree.stat(path) is not None

    def start(self, **config):
        self.system = System("broker-1", self.world.trace)
        self.sim.adopt(self.system)
        administrator = Administrator(self.world, BrokerConfig(broker_id=1, **config), self.cache)
        self.ref = self.system.start("administrator", administrator)
        self.ref.tell(OfficeChanged(is_active=True))

    def send(self, request):
        answers = []
        self.ref.tell(Asked(request, "client", answers.append))
        return answers

    async def ask(self, request):
        answers = self.send(request)
        await self.sim.until(lambda: answers, limit_ms=60_000)
        await self.sim.sleep(1_000)  # a second answer would have come by now
        assert self.system.is_up
        (answer,) = answers
        return answer

    async def create(self, *topics, timeout_ms=1_000, validate_only=False):
        request = CreateTopics(topics=topics, timeout_ms=timeout_ms, validate_only=validate_only)
        return (await self.ask(request)).topics

    async def grow(self, topic, count, assignments=None, *, timeout_ms=1_000, validate_only=False):
        new = NewPartitions(topic=topic, count=count, assignments=assignments)
        request = CreatePartitions(
            topics=(new,), timeout_ms=timeout_ms, validate_only=validate_only
        )
        (result,) = (await self.ask(request)).topics
        return result

    async def delete(self, *topics, timeout_ms=1_000):
        return (await self.ask(DeleteTopics(topics=topics, timeout_ms=timeout_ms))).topics

    async def alter(self, resource, *changes, validate_only=False):
        request = IncrementalAlterConfigs(
            resources=(ConfigChanges(resource, changes),), validate_only=validate_only
        )
        (result,) = (await self.ask(request)).resources
        return result

    async def describe(self, resource, *keys):
        query = ConfigQuery(resource, keys or None)
        (result,) = (await self.ask(DescribeConfigs(resources=(query,)))).resources
        return result

    def meanwhile(self, path, operation, times=1):
        """Somebody else is faster, just before the next write to the path."""
        zookeeper = self.sim.zookeeper
        commit, left = zookeeper.commit, [operation] * times

        def slower(session, operations):
            if left and path in {each.path for each in operations}:
                self.tree.commit([left.pop()], 0, 0)
            return commit(session, operations)

        zookeeper.commit = slower

    async def register(self, broker, rack=None):
        endpoint = Endpoint("INTERNAL", "PLAINTEXT", f"broker-{broker}", 9092)
        data = BrokerRegistration(endpoints=(endpoint,), timestamp_ms=1, rack=rack)
        await self.world.keeper.create(BrokerIdZNode.path(broker), BrokerIdZNode.encode(data))
