"""What the real world can break on purpose: sessions, links to ZooKeeper, links between nodes."""

import asyncio
import time

import pytest

from runtime.keeper import SessionEvent, SessionState
from runtime.network import CallTimedOut, Endpoint, Incoming, MemoryTransport
from runtime.tracing import Trace
from runtime.zookeeper import ZooKeeper
from tests.support.mailbox import Mailbox

SESSION_MS = 1_000
TRACE = Trace(now_s=time.perf_counter, epoch_us=0, recording=False)


@pytest.fixture
def hosts(zookeeper) -> str:
    return zookeeper.hosts + zookeeper.chroot()


@pytest.fixture
async def keeper(hosts):
    keeper = ZooKeeper(hosts, TRACE.at("node"), session_timeout_ms=SESSION_MS)
    await keeper.start()
    yield keeper
    await keeper.close()


@pytest.fixture
async def has_gone(hosts, keeper):
    """Waits until the server has ended the keeper's session: what was ephemeral is gone."""
    await keeper.create("/alive", ephemeral=True)
    other = ZooKeeper(hosts, TRACE.at("other"), session_timeout_ms=60_000)
    await other.start()
    events = Mailbox()
    await other.exists("/alive", watch=events)

    async def wait() -> None:
        async with asyncio.timeout(30):
            await events.next()

    yield wait
    await other.close()


@pytest.fixture
def states(keeper) -> Mailbox:
    mailbox = Mailbox()
    keeper.listen(mailbox)
    return mailbox


async def until(states: Mailbox, state: SessionState) -> None:
    async with asyncio.timeout(30):
        while await states.next() != SessionEvent(state, 1):
            pass


async def test_a_session_that_somebody_else_closes_has_expired(keeper, states):
    await keeper.create("/mine", ephemeral=True)

    await keeper.expire()
    await until(states, SessionState.EXPIRED)
    await keeper.renew()

    assert await keeper.exists("/mine") is None


async def test_a_keeper_that_stands_still_loses_its_session(keeper, states, has_gone):
    keeper.pause()
    pending = asyncio.ensure_future(keeper.exists("/"))
    await has_gone()
    assert not pending.done()

    keeper.resume()
    await until(states, SessionState.EXPIRED)
    await asyncio.wait([pending])
    assert pending.exception() is not None


async def test_a_keeper_that_stands_still_for_a_moment_goes_on(keeper):
    keeper.pause()
    pending = asyncio.ensure_future(keeper.exists("/"))
    await asyncio.sleep(0)
    keeper.resume()

    assert await pending is not None


async def test_a_cut_link_is_noticed_and_the_session_ends(keeper, states, has_gone):
    keeper.cut()
    await until(states, SessionState.SUSPENDED)
    await has_gone()

    keeper.mend()
    await until(states, SessionState.EXPIRED)


async def test_a_link_that_is_mended_in_time_costs_nothing(keeper):
    keeper.cut()
    pending = asyncio.ensure_future(keeper.create("/a", b"x"))
    await asyncio.sleep(0)
    keeper.mend()

    await pending
    assert (await keeper.get("/a")).data == b"x"


@pytest.mark.parametrize("fault", [ZooKeeper.pause, ZooKeeper.cut], ids=["paused", "cut"])
async def test_a_keeper_can_be_closed_whatever_is_wrong_with_its_link(zookeeper, fault):
    keeper = ZooKeeper(
        zookeeper.hosts + zookeeper.chroot(), TRACE.at("node"), session_timeout_ms=60_000
    )
    await keeper.start()
    fault(keeper)

    async with asyncio.timeout(10):
        await keeper.close()


class Echo:
    def tell(self, message: Incoming) -> None:
        message.reply(message.payload)


async def test_what_is_sent_over_a_cut_link_is_lost_until_it_is_mended():
    transport = MemoryTransport()
    cut: set[str] = set()
    here = Endpoint("a", transport, TRACE.at("a"), unreachable=cut)
    there = Endpoint("b", transport, TRACE.at("b"))
    there.serve(Echo())

    cut.add("b")
    with pytest.raises(CallTimedOut):
        await here.call("b", b"lost", timeout_ms=20)
    cut.clear()

    assert bytes(await here.call("b", b"heard", timeout_ms=5_000)) == b"heard"
