"""One suite for both keepers: what the simulated one does is what a real server does."""

import asyncio
from contextlib import AsyncExitStack
from random import Random

import pytest
from kazoo.client import KazooClient

from runtime.keeper import (
    BadArguments,
    BadVersion,
    Change,
    Check,
    CheckFailed,
    Create,
    Delete,
    KeeperError,
    KeeperSessionLost,
    MultiFailed,
    NoChildrenForEphemerals,
    NodeExists,
    NoNode,
    NotEmpty,
    SessionEvent,
    SessionState,
    Set,
    WatchEvent,
    Written,
    ZNode,
)
from runtime.simulation.keeper import SimulatedKeeper
from runtime.simulation.loop import SimulatedLoop
from runtime.simulation.zookeeper import SimulatedZooKeeper
from runtime.tampering import Refusal
from runtime.tracing import Trace
from runtime.zookeeper import ZooKeeper
from tests.support.mailbox import Mailbox
from tests.support.zookeeper import Proxy

SESSION_MS = 1_000
CONNECTED, SUSPENDED, EXPIRED = (
    SessionState.CONNECTED,
    SessionState.SUSPENDED,
    SessionState.EXPIRED,
)


class SimulatedLab:
    def __init__(self) -> None:
        self._server = SimulatedZooKeeper(Random(7), session_timeout_ms=SESSION_MS)
        self._count = 0

    async def keeper(self):
        self._count += 1
        trace = Trace(now_s=lambda: 0, epoch_us=0)
        keeper = SimulatedKeeper(f"node-{self._count}", self._server, trace.at("test"))
        await keeper.start()
        return keeper

    async def expire(self, keeper):
        self._server.expire(keeper.node)

    def break_connection(self, keeper):
        self._server.disconnect(keeper.node)

    def cut(self, keeper):
        self._server.cut(keeper.node)
        self._server.disconnect(keeper.node)

    def heal(self, keeper):
        self._server.heal(keeper.node)

    def lose_reply(self, keeper):
        self._server.lose_reply(keeper.node)


class RealLab:
    def __init__(self, server, stack) -> None:
        self._server = server
        self._stack = stack
        self._chroot = server.chroot()
        self._proxies = {}
        self._keepers = []

    async def keeper(self):
        proxy = await self._stack.enter_async_context(Proxy(self._server.port))
        trace = Trace(now_s=lambda: 0, epoch_us=0)
        hosts = f"127.0.0.1:{proxy.port}{self._chroot}"
        keeper = ZooKeeper(hosts, trace.at("test"), session_timeout_ms=SESSION_MS)
        self._proxies[keeper] = proxy
        await keeper.start()
        self._stack.push_async_callback(keeper.close)
        return keeper

    async def expire(self, keeper):
        # A second client that takes over the session and closes it.
        identity = keeper._session.client.client_id

        def take_over():
            thief = KazooClient(self._server.hosts, client_id=identity)
            thief.start()
            thief.stop()
            thief.close()

        await asyncio.to_thread(take_over)

    def break_connection(self, keeper):
        self._proxies[keeper].break_connections()

    def cut(self, keeper):
        self._proxies[keeper].cut()

    def heal(self, keeper):
        self._proxies[keeper].heal()

    def lose_reply(self, keeper):
        self._proxies[keeper].lose_reply()


@pytest.fixture
async def lab(request):
    if isinstance(asyncio.get_running_loop(), SimulatedLoop):
        yield SimulatedLab()
        return
    async with AsyncExitStack() as stack:
        yield RealLab(request.getfixturevalue("zookeeper"), stack)


@pytest.fixture
async def keeper(lab):
    return await lab.keeper()


@pytest.fixture
async def other(lab):
    return await lab.keeper()


# --- znodes and versions -------------------------------------------------------------------------


async def test_a_new_znode_has_version_0_and_the_data_it_was_given(lab, keeper):
    written = await keeper.create("/a", b"x")

    data, stat = await keeper.get("/a")

    assert written.path == "/a"
    assert written.stat == stat
    assert (data, stat.version, stat.ephemeral_owner, stat.data_length) == (b"x", 0, 0, 1)
    assert 0 < stat.czxid == stat.mzxid == stat.pzxid


