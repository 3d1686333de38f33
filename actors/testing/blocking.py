"""A real cluster for tests, and programs, that do not await.

Rule: every call waits for its end, and raises what the coroutine behind it raised. The brokers and
the clients live in one other thread, and nothing of them is touched from here.
"""

from collections.abc import Awaitable, Callable, Mapping
from functools import partial, wraps
from pathlib import Path
from typing import Any, Final, Generic, Self, TypeVar

from actors.client.accumulator import RecordMetadata
from actors.client.deadline import Deadline
from actors.client.producer import Producer
from actors.client.subscription import ConsumerRecord
from actors.cluster import Cluster
from actors.conditions import Condition, NotReached
from actors.faults.hand import Faults
from actors.faults.node_hand import NodeHand
from actors.node_cluster import WAIT_MS, NodeCluster
from actors.view import ClusterView
from runtime.blocking import LoopThread
from wire.admin import CreatedTopic
from wire.ids import TopicPartition
from wire.records import Headers

T = TypeVar("T")
SESSION_TIMEOUT_MS: Final = 3_000  # a dead broker is missed soon; nobody wants to wait for that
MANY: Final = 2**63 - 1


class Pending(Generic[T]):
    """Something on its way, such as a record that was enqueued."""

    def __init__(self, thread: LoopThread, awaited: Awaitable[T]) -> None:
        self._thread = thread
        self._awaited = awaited

    def result(self) -> T:
        """Wait for it."""
        return self._thread.result_of(self._awaited)


class Blocking:
    """An asynchronous client whose methods wait: all that the client has, by the same names."""

    def __init__(self, thread: LoopThread, client: Any) -> None:
        self._thread = thread
        self._client = client

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if hasattr(self._client, "close"):  # an Admin keeps nothing open
            self._thread.call(self._client.close)

    def __dir__(self) -> list[str]:
        return dir(self._client)

    def __repr__(self) -> str:
        return f"Blocking({self._client!r})"

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(f"{name} is the client's own business")
        value = self._thread.call(partial(getattr, self._client, name))
        if not callable(value):
            return value

        @wraps(value)
        def blocking(*args: Any, **named: Any) -> Any:
            answer = self._thread.call(partial(value, *args, **named))
            return Pending(self._thread, answer) if isinstance(answer, Awaitable) else answer

        return blocking


class BlockingFaults:
    """A hand on a cluster whose calls wait."""

    def __init__(self, thread: LoopThread, hand: Faults) -> None:
        self._thread = thread
        self._hand = hand

    @property
    def cuts(self) -> tuple[tuple[int, int], ...]:
        """The links that are cut; 0 is ZooKeeper."""
        return self._hand.cuts

    def kill(self, broker: int) -> None:
        """End a broker as a power cut would."""
        self._thread.call(partial(self._hand.kill, broker))

    def restart(self, broker: int) -> None:
        """Start a broker that is down; one that is up stops in its own time before."""
        self._thread.call(partial(self._hand.restart, broker))

    def pause(self, broker: int) -> None:
        """Freeze a broker."""
        self._thread.call(partial(self._hand.pause, broker))

    def resume(self, broker: int) -> None:
        """Let a frozen broker go on."""
        self._thread.call(partial(self._hand.resume, broker))

    def shut_down(self, broker: int) -> None:
        """Stop a broker in its own time: leadership moves away, then it leaves."""
        self._thread.call(partial(self._hand.shut_down, broker))

    def expire_session(self, broker: int) -> None:
        """End a broker's ZooKeeper session although it is well."""
        self._thread.call(partial(self._hand.expire_session, broker))

    def cut(self, broker: int, other: int) -> None:
        """Lose all that is sent between two brokers, or between a broker and ZooKeeper (0)."""
        self._thread.call(partial(self._hand.cut, broker, other))

    def heal(self) -> None:
        """Mend every link, and let all go on that are paused."""
        self._thread.call(self._hand.heal)


