"""The controller's hand on ZooKeeper.

Rule: every write begins with a check of `/controller_epoch`'s version, the one this controller got
at its election; when that fails another one reigns, and nothing was written (B006). Reads are not
fenced (B007). A conditional write whose reply was lost is refused when it is sent again, so a
refused one is read back: what stands there word for word as we wanted it is ours (B021).
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, TypeVar

from actors.broker.registration import children_of
from actors.controller.context import Leadership
from runtime.keeper import (
    ANY_VERSION,
    BadVersion,
    Check,
    CheckFailed,
    Create,
    Delete,
    Keeper,
    KeeperError,
    NodeExists,
    NoNode,
    NotEmpty,
    Operation,
    Set,
    Written,
    ZNode,
)
from runtime.ref import Receiver
from runtime.tracing import NodeTrace
from wire.config_znodes import DEFAULT_ENTITY, ConfigEntity, ConfigEntityType, ConfigEntityZNode
from wire.errors import ApiError, ControllerMoved, MalformedZNode
from wire.ids import BrokerId, ControllerEpoch, TopicPartition
from wire.trace import ZNodeSkipped
from wire.znodes import (
    ControllerEpochZNode,
    PartitionState,
    PartitionStateZNode,
    PartitionsZNode,
    PartitionZNode,
)

Value = TypeVar("Value")
UNCLEAN: Final = "unclean.leader.election.enable"


class NewerState(ApiError):
    """A later controller has decided it: the second line of fencing (B025, B058).

    As in Kafka that partition fails and no other. If there is such a controller, the first write
    ends this reign; if a person wrote that epoch, nothing else must suffer from it.
    """


StateRead = Leadership | KeeperError | MalformedZNode | NewerState
StateWrite = tuple[PartitionState, int]  # what to write, and the version expected
StateWritten = Leadership | KeeperError
See = Callable[[TopicPartition, Leadership, int], None]


class Store:
    """Reads, and writes that only the present controller can make."""

    def __init__(self, keeper: Keeper, trace: NodeTrace, epoch_version: int) -> None:
        self.keeper = keeper
        self._trace = trace
        self._check = Check(ControllerEpochZNode.path(), epoch_version)

    async def write(self, operations: Sequence[Operation]) -> list[Written | KeeperError]:
        """Fenced writes, a result for each; ControllerMoved if another one reigns."""
        try:
            return await self.keeper.write(operations, check=self._check)
        except CheckFailed as error:
            raise ControllerMoved(str(error)) from error

    async def replace(self, path: str, data: bytes, version: int = ANY_VERSION) -> int:
        """Replace one znode's data; the new version."""
        (result,) = await self.write([Set(path, data, version)])
        if isinstance(result, KeeperError):
            raise result
        assert result.stat is not None, "a set answers a stat"
        return result.stat.version

    async def delete(self, *paths: str) -> None:
        """Remove znodes, with whatever somebody put below; one that is gone already is fine."""
        results = await self.write([Delete(path) for path in paths])
        for path, result in zip(paths, results, strict=True):
            if isinstance(result, NotEmpty):
                await self.delete_tree(path)
            elif isinstance(result, KeeperError) and not isinstance(result, NoNode):
                raise result

    async def delete_topic_tree(self, path: str) -> None:
        """Remove a topic's znodes in bulk; what else somebody put there, one by one."""
        folder = f"{path}/partitions"
        try:
            names = await self.keeper.children(folder)
        except NoNode:
            names = ()
        partitions = [f"{folder}/{name}" for name in names]
        await self.write(
            [*(Delete(f"{each}/state") for each in partitions), *map(Delete, partitions)]
        )
        await self.delete_tree(path)

    async def delete_tree(self, path: str) -> None:
        """Remove a znode and all below it, deepest first; whoever adds meanwhile is removed too."""
        while True:
            paths = await self._below(path)
            results = await self.write([Delete(each) for each in reversed(paths)])
            errors = [each for each in results if isinstance(each, KeeperError)]
            if not any(isinstance(each, NotEmpty) for each in errors):
                return

    async def _below(self, path: str) -> list[str]:
        try:
            names = await self.keeper.children(path)
        except NoNode:
            return []
        paths = [path]
        for name in names:
            paths += await self._below(f"{path}/{name}")
        return paths

    # --- partition states -----------------------------------------------------------------------

    async def read_states(
        self, partitions: Iterable[TopicPartition], see: See | None = None
    ) -> dict[TopicPartition, StateRead]:
        """What ZooKeeper has of these partitions, or why nothing can be said.

        `see` is shown each, with the zxid of the write that made it so.
        """
        asked = list(partitions)
        znodes = await self.keeper.read([PartitionStateZNode.path(each) for each in asked])
        states = {each: self._state(each, znode) for each, znode in zip(asked, znodes, strict=True)}
        if see is not None:
            for partition, znode in zip(asked, znodes, strict=True):
                state = states[partition]
                if isinstance(znode, ZNode) and isinstance(state, Leadership):
                    see(partition, state, znode.stat.mzxid)
        return states

    def _state(self, partition: TopicPartition, znode: ZNode | KeeperError) -> StateRead:
        if isinstance(znode, KeeperError):
            return znode
        try:
            state = PartitionStateZNode.decode(partition, znode.data)
        except MalformedZNode as error:
            self.skip(error)
            return error
        return Leadership.of(state, znode.stat.version)

    async def read_changeable(
        self, partitions: Sequence[TopicPartition], epoch: ControllerEpoch
    ) -> dict[TopicPartition, StateRead]:
        """As `read_states`, but for what a controller after this epoch has decided."""
        states = await self.read_states(partitions)
        for partition, read in states.items():
            if isinstance(read, Leadership) and read.controller_epoch > epoch:
                states[partition] = NewerState(
                    f"{partition} was decided by controller epoch {read.controller_epoch},"
                    f" which is after {epoch}"
                )
        return states

    async def write_states(
        self, changes: Mapping[TopicPartition, StateWrite]
    ) -> dict[TopicPartition, StateWritten]:
        """Replace states, each on the condition of its version."""
        operations = [
            Set(PartitionStateZNode.path(partition), PartitionStateZNode.encode(state), version)
            for partition, (state, version) in changes.items()
        ]
        results = await self.write(operations)
        written = {
            partition: _written(changes[partition][0], result)
            for partition, result in zip(changes, results, strict=True)
        }
        return await self._was_that_me(changes, written, BadVersion)

    async def create_states(
        self, states: Mapping[TopicPartition, PartitionState]
    ) -> dict[TopicPartition, StateWritten]:
        """Make the znodes of new partitions; what is there is never overwritten (B041)."""
        folders = dict.fromkeys(PartitionsZNode.path(each.topic) for each in states)
        operations: list[Operation] = [Create(path) for path in folders]
        operations += [Create(PartitionZNode.path(each)) for each in states]
        begin = len(operations)
        operations += [
            Create(PartitionStateZNode.path(partition), PartitionStateZNode.encode(state))
            for partition, state in states.items()
        ]
        results = (await self.write(operations))[begin:]
        written = {
            partition: _written(states[partition], result)
            for partition, result in zip(states, results, strict=True)
        }
        wanted = {partition: (state, 0) for partition, state in states.items()}
        return await self._was_that_me(wanted, written, NodeExists)

    async def _was_that_me(
        self,
        wanted: Mapping[TopicPartition, StateWrite],
        written: dict[TopicPartition, StateWritten],
        refusal: type[KeeperError],
    ) -> dict[TopicPartition, StateWritten]:
        refused = [each for each, result in written.items() if isinstance(result, refusal)]
        if refused:
            found = await self.read_states(refused)
            written |= {
                partition: read
                for partition, read in found.items()
                if isinstance(read, Leadership) and _says(read, wanted[partition][0])
            }
        return written

    # --- the rest -------------------------------------------------------------------------------

    async def unclean_topics(
        self, topics: Iterable[str], broker: BrokerId, *, default: bool
    ) -> set[str]:
        """Which of these may elect a replica that is not in sync: by topic or by broker (B062)."""
        asked = list(topics)
        entities = [
            ConfigEntity(ConfigEntityType.BROKERS, str(broker)),
            ConfigEntity(ConfigEntityType.BROKERS, DEFAULT_ENTITY),
            *(ConfigEntity(ConfigEntityType.TOPICS, topic) for topic in asked),
        ]
        znodes = await self.keeper.read([ConfigEntityZNode.path(each) for each in entities])
        configs = [self._config(*pair) for pair in zip(entities, znodes, strict=True)]
        of_broker = configs[0].get(UNCLEAN, configs[1].get(UNCLEAN, str(default).lower()))
        return {
            topic
            for topic, config in zip(asked, configs[2:], strict=True)
            if config.get(UNCLEAN, of_broker) == "true"
        }

    def _config(self, entity: ConfigEntity, znode: ZNode | KeeperError) -> dict[str, str]:
        if isinstance(znode, KeeperError):
            return {}
        return self.decoded(ConfigEntityZNode.decode, entity, znode.data) or {}

    async def children(self, folder: str, watch: Receiver) -> tuple[str, ...]:
        """The names in a folder, watched; a folder that somebody removed is made again, empty."""
        return await children_of(self.keeper, folder, watch)

    async def read_watched(
        self, paths: Sequence[str], watch: Receiver
    ) -> list[ZNode | KeeperError]:
        """Many znodes, each watched from the moment it was read."""
        return await self.keeper.read_watched(paths, watch)

    def decoded(self, decode: Callable[..., Value], *arguments: object) -> Value | None:
        """What a znode says; a malformed one is reported and counts as nothing."""
        try:
            return decode(*arguments)
        except MalformedZNode as error:
            self.skip(error)
            return None

    def skip(self, error: MalformedZNode) -> None:
        """Report a znode that nobody can read, and go on."""
        self._trace(ZNodeSkipped(error.path, error.reason))


def _written(state: PartitionState, result: Written | KeeperError) -> StateWritten:
    if isinstance(result, KeeperError):
        return result
    assert result.stat is not None, "a write answers a stat"
    return Leadership.of(state, result.stat.version)


def _says(found: Leadership, state: PartitionState) -> bool:
    return found == Leadership.of(state, found.partition_epoch)