async def test_a_set_raises_the_version_by_one_and_keeps_the_creation_zxid(lab, keeper):
    created = (await keeper.create("/a", b"x")).stat

    stat = await keeper.set("/a", b"y", version=0)

    assert stat.version == 1
    assert stat.czxid == created.czxid < stat.mzxid
    assert (await keeper.get("/a")).data == b"y"


async def test_a_write_with_the_wrong_version_changes_nothing(lab, keeper):
    await keeper.create("/a", b"x")

    with pytest.raises(BadVersion) as refused:
        await keeper.set("/a", b"y", version=3)
    with pytest.raises(BadVersion):
        await keeper.delete("/a", version=3)

    assert refused.value.path == "/a"
    assert (await keeper.get("/a")).data == b"x"


async def test_a_missing_znode_is_named_by_what_was_asked_of_it(lab, keeper):
    with pytest.raises(NoNode):
        await keeper.get("/a")
    with pytest.raises(NoNode):
        await keeper.set("/a", b"")
    with pytest.raises(NoNode):
        await keeper.delete("/a")
    with pytest.raises(NoNode):
        await keeper.children("/a")
    with pytest.raises(NoNode):
        await keeper.create("/a/b")
    assert await keeper.exists("/a") is None


async def test_a_znode_is_created_once(lab, keeper):
    await keeper.create("/a", b"x")

    with pytest.raises(NodeExists):
        await keeper.create("/a", b"y")

    assert (await keeper.get("/a")).data == b"x"


async def test_a_znode_with_children_is_not_deleted(lab, keeper):
    await keeper.create("/a")
    await keeper.create("/a/b")

    with pytest.raises(NotEmpty):
        await keeper.delete("/a")
    await keeper.delete("/a/b")
    await keeper.delete("/a")

    assert await keeper.exists("/a") is None


async def test_children_are_sorted_and_their_changes_counted(lab, keeper):
    await keeper.create("/a")
    for name in ("c", "b", "d"):
        await keeper.create(f"/a/{name}")
    await keeper.delete("/a/b")
    last = (await keeper.create("/a/e")).stat

    stat = await keeper.exists("/a")

    assert await keeper.children("/a") == ("c", "d", "e")
    assert (stat.num_children, stat.cversion, stat.version) == (3, 5, 0)
    assert stat.pzxid == last.czxid


async def test_sequence_numbers_have_ten_digits_and_are_not_used_again(lab, keeper):
    await keeper.create("/a")
    first = await keeper.create("/a/n_", sequential=True)
    second = await keeper.create("/a/n_", sequential=True)
    await keeper.delete(second.path)

    third = await keeper.create("/a/n_", sequential=True)

    assert [first.path, second.path, third.path] == [
        "/a/n_0000000000",
        "/a/n_0000000001",
        "/a/n_0000000002",
    ]


@pytest.mark.parametrize(
    "path", ["", "a", "/a/", "//a", "/a//b", "/a/./b", "/a/..", "/\x00", "/\n"]
)
async def test_a_path_that_no_znode_can_have_is_refused(lab, keeper, path):
    with pytest.raises(BadArguments):
        await keeper.create(path)
    with pytest.raises(BadArguments):
        await keeper.read(["/", path])


async def test_data_over_the_limit_is_refused_and_the_session_lives(lab, keeper):
    with pytest.raises(BadArguments):
        await keeper.create("/a", b"x" * 1_100_000)

    assert await keeper.exists("/a") is None


# --- ephemerals ----------------------------------------------------------------------------------


async def test_an_ephemeral_znode_names_its_owner_and_has_no_children(lab, keeper):
    stat = (await keeper.create("/a", ephemeral=True)).stat

    assert stat.ephemeral_owner == keeper.session_id != 0
    with pytest.raises(NoChildrenForEphemerals):
        await keeper.create("/a/b")