class BlockingCluster:
    """Real brokers on a real ZooKeeper: `with BlockingCluster(brokers=3) as cluster`.

    Without `zookeeper` one is embedded; without `data` the folder is temporary.
    """

    def __init__(
        self,
        brokers: int = 3,
        *,
        zookeeper: str | None = None,
        data: Path | None = None,
        trace: Path | None = None,
        session_timeout_ms: int = SESSION_TIMEOUT_MS,
        overrides: Mapping[str, Any] | None = None,
        racks: Mapping[int, str] | None = None,
    ) -> None:
        self.cluster = Cluster(
            brokers,
            zookeeper=zookeeper,
            data=data,
            trace=trace,
            session_timeout_ms=session_timeout_ms,
            overrides=overrides,
            racks=racks,
        )
        self._thread = LoopThread("the cluster")
        self._is_closed = False
        self._producer: Producer | None = None
        self.faults = BlockingFaults(self._thread, NodeHand(self.cluster))

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def start(self) -> None:
        """Start every broker; if that fails, or is interrupted, nothing is left behind."""
        try:
            self._thread.run(self.cluster.start())
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Stop every broker, and leave nothing behind; a second time there is nothing to do."""
        if self._is_closed:
            return
        self._is_closed = True
        try:
            self._thread.run(self._close())
        finally:
            self._thread.close()

    async def _close(self) -> None:
        try:
            if self._producer is not None:
                await self._producer.close(timeout_ms=0)  # what was sent has ended already
        finally:
            await self.cluster.close()

    # --- clients ----------------------------------------------------------------------------------

    @property
    def bootstrap_servers(self) -> str:
        """What any Kafka client is given to begin with: the brokers that are up."""
        return str(self._thread.call(lambda: self.cluster.bootstrap_servers))

    def admin(self) -> Blocking:
        """An administrator's client."""
        return Blocking(self._thread, self._thread.call(self.cluster.admin))

    def producer(self, **options: Any) -> Blocking:
        """A client that sends records; options are those of ProducerConfig."""
        return Blocking(self._thread, self._thread.call(partial(self.cluster.producer, **options)))

    def consumer(self, **options: Any) -> Blocking:
        """A client that reads records; options are those of ConsumerConfig."""
        return Blocking(self._thread, self._thread.call(partial(self.cluster.consumer, **options)))

    def create_topic(
        self,
        topic: str,
        *,
        partitions: int | None = None,
        replication_factor: int | None = None,
        assignments: Mapping[int, tuple[int, ...]] | None = None,
        configs: Mapping[str, str] | None = None,
    ) -> CreatedTopic:
        """Create a topic, and wait until it has leaders."""

        async def created() -> CreatedTopic:
            return await self.cluster.admin().create_topic(
                topic,
                partitions=partitions,
                replication_factor=replication_factor,
                assignments=assignments,
                configs=configs,
            )

        return self._thread.run(created())

    def send(
        self,
        topic: str,
        value: bytes | None = None,
        key: bytes | None = None,
        *,
        partition: int | None = None,
        headers: Headers = (),
    ) -> RecordMetadata:
        """Send a record, and wait until all in-sync replicas have it."""

        async def sent() -> RecordMetadata:
            if self._producer is None:
                self._producer = self.cluster.producer()
            return await self._producer.send(
                topic, value, key, partition=partition, headers=headers
            )

        return self._thread.run(sent())

    def read(
        self,
        topic: str,
        partition: int = 0,
        offset: int = 0,
        count: int | None = None,
        *,
        timeout_ms: float = WAIT_MS,
    ) -> list[ConsumerRecord]:
        """So many records from an offset on; without a count, all that can be read now."""
        where = TopicPartition(topic, partition)
        return self._thread.run(read(self.cluster, where, offset, count, timeout_ms))

    # --- what is seen, and what is broken ---------------------------------------------------------

    def until(
        self, condition: Condition | Callable[[ClusterView], bool], *, timeout_ms: float = WAIT_MS
    ) -> ClusterView:
        """Wait until something can be seen of the cluster: `until(leader("orders", 0) != 1)`."""
        return self._thread.run(self.cluster.until(condition, timeout_ms=timeout_ms))

    def view(self) -> ClusterView:
        """The cluster as it is between two messages."""
        return self._thread.run(self.cluster.look(offsets=True))

    def kill(self, broker: int) -> None:
        """End a broker as a power cut would."""
        self.faults.kill(broker)

    def restart(self, broker: int) -> None:
        """Start a broker that is down; one that is up stops in its own time before."""
        self.faults.restart(broker)

    def pause(self, broker: int) -> None:
        """Freeze a broker."""
        self.faults.pause(broker)

    def resume(self, broker: int) -> None:
        """Let a frozen broker go on."""
        self.faults.resume(broker)


async def read(
    cluster: NodeCluster, where: TopicPartition, offset: int, count: int | None, timeout_ms: float
) -> list[ConsumerRecord]:
    """So many records of a partition, or all that there are."""
    found: list[ConsumerRecord] = []
    async with cluster.consumer(auto_offset_reset="none") as consumer:
        consumer.assign([where])
        await consumer.seek(where, offset)
        deadline = Deadline(cluster.clock, timeout_ms)
        most, end = MANY if count is None else count, MANY
        if count is None:
            end = (await consumer.end_offsets([where], timeout_ms))[where]
        while len(found) < most and await consumer.position(where) < end:
            if deadline.is_over:
                wanted = f"its end at {end}" if count is None else f"{count} records"
                raise NotReached(
                    f"{where} from offset {offset} on: {len(found)} records "
                    f"after {timeout_ms:g} ms, and not {wanted}"
                )
            found += await consumer.poll(deadline.left_ms)
    return found[:count]
