"""Followers that catch up at the same time: each joins the ISR, one write at a time (B121)."""

import asyncio

import pytest

from actors.broker import in_sync
from tests.support.drive import Drive
from tests.support.states import state
from wire.data import Fetch, FetchPartition, FetchResponse
from wire.errors import ErrorCode
from wire.trace import IsrChanged


@pytest.fixture
async def drive(sim, monkeypatch):
    """A leader alone in the ISR, whose writes to ZooKeeper take a while."""
    write_isrs = in_sync.write_isrs

    async def write_slowly(world, wanted):
        await sim.sleep(200)
        return await write_isrs(world, wanted)

    drive = await Drive.start(sim)
    orders = await drive.create("orders", [2, 1, 3])
    for lagging in (1, 3):
        drive.shrink(lagging, orders)
        await drive.settle()
    assert drive.state("orders") == state(2, 0, 2)
    monkeypatch.setattr(in_sync, "write_isrs", write_slowly)
    drive.forget()
    return drive


async def follow(drive, by: int) -> None:
    """Fetch as a follower that has all, and whom nothing makes ask again for a long time."""
    orders = drive.context.partitions_of("orders")[0]
    wanted = FetchPartition(
        partition=orders, fetch_offset=0, max_bytes=1, current_leader_epoch=0, log_start_offset=0
    )
    request = Fetch(replica_id=by, max_wait_ms=0, min_bytes=1, max_bytes=1, partitions=(wanted,))
    (result,) = (await drive.ask(2, request, FetchResponse)).partitions
    assert result.error_code is ErrorCode.NONE


async def test_who_catches_up_while_another_is_being_written_joins_next(drive):
    await asyncio.gather(follow(drive, 1), follow(drive, 3))
    await drive.sim.sleep(1_000)

    assert set(drive.state("orders").isr) == {1, 2, 3}
    assert [len(each.isr.split(",")) for each in drive.of(IsrChanged)] == [2, 3]


async def test_who_was_left_out_does_not_join_because_somebody_else_does(drive):
    await follow(drive, 1)
    await drive.sim.sleep(1_000)

    assert drive.state("orders").isr == (2, 1)