async def test_ephemerals_go_when_their_session_is_closed(lab, keeper, other):
    await keeper.create("/a", ephemeral=True)
    mailbox = Mailbox()
    await other.exists("/a", watch=mailbox)

    await keeper.close()

    assert await mailbox.next() == WatchEvent(Change.DELETED, "/a", 1)
    assert await other.exists("/a") is None


async def test_ephemerals_of_a_killed_client_stay_until_its_session_times_out(lab, keeper, other):
    await keeper.create("/a", ephemeral=True)
    mailbox = Mailbox()
    await other.exists("/a", watch=mailbox)

    keeper.abandon()

    assert await other.exists("/a") is not None
    assert await mailbox.next() == WatchEvent(Change.DELETED, "/a", 1)


# --- watches -------------------------------------------------------------------------------------


async def test_a_data_watch_fires_once_for_the_first_of_two_changes(lab, keeper, other):
    await keeper.create("/a")
    mailbox = Mailbox()
    await other.get("/a", watch=mailbox)

    await keeper.set("/a", b"1")
    await keeper.set("/a", b"2")
    await other.get("/a")

    assert await mailbox.next() == WatchEvent(Change.CHANGED, "/a", 1)
    assert len(mailbox.messages) == 1


async def test_an_exists_watch_fires_when_the_znode_comes(lab, keeper, other):
    mailbox = Mailbox()
    assert await other.exists("/a", watch=mailbox) is None

    await keeper.create("/a")

    assert await mailbox.next() == WatchEvent(Change.CREATED, "/a", 1)


async def test_a_child_watch_fires_for_names_and_not_for_data(lab, keeper, other):
    await keeper.create("/a")
    await keeper.create("/a/b")
    mailbox = Mailbox()
    await other.children("/a", watch=mailbox)

    await keeper.set("/a/b", b"x")
    await keeper.set("/a", b"x")
    await keeper.delete("/a/b")

    assert await mailbox.next() == WatchEvent(Change.CHILDREN, "/a", 1)
    await other.children("/a")
    assert len(mailbox.messages) == 1


async def test_a_deletion_is_told_once_to_one_who_watches_data_and_children(lab, keeper, other):
    await keeper.create("/a")
    mailbox = Mailbox()
    await other.get("/a", watch=mailbox)
    await other.children("/a", watch=mailbox)

    await keeper.delete("/a")

    assert await mailbox.next() == WatchEvent(Change.DELETED, "/a", 1)
    await other.exists("/a")
    assert len(mailbox.messages) == 1


async def test_each_of_two_receivers_is_told_and_one_that_asked_twice_is_told_once(
    lab, keeper, other
):
    await keeper.create("/a")
    first, second = Mailbox(), Mailbox()
    await other.get("/a", watch=first)
    await other.get("/a", watch=first)
    await other.exists("/a", watch=second)

    await keeper.set("/a", b"x")
    await other.get("/a")

    await first.next()
    await second.next()
    assert (len(first.messages), len(second.messages)) == (1, 1)


async def test_a_get_of_a_missing_znode_sets_no_watch(lab, keeper, other):
    mailbox = Mailbox()
    with pytest.raises(NoNode):
        await other.get("/a", watch=mailbox)

    await keeper.create("/a")
    await other.get("/a")

    assert mailbox.messages == []


async def test_an_event_arrives_before_any_reply_that_shows_the_newer_state(lab, keeper, other):
    await keeper.create("/a", b"0")
    for round_ in range(30):
        mailbox = Mailbox()
        await other.get("/a", watch=mailbox)
        write = asyncio.ensure_future(keeper.set("/a", b"%d" % (round_ + 1)))
        while (await other.get("/a")).data != b"%d" % (round_ + 1):
            pass
        assert len(mailbox.messages) == 1, "the newer state was seen before the event"
        await write


# --- transactions --------------------------------------------------------------------------------


async def test_a_multi_does_all_of_its_operations_with_one_zxid(lab, keeper):
    await keeper.create("/a")
    await keeper.create("/old")

    done = await keeper.multi(
        [
            Check("/a", 0),
            Set("/a", b"x", 0),
            Create("/a/b", b"y"),
            Create("/a/s", sequential=True),
            Delete("/old"),
        ]
    )

    assert [written.path for written in done] == ["/a", "/a", "/a/b", "/a/s0000000001", "/old"]
    assert done[1].stat.mzxid == done[2].stat.czxid == done[3].stat.czxid
    assert await keeper.exists("/old") is None


