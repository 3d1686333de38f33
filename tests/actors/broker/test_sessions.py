"""Fetch sessions (KIP-227): what is not named again is followed all the same, come what may."""

import pytest

from actors.broker import readers
from actors.broker.session import Session
from actors.config import BrokerConfig
from tests.support.data import produce
from tests.support.drive import Drive
from tests.support.leader import ORDERS, SALES, tell
from tests.support.orders import order
from wire.data import (
    FINAL_SESSION_EPOCH,
    Fetch,
    FetchPartition,
    FetchResponse,
)
from wire.errors import ErrorCode
from wire.ids import TopicPartition

MIB = 1 << 20

# --- the follower's half -------------------------------------------------------------------------


def wanted(partition, offset=0):
    return FetchPartition(partition=partition, fetch_offset=offset, max_bytes=MIB)


def names(request):
    return [(part.partition.topic, part.fetch_offset) for part in request.partitions]


def session(**config):
    session = Session(BrokerConfig(broker_id=3, **config))
    session.want(wanted(ORDERS))
    session.want(wanted(SALES))
    return session


def test_a_session_begins_with_all_partitions_and_goes_on_with_what_is_new():
    own = session()
    first = own.request()
    assert (first.session_id, first.session_epoch) == (0, 0)
    assert names(first) == [("orders", 0), ("sales", 0)]

    own.answered(7)
    own.want(wanted(SALES, 5))
    second = own.request()
    assert (second.session_id, second.session_epoch, names(second)) == (7, 1, [("sales", 5)])

    own.answered(7)
    third = own.request()
    assert (third.session_epoch, names(third), third.forgotten) == (2, [], ())


def test_what_is_no_longer_wanted_is_named_once_and_never_if_it_was_not_known():
    own = session()
    own.request()
    own.answered(7)
    own.forget(ORDERS)
    own.want(wanted(TopicPartition("new", 0)))
    own.forget(TopicPartition("new", 0))

    request = own.request()

    assert (names(request), request.forgotten) == ([], (ORDERS,))
    own.answered(7)
    assert own.request().forgotten == ()
    assert own.asked_at(ORDERS) is None


def test_what_is_wanted_again_before_the_next_request_was_never_forgotten():
    own = session()
    own.request()
    own.answered(7)
    own.forget(ORDERS)
    own.want(wanted(ORDERS))

    request = own.request()

    assert (names(request), request.forgotten) == ([("orders", 0)], ())


def test_after_trouble_a_session_begins_anew_and_lets_the_former_one_end():
    own = session()
    own.request()
    own.answered(7)
    own.request()
    own.forget(SALES)

    own.reset()
    request = own.request()

    assert (request.session_id, request.session_epoch, request.forgotten) == (7, 0, ())
    assert names(request) == [("orders", 0)]


def test_where_the_leader_has_no_room_for_a_session_all_is_named_each_time():
    own = session()
    for _ in range(3):
        request = own.request()
        assert (request.session_id, request.session_epoch) == (0, 0)
        assert names(request) == [("orders", 0), ("sales", 0)]
        own.answered(0)


@pytest.mark.parametrize("generation", ["high-watermark", "kip-101", "kip-279"])
def test_a_generation_without_epochs_in_its_fetches_has_no_sessions(generation):
    own = session(replication_generation=generation)
    for _ in range(3):
        request = own.request()
        assert request.session_epoch == FINAL_SESSION_EPOCH
        assert names(request) == [("orders", 0), ("sales", 0)]
        own.answered(0)


# --- the leader's half ---------------------------------------------------------------------------


@pytest.fixture
async def drive(sim):
    """Broker 2 leads two partitions, and broker 3 does not know that it follows in them."""
    drive = await Drive.start(sim)
    await tell(drive, 2, order(ORDERS, 2, 4), order(SALES, 2, 4))
    return drive


async def ask(drive, session_id=0, session_epoch=0, *parts, by=3, forgotten=(), wait_ms=0):
    request = Fetch(
        replica_id=by,
        max_wait_ms=wait_ms,
        min_bytes=1,
        max_bytes=MIB,
        partitions=parts,
        session_id=session_id,
        session_epoch=session_epoch,
        forgotten=forgotten,
    )
    return await drive.ask(2, request, FetchResponse)


async def begin(drive, **fields):
    response = await ask(drive, 0, 0, wanted(ORDERS), wanted(SALES), **fields)
    assert response.error_code is ErrorCode.NONE
    return response.session_id


def topics(response):
    return [each.partition.topic for each in response.partitions]


