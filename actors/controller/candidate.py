"""How a broker becomes the controller.

Rule: one transaction makes `/controller` and raises `/controller_epoch`, or does neither (B004). If
it is refused it may still have been ours, its answer lost: it was, if the znode names us and the
epoch is the one we tried to write (B005).
"""

from contextlib import suppress

from runtime.keeper import (
    BadVersion,
    Check,
    Create,
    Delete,
    Keeper,
    MultiFailed,
    NodeExists,
    NoNode,
    Set,
    ZNode,
)
from runtime.ref import Receiver
from runtime.tracing import NodeTrace
from wire.errors import ControllerMoved, MalformedZNode
from wire.ids import INITIAL_CONTROLLER_EPOCH, NO_BROKER, BrokerId, ControllerEpoch
from wire.trace import ZNodeSkipped
from wire.znodes import ControllerEpochZNode, ControllerRegistration, ControllerZNode

SOMEBODY = BrokerId(-2)  # the znode is there, but nobody can read whose it is


async def holder(keeper: Keeper, watch: Receiver, trace: NodeTrace) -> BrokerId:
    """Who is the controller; the end of its reign, or the beginning of one, is watched.

    Where nobody can read whose reign it is, nobody reigns: whoever did resigns, and waits like all
    others until the znode is another one.
    """
    path = ControllerZNode.path()
    while await keeper.exists(path, watch=watch) is not None:
        try:
            return ControllerZNode.decode((await keeper.get(path)).data).broker
        except NoNode:
            continue  # it went between the two: the watch has told, and is set again
        except MalformedZNode as error:
            trace(ZNodeSkipped(error.path, error.reason))
            return SOMEBODY
    return NO_BROKER


async def register(keeper: Keeper, me: BrokerId, now_ms: int) -> tuple[ControllerEpoch, int]:
    """Win the election, or raise ControllerMoved; the new epoch and its znode's version."""
    current = await _epoch(keeper)
    epoch = ControllerEpoch(ControllerEpochZNode.decode(current.data) + 1)
    registration = ControllerRegistration(broker=me, timestamp_ms=now_ms)
    create = Create(ControllerZNode.path(), ControllerZNode.encode(registration), ephemeral=True)
    path, data = ControllerEpochZNode.path(), ControllerEpochZNode.encode(epoch)
    try:
        _, written = await keeper.multi([create, Set(path, data, current.stat.version)])
    except MultiFailed as failure:
        if isinstance(failure.error, NodeExists | BadVersion):
            return epoch, await _was_it_me(keeper, me, epoch)
        raise failure.error from failure
    assert written.stat is not None, "a set answers a stat"
    return epoch, written.stat.version


async def is_mended(keeper: Keeper, watch: Receiver) -> bool:
    """Whether an epoch that nobody could read can be read by now; else its change is watched."""
    try:
        ControllerEpochZNode.decode(
            (await keeper.get(ControllerEpochZNode.path(), watch=watch)).data
        )
    except MalformedZNode:
        return False
    except NoNode:
        pass
    return True


async def remove(keeper: Keeper, epoch_version: int) -> None:
    """Give the office away, unless another one has it already (B010)."""
    check = Check(ControllerEpochZNode.path(), epoch_version)
    try:
        await keeper.multi([check, Delete(ControllerZNode.path())])
    except MultiFailed as failure:
        if isinstance(failure.error, BadVersion):
            await _remove_mine(keeper)
        elif not isinstance(failure.error, NoNode):
            raise failure.error from failure


async def _remove_mine(keeper: Keeper) -> None:
    """The epoch is not mine, but the office still is: a stranger wrote the epoch."""
    path = ControllerZNode.path()
    stat = await keeper.exists(path)
    if stat is not None and stat.ephemeral_owner == keeper.session_id:
        with suppress(NoNode, BadVersion):
            await keeper.delete(path, version=stat.version)


async def _epoch(keeper: Keeper) -> ZNode:
    """The epoch's znode, made with 0 if the cluster is new (B002)."""
    path = ControllerEpochZNode.path()
    while True:
        try:
            return await keeper.get(path)
        except NoNode:
            try:
                await keeper.create(path, ControllerEpochZNode.encode(INITIAL_CONTROLLER_EPOCH))
            except NodeExists:
                continue


async def _was_it_me(keeper: Keeper, me: BrokerId, epoch: ControllerEpoch) -> int:
    moved = ControllerMoved("another broker has become the controller")
    try:
        found = ControllerZNode.decode((await keeper.get(ControllerZNode.path())).data)
        now = await keeper.get(ControllerEpochZNode.path())
    except (NoNode, MalformedZNode):
        raise moved from None
    if found.broker != me or ControllerEpochZNode.decode(now.data) != epoch:
        raise moved
    return now.stat.version