@pytest.mark.parametrize(
    ("bad", "error"),
    [
        (Check("/a", 7), BadVersion),
        (Set("/a", b"y", 7), BadVersion),
        (Create("/a"), NodeExists),
        (Delete("/nowhere"), NoNode),
        (Create("/nowhere/b"), NoNode),
    ],
)
async def test_a_multi_with_a_failing_operation_changes_nothing(lab, keeper, bad, error):
    stat = (await keeper.create("/a", b"x")).stat

    with pytest.raises(MultiFailed) as failed:
        await keeper.multi([Set("/a", b"z"), Create("/a/c"), Create("/d"), bad, Create("/e")])

    assert (failed.value.index, type(failed.value.error)) == (3, error)
    assert await keeper.get("/a") == ZNode(b"x", stat)
    assert await keeper.exists("/d") is None


async def test_an_operation_of_a_multi_sees_what_the_ones_before_it_did(lab, keeper):
    await keeper.multi([Create("/a"), Create("/a/b"), Set("/a/b", b"x", 0), Check("/a/b", 1)])

    assert (await keeper.get("/a/b")).data == b"x"


# --- bulk ----------------------------------------------------------------------------------------


async def test_a_bulk_read_answers_in_order_and_names_what_is_missing(lab, keeper):
    await keeper.create("/a")
    await keeper.write([Create(f"/a/{number}", b"%d" % number) for number in range(0, 2_500, 2)])

    answers = await keeper.read([f"/a/{number}" for number in range(2_500)])

    assert [answer.data for answer in answers[::2]] == [b"%d" % n for n in range(0, 2_500, 2)]
    assert all(isinstance(answer, NoNode) for answer in answers[1::2])
    assert answers[1].path == "/a/1"


async def test_a_bulk_read_and_write_of_nothing_is_nothing(lab, keeper):
    assert await keeper.read([]) == []
    assert await keeper.write([]) == []
    assert await keeper.multi([]) == []


async def test_a_bulk_write_with_one_failing_member_writes_the_others(lab, keeper):
    await keeper.create("/a")
    await keeper.create("/a/1700", b"mine")

    results = await keeper.write([Create(f"/a/{number}") for number in range(2_500)])

    assert isinstance(results[1700], NodeExists)
    assert all(isinstance(result, Written) for i, result in enumerate(results) if i != 1700)
    assert (await keeper.exists("/a")).num_children == 2_500
    assert (await keeper.get("/a/1700")).data == b"mine"


async def test_a_bulk_write_with_many_failing_members_reports_each(lab, keeper):
    await keeper.create("/a")
    await keeper.write([Create(f"/a/{number}") for number in range(0, 60, 3)])

    results = await keeper.write([Create(f"/a/{number}") for number in range(60)])

    failed = [index for index, result in enumerate(results) if isinstance(result, NodeExists)]
    assert failed == list(range(0, 60, 3))
    assert (await keeper.exists("/a")).num_children == 60


async def test_a_bulk_write_keeps_the_order_of_its_operations(lab, keeper):
    depth = 1_200  # more than a batch, and each needs the one before
    await keeper.create("/a")
    operations = [Set("/a", b"%d" % number, number) for number in range(depth)]

    results = await keeper.write(operations)

    assert [result.stat.version for result in results] == list(range(1, depth + 1))


async def test_a_bulk_write_is_split_by_bytes_too(lab, keeper):
    await keeper.create("/a")

    results = await keeper.write([Create(f"/a/{n}", bytes(200_000)) for n in range(12)])

    assert all(isinstance(result, Written) for result in results)
    assert (await keeper.read(["/a/11"]))[0].stat.data_length == 200_000