async def test_a_session_is_answered_with_news_alone(drive):
    number = await begin(drive)
    assert number > 0
    assert topics(await ask(drive, number, 1)) == []

    await produce(drive, SALES, b"value", leader=2)
    response = await ask(drive, number, 2)
    assert topics(response) == ["sales"]
    assert response.session_id == number
    assert topics(await ask(drive, number, 3, wanted(SALES, 1))) == []
    assert drive.replica(2, "sales").followers[3].log_end_offset == 1


async def test_records_that_were_not_taken_are_not_sent_again_until_they_are_asked_for(drive):
    number = await begin(drive)
    await produce(drive, SALES, b"value", leader=2)
    assert topics(await ask(drive, number, 1)) == ["sales"]

    assert topics(await ask(drive, number, 2)) == []
    assert topics(await ask(drive, number, 3, wanted(SALES))) == ["sales"]


async def test_a_fetch_that_waits_in_a_session_is_answered_when_something_it_never_named_changes(
    drive,
):
    number = await begin(drive)
    waiting = drive.sim.loop.create_task(ask(drive, number, 1, wait_ms=500))
    await drive.sim.sleep(100)
    assert not waiting.done()

    await produce(drive, ORDERS, b"value", leader=2)

    assert topics(await waiting) == ["orders"]


async def test_partitions_are_added_to_a_session_and_forgotten(drive):
    response = await ask(drive, 0, 0, wanted(ORDERS))
    number = response.session_id
    await produce(drive, ORDERS, b"value", leader=2)
    await produce(drive, SALES, b"value", leader=2)

    response = await ask(drive, number, 1, wanted(SALES), forgotten=(ORDERS,))

    assert topics(response) == ["sales"]
    await produce(drive, ORDERS, b"another", leader=2)
    assert topics(await ask(drive, number, 2)) == []


@pytest.mark.parametrize(
    ("session_id", "by"), [(12345, 3), (None, 1)], ids=["never began", "is another broker's"]
)
async def test_a_session_that_is_not_there_is_refused(drive, session_id, by):
    number = await begin(drive)

    response = await ask(drive, session_id or number, 1, by=by)

    assert response == FetchResponse(error_code=ErrorCode.FETCH_SESSION_ID_NOT_FOUND)


@pytest.mark.parametrize("epoch", [1, 3, 99])
async def test_a_request_that_is_not_the_next_is_refused_and_the_session_goes_on(drive, epoch):
    number = await begin(drive)
    await ask(drive, number, 1)

    response = await ask(drive, number, epoch)

    assert response == FetchResponse(error_code=ErrorCode.INVALID_FETCH_SESSION_EPOCH)
    assert (await ask(drive, number, 2)).error_code is ErrorCode.NONE


async def test_who_comes_when_all_sessions_are_taken_is_served_without_one(drive, monkeypatch):
    monkeypatch.setattr(readers, "MAX_SESSIONS", 1)
    await begin(drive, by=1)
    await produce(drive, SALES, b"value", leader=2)

    response = await ask(drive, 0, 0, wanted(ORDERS), wanted(SALES))

    assert response.session_id == 0
    assert topics(response) == ["orders", "sales"]
    assert [bool(each.records) for each in response.partitions] == [False, True]


async def test_a_session_without_requests_for_two_minutes_makes_room(drive, monkeypatch):
    monkeypatch.setattr(readers, "MAX_SESSIONS", 1)
    idle = await begin(drive, by=1)
    await drive.sim.sleep(120_001)

    assert await begin(drive) > 0

    response = await ask(drive, idle, 1, by=1)
    assert response.error_code is ErrorCode.FETCH_SESSION_ID_NOT_FOUND


async def test_a_followers_next_life_ends_the_session_of_the_former(drive):
    former = await begin(drive)

    number = await begin(drive)

    assert len(drive.node(2).replica_manager.leading.serving.readers) == 1
    response = await ask(drive, former, 1)
    assert response.error_code is ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert (await ask(drive, number, 1)).error_code is ErrorCode.NONE


async def test_sessions_with_other_partitions_live_side_by_side(drive):
    """As the fetchers of a broker with num.replica.fetchers."""
    one = (await ask(drive, 0, 0, wanted(ORDERS))).session_id
    other = (await ask(drive, 0, 0, wanted(SALES))).session_id

    assert (await ask(drive, one, 1)).error_code is ErrorCode.NONE
    assert (await ask(drive, other, 1)).error_code is ErrorCode.NONE