async def test_nothing_is_written_after_the_check_of_a_bulk_write_fails(lab, keeper):
    await keeper.create("/epoch")
    await keeper.create("/a")
    await keeper.set("/epoch", b"somebody else")

    with pytest.raises(CheckFailed):
        await keeper.write([Create(f"/a/{n}") for n in range(1_500)], check=Check("/epoch", 0))

    assert await keeper.children("/a") == ()
    written = await keeper.write([Create("/a/b"), Create("/a/b")], check=Check("/epoch", 1))
    assert [type(result) for result in written] == [Written, NodeExists]


# --- connection and session ----------------------------------------------------------------------


async def test_a_broken_connection_is_told_and_the_session_goes_on(lab, keeper, other):
    mailbox = Mailbox()
    keeper.listen(mailbox)
    await keeper.create("/a", ephemeral=True)
    session = keeper.session_id

    lab.break_connection(keeper)
    assert await mailbox.next() == SessionEvent(SUSPENDED, 1)
    assert (await keeper.get("/a")).stat.ephemeral_owner == session

    assert await mailbox.next() == SessionEvent(CONNECTED, 1)
    assert keeper.session_id == session


async def test_a_write_that_was_applied_and_whose_reply_is_lost_is_sent_again(lab, keeper, other):
    await keeper.create("/a", b"0")
    lab.lose_reply(keeper)

    with pytest.raises(BadVersion):  # B021: applied once, reported failed
        await keeper.set("/a", b"1", version=0)

    assert await other.get("/a") == await keeper.get("/a")
    assert (await other.get("/a")).data == b"1"


async def test_a_create_whose_reply_is_lost_finds_its_own_znode(lab, keeper):
    lab.lose_reply(keeper)

    with pytest.raises(NodeExists):
        await keeper.create("/a", b"mine", ephemeral=True)

    assert (await keeper.get("/a")).stat.ephemeral_owner == keeper.session_id


async def test_a_request_waits_for_the_connection_to_come_back(lab, keeper, other):
    mailbox = Mailbox()
    keeper.listen(mailbox)
    await keeper.create("/a", b"x")
    lab.cut(keeper)
    while await mailbox.next() != SessionEvent(SUSPENDED, 1):
        pass  # on a machine that stood still, an earlier connection may have broken and come back

    read = asyncio.ensure_future(keeper.get("/a"))
    await other.get("/a")
    assert not read.done()
    lab.heal(keeper)

    assert (await read).data == b"x"


async def test_watches_outlive_a_broken_connection_and_tell_what_was_missed(lab, keeper, other):
    for path in ("/changed", "/deleted", "/parent", "/same"):
        await keeper.create(path)
    mailbox, states = Mailbox(), Mailbox()
    keeper.listen(states)
    for path in ("/changed", "/deleted", "/same"):
        await keeper.get(path, watch=mailbox)
    await keeper.exists("/created", watch=mailbox)
    await keeper.exists("/never", watch=mailbox)
    await keeper.children("/parent", watch=mailbox)

    lab.cut(keeper)
    assert await states.next() == SessionEvent(SUSPENDED, 1)
    await other.set("/changed", b"x")
    await other.delete("/deleted")
    await other.create("/created")
    await other.create("/parent/child")
    lab.heal(keeper)
    await keeper.get("/")  # a reply after the reconnection: the events are here by now

    assert {(event.change, event.path) for event in mailbox.messages} == {
        (Change.CHANGED, "/changed"),
        (Change.DELETED, "/deleted"),
        (Change.CREATED, "/created"),
        (Change.CHILDREN, "/parent"),
    }
    await other.set("/same", b"x")
    await other.create("/never")
    await keeper.get("/same")
    assert {(event.change, event.path) for event in mailbox.messages[4:]} == {
        (Change.CHANGED, "/same"),
        (Change.CREATED, "/never"),
    }


async def test_an_expired_session_takes_its_ephemerals_and_is_not_mended_by_itself(
    lab, keeper, other
):
    mailbox = Mailbox()
    keeper.listen(mailbox)
    await keeper.create("/a", ephemeral=True)
    await keeper.create("/b")

    await lab.expire(keeper)
    await mailbox.until(SessionEvent(EXPIRED, 1))

    assert keeper.state is EXPIRED
    with pytest.raises(KeeperSessionLost):
        await keeper.get("/b")
    assert await other.exists("/a") is None


async def test_a_renewed_keeper_has_a_new_session_and_no_watch_of_the_old_one(lab, keeper, other):
    states, mailbox = Mailbox(), Mailbox()
    keeper.listen(states)
    await keeper.create("/b")
    await keeper.get("/b", watch=mailbox)
    before = keeper.session_id
    await lab.expire(keeper)
    await states.until(SessionEvent(EXPIRED, 1))

    await keeper.renew()
    await other.set("/b", b"x")

    assert (keeper.session, keeper.previous_session_id) == (2, before)
    assert keeper.session_id not in {0, before}
    assert (await keeper.get("/b", watch=mailbox)).data == b"x"
    assert mailbox.messages == []
    await other.set("/b", b"y")
    assert await mailbox.next() == WatchEvent(Change.CHANGED, "/b", 2)


async def test_a_request_that_waits_when_the_session_ends_fails(lab, keeper):
    states = Mailbox()
    keeper.listen(states)
    lab.cut(keeper)
    await states.until(SessionEvent(SUSPENDED, 1))
    waiting = asyncio.ensure_future(keeper.get("/"))
    await asyncio.sleep(0)

    keeper.abandon()

    with pytest.raises(KeeperSessionLost):
        await waiting


async def test_a_closed_keeper_answers_nothing_more(lab, keeper):
    await keeper.close()
    await keeper.close()

    with pytest.raises(KeeperSessionLost):
        await keeper.get("/")
    assert keeper.state is SessionState.CLOSED


# --- reads with watches --------------------------------------------------------------------------


async def test_a_watched_read_answers_in_order_and_names_what_is_missing(lab, keeper):
    for name in "abc":
        await keeper.create(f"/{name}", name.encode())

    found = await keeper.read_watched(["/c", "/missing", "/a", "/c"], Mailbox())

    assert [each.data for each in found if isinstance(each, ZNode)] == [b"c", b"a", b"c"]
    assert isinstance(found[1], NoNode)
    assert await keeper.read_watched([], Mailbox()) == []


async def test_a_watched_read_sets_a_watch_on_each_znode_that_is_there(lab, keeper, other):
    mailbox = Mailbox()
    await keeper.create("/a", b"")
    await keeper.create("/b", b"")
    await keeper.read_watched(["/a", "/missing", "/b"], mailbox)

    await other.create("/missing", b"")
    await other.delete("/b")
    await other.set("/a", b"new")
    await other.set("/a", b"newer")
    await mailbox.until(WatchEvent(Change.CHANGED, "/a", 1))
    await keeper.get("/a")  # what the server told before this answer has come

    assert mailbox.messages == [
        WatchEvent(Change.DELETED, "/b", 1),
        WatchEvent(Change.CHANGED, "/a", 1),
    ]


async def test_a_watched_read_in_a_session_that_is_gone_is_no_list_of_errors(lab, keeper):
    await keeper.create("/a", b"")
    await keeper.close()

    with pytest.raises(KeeperSessionLost):
        await keeper.read_watched(["/a", "/missing"], Mailbox())


# --- faults ---------------------------------------------------------------------------------------


async def test_what_is_refused_on_purpose_fails_so_often_and_nothing_is_done(lab, keeper):
    await keeper.create("/refused", b"as it was")
    keeper.watch_tamper.refusals.append(Refusal("/refu", 3))

    for ask in (
        keeper.get("/refused"),
        keeper.read(["/refused", "/other"]),
        keeper.set("/refused", b"changed"),
    ):
        with pytest.raises(KeeperError, match="on purpose"):
            await ask

    assert (await keeper.get("/refused")).data == b"as it was"


async def test_what_is_refused_of_one_path_is_not_of_another(lab, keeper):
    await keeper.create("/other")
    keeper.watch_tamper.refusals.append(Refusal("/refused", 1))

    (znode,) = await keeper.read(["/other"])

    assert isinstance(znode, ZNode)
