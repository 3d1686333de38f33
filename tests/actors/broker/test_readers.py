"""Fetch sessions, and whether anybody who reads ever misses anything: B165, I-24, L-7."""

from random import Random

import pytest

from actors.broker.readers import IDLE_MS, MAX_SESSIONS
from actors.broker.serving import FetchOver
from tests.support.data import batch_of, values_in
from tests.support.led import EPOCH, ORDERS, FollowerSession, Led, at
from wire.data import (
    FINAL_SESSION_EPOCH,
    INITIAL_SESSION_EPOCH,
    NO_SESSION,
    Fetch,
    FetchPartition,
    FetchResponse,
)
from wire.errors import ErrorCode
from wire.ids import TopicPartition
from wire.records import batches

NOT_FOUND = ErrorCode.FETCH_SESSION_ID_NOT_FOUND


@pytest.fixture
async def led(sim):
    return await Led.start(sim, isr=[1, 8])


def readers_of(led):
    return led.manager.leading.serving.readers


def is_empty(led):
    return led.waiting == (0, 0) and readers_of(led)._of == {}


# --- sessions ------------------------------------------------------------------------------------


async def test_a_session_is_told_only_what_is_news(sim):
    led = await Led.start(sim, isr=[1, 8], partitions=3)
    session = FollowerSession(led, 8)
    first = await session.fetch(dict.fromkeys(map(at, range(3)), 0))
    await led.produce_to({at(1): batch_of(b"a")}, 1, 0)

    second, third = await session.fetch(), await session.fetch({at(1): 1}, max_wait_ms=100)

    assert sorted(first) == [at(0), at(1), at(2)]
    assert [*second] == [*third] == [at(1)]
    assert (values_in(second[at(1)].records), third[at(1)].high_watermark) == ([b"a"], 1)


async def test_what_is_forgotten_is_told_no_more(led):
    session = FollowerSession(led, 8)
    await session.fetch(0)

    await session.fetch(forgotten=[ORDERS])
    await led.produce(b"a")

    assert await session.fetch(max_wait_ms=100) == {}
    assert readers_of(led)._of == {}


@pytest.mark.parametrize(
    ("by", "session_id", "epoch", "code"),
    [
        (8, "its own", 3, ErrorCode.INVALID_FETCH_SESSION_EPOCH),
        (8, "its own", 1, ErrorCode.INVALID_FETCH_SESSION_EPOCH),
        (8, "its own", -7, ErrorCode.INVALID_FETCH_SESSION_EPOCH),
        (8, 12345, 1, NOT_FOUND),
        (8, NO_SESSION, 1, NOT_FOUND),
        (8, -1, 1, NOT_FOUND),
        (9, "its own", 2, NOT_FOUND),
        (7, "its own", 2, NOT_FOUND),
    ],
)
async def test_a_request_that_is_not_the_next_of_its_session_is_refused(
    led, by, session_id, epoch, code
):
    session = FollowerSession(led, 8)
    await session.fetch(0)
    await session.fetch()
    number = session.id if session_id == "its own" else session_id

    response = await led.ask_fetch({ORDERS: 0}, by, session_id=number, session_epoch=epoch)

    assert response == FetchResponse(error_code=code)
    assert await session.fetch() == {}  # it goes on


@pytest.mark.parametrize("epoch", [INITIAL_SESSION_EPOCH, FINAL_SESSION_EPOCH])
async def test_who_begins_anew_ends_its_former_session_and_who_waited_in_it_hears_so(led, epoch):
    session = FollowerSession(led, 8)
    await session.fetch(0)
    fields = {"session_id": session.id, "max_wait_ms": 2**31 - 1}
    waiting = led.later(led.ask_fetch({}, 8, session_epoch=1, **fields))
    await led.sim.sleep(100)
    assert led.waiting == (0, 1)

    await led.ask_fetch({ORDERS: 0}, 8, session_id=session.id, session_epoch=epoch)

    assert (await waiting).error_code is NOT_FOUND
    assert led.waiting == (0, 0)
    assert len(readers_of(led)) == (1 if epoch == INITIAL_SESSION_EPOCH else 0)


async def test_nobody_ends_the_session_of_another(led):
    session = FollowerSession(led, 8)
    await session.fetch(0)

    for by in (9, 7, -1):
        await led.ask_fetch({ORDERS: 0}, by, session_id=session.id, session_epoch=-1)

    assert await session.fetch() == {}


async def test_a_request_that_was_repeated_on_its_way_leaves_one_session(led):
    session = FollowerSession(led, 8)
    await session.fetch(0)
    await led.produce(b"a")
    await session.fetch()
    await session.fetch(1)

    await FollowerSession(led, 8).fetch(0)  # the first request again, and late

    request = {"session_id": session.id, "session_epoch": session.epoch}
    response = await led.ask_fetch({}, 8, **request)
    assert response.error_code is NOT_FOUND  # so that it says again how far it is
    assert len(readers_of(led)) == 1


async def test_the_next_request_of_a_session_ends_the_wait_of_the_one_before(led):
    session = FollowerSession(led, 8)
    await session.fetch(0)
    first = led.later(session.fetch(max_wait_ms=9_000))
    await led.sim.sleep(10)
    session.epoch += 1  # the answer to it went astray

    second = led.later(session.fetch(max_wait_ms=1_000))
    await led.sim.sleep(10)
    assert first.done()
    assert not second.done()
    await led.sim.sleep(1_000)

    assert second.done()
    assert led.waiting == (0, 0)


async def test_a_wait_that_was_over_does_not_end_the_next_one(sim, led):
    session = FollowerSession(led, 8)
    await session.fetch(0)
    first = led.later(session.fetch(max_wait_ms=100))
    await sim.sleep(50)
    (reader,) = readers_of(led)._of[ORDERS]
    over = FetchOver(reader, reader.pending.asked)
    await led.produce(b"a")
    await first
    second = led.later(session.fetch(1, max_wait_ms=9_000))
    await sim.sleep(10)

    led.manager.ref.tell(over)  # its timer had gone off just before the answer
    await sim.sleep(10)

    assert not second.done()


async def test_idle_sessions_make_room_for_others(sim, led):
    readers = readers_of(led)
    for number in range(MAX_SESSIONS):
        await led.ask_fetch({}, 100 + number, session_epoch=INITIAL_SESSION_EPOCH)
    assert len(readers) == MAX_SESSIONS

    crowded = await led.ask_fetch({ORDERS: 0}, 8, session_epoch=INITIAL_SESSION_EPOCH)
    await sim.sleep(IDLE_MS + 1)
    roomy = await led.ask_fetch({ORDERS: 0}, 8, session_epoch=INITIAL_SESSION_EPOCH)

    assert (crowded.session_id, len(crowded.partitions)) == (NO_SESSION, 1)
    assert roomy.session_id != NO_SESSION
    assert len(readers) == 1


# --- what a follower is told besides records -----------------------------------------------------


@pytest.mark.behaviour("B161")
async def test_a_follower_hears_of_the_high_watermark_with_its_next_answer(led):
    session = FollowerSession(led, 8)
    await led.produce(b"a")
    await session.fetch(0)

    results = await session.fetch(1, max_wait_ms=500)  # this one raises it

    assert results[ORDERS].high_watermark == led.high_watermark == 1


@pytest.mark.behaviour("B161")
async def test_a_high_watermark_raised_by_the_fetch_at_hand_is_told_with_the_next(sim):
    led = await Led.start(sim, isr=[1, 8], partitions=2)
    await led.produce_to({at(0): batch_of(b"a")}, 1, 0)
    session = FollowerSession(led, 8)
    # The first request tells all there is of partition 0, as it was when it was read: that it ends
    # the wait of the follower is due to partition 1, and then nothing is left to wait for.
    await led.produce_to({at(1): batch_of(b"b")}, 1, 0)
    first = await session.fetch({at(0): 1, at(1): 0}, max_wait_ms=500)
    assert (first[at(0)].high_watermark, led.high_watermark) == (0, 1)

    second = await session.fetch({at(1): 1}, max_wait_ms=500)

    assert second[at(0)].high_watermark == 1


# --- nothing is left behind ----------------------------------------------------------------------


@pytest.mark.behaviour("B165")
async def test_a_thousand_fetches_leave_nothing_behind(sim, led):
    timers = len(led.manager._timers)
    early = [
        led.later(led.fetch(0, by=8 if n % 2 else -1, max_wait_ms=500 + n)) for n in range(1_000)
    ]
    await sim.sleep(300)
    assert led.waiting == (0, 1_000)
    await led.produce(b"a")  # followers have their answer
    await sim.sleep(600)
    await led.fetch(1, by=8)  # and consumers, those of them whose time is not up
    await sim.sleep(10)

    results = [await each for each in early]

    assert {each.error_code for each in results} == {ErrorCode.NONE}
    assert 600 < sum(each.records is not None for each in results) < 900
    assert is_empty(led)
    assert len(led.manager._timers) == timers


# --- whatever is asked has one answer ------------------------------------------------------------

WILD = [-(2**31), -2, -1, 0, 1, 8, 9, 2**31 - 1]


def wild_fetch(dice: Random, session_ids: list[int]) -> Fetch:
    partitions = [ORDERS, at(1), at(7), TopicPartition("sales", 0), TopicPartition("", -1)]

    def wanted() -> FetchPartition:
        return FetchPartition(
            partition=dice.choice(partitions),
            fetch_offset=dice.choice([*WILD, -(2**63), 2**63 - 1]),
            max_bytes=dice.choice(WILD),
            current_leader_epoch=dice.choice([*WILD, EPOCH]),
            last_fetched_epoch=dice.choice([*WILD, EPOCH]),
            log_start_offset=dice.choice([*WILD, -(2**63)]),
        )

    return Fetch(
        replica_id=dice.choice(WILD),
        max_wait_ms=dice.choice([*WILD[:-1], 3_000]),
        min_bytes=dice.choice(WILD),
        max_bytes=dice.choice(WILD),
        partitions=tuple(wanted() for _ in range(dice.randrange(4))),
        session_id=dice.choice([*WILD, *session_ids]),
        session_epoch=dice.choice([*WILD, 2, 3]),
        forgotten=tuple(dice.sample(partitions, dice.randrange(3))),
    )


@pytest.mark.parametrize("seed", range(5))
async def test_whatever_is_fetched_is_answered_once_and_leaves_nothing(sim, seed):
    led, dice = await Led.start(sim, isr=[1, 8], partitions=2), Random(seed)
    await led.produce(b"a", b"b")
    session_ids: list[int] = []
    answers = []

    async def ask(request):
        response = await led.drive.ask(1, request, FetchResponse)
        session_ids.append(response.session_id)
        answers.append(response)

    for _ in range(400):
        led.later(ask(wild_fetch(dice, session_ids)))
        await sim.sleep(dice.choice([0, 0, 1, 20]))
        if not dice.randrange(20):
            await led.produce(b"c")
    await sim.sleep(5_000)

    assert len(answers) == 400
    assert led.waiting == (0, 0)
    assert led.drive.node(1).replica_manager.ref.is_alive
    end = led.replica().log_end_offset
    assert all(-1 <= each.log_end_offset <= end for each in led.replica().followers.values())


# --- nobody misses anything ----------------------------------------------------------------------


class Copy:
    """What one reader has of each partition, read as a follower's fetcher reads."""

    def __init__(self, led: Led, by: int, partitions: list[TopicPartition], dice: Random) -> None:
        self.by = by
        self.values: dict[TopicPartition, list[bytes]] = {each: [] for each in partitions}
        self.offsets = dict.fromkeys(partitions, 0)
        self.watermarks = dict.fromkeys(partitions, 0)
        self._led, self._dice = led, dice
        self._session = FollowerSession(led, by)
        self._named = dict(self.offsets)
        self.is_lucky = False  # nothing goes wrong from now on

    async def go_on(self) -> None:
        """One fetch, with small limits, after which something may go wrong."""
        dice = self._dice
        limits = {
            "max_bytes": dice.choice([1, 100, 200, 400]),
            "partition_max_bytes": dice.choice([1, 90, 150, 300]),
            "max_wait_ms": dice.choice([0, 50, 500]),
            "min_bytes": dice.choice([0, 1, 150]),
        }
        named, forgotten = self._named, []
        is_in_session = self.by >= 0 and self._session.id != NO_SESSION
        if is_in_session and not self.is_lucky and not dice.randrange(10):
            forgotten = [dice.choice(sorted(self.offsets))]
            named = {each: offset for each, offset in named.items() if each not in forgotten}
        if self.by >= 0:
            results = await self._session.fetch(named, forgotten=forgotten, **limits)
        else:
            found, _ = await self._led.fetch_of(self.offsets, **limits)
            results = {each.partition: each for each in found}
        self._named = {each: self.offsets[each] for each in forgotten}
        for partition, result in results.items():
            self._take(partition, result)
        if (
            is_in_session and not self.is_lucky and not dice.randrange(40)
        ):  # an answer was lost: all is said anew
            self._session = FollowerSession(self._led, self.by)
            self._named = dict(self.offsets)

    def _take(self, partition, result) -> None:
        assert result.error_code is ErrorCode.NONE
        self.watermarks[partition] = result.high_watermark
        for batch in batches(result.records or b""):
            assert batch.header.base_offset == self.offsets[partition]  # no gap, nothing twice
            self.values[partition] += values_in(batch.data)
            self.offsets[partition] = batch.header.next_offset
        if result.records:
            self._named[partition] = self.offsets[partition]


@pytest.mark.behaviour("B161", "B165")
@pytest.mark.parametrize("seed", range(8))
async def test_all_who_read_with_small_limits_have_all_in_the_end(sim, seed):
    dice = Random(seed)
    led = await Led.start(sim, isr=[1, 8], partitions=4, segment_bytes="2000")
    partitions = [at(number) for number in range(4)]
    model: dict[TopicPartition, list[bytes]] = {each: [] for each in partitions}
    copies = [Copy(led, by, partitions, Random(f"{seed}/{by}")) for by in (8, 9, -1)]
    is_over = False

    async def read(copy: Copy) -> None:
        while not is_over:
            await copy.go_on()
            await sim.sleep(dice.choice([1, 10, 100]))

    tasks = [led.later(read(copy)) for copy in copies]
    for _ in range(120):
        chosen = dice.sample(partitions, dice.randint(1, 4))
        for partition in chosen:
            values = [b"x" * dice.choice([1, 50, 200])] * dice.randint(1, 3)
            await led.produce_to({partition: batch_of(*values)}, 1, 0)
            model[partition] += values
        await sim.sleep(dice.choice([0, 10, 200]))
    for copy in copies:
        copy.is_lucky = True  # what was missed so far will not be found by saying all anew
    ends = {each: len(values) for each, values in model.items()}
    await sim.until(lambda: all(each.offsets == ends for each in copies), limit_ms=200_000)
    await sim.sleep(8_000)  # for the last high watermarks
    is_over = True
    for task in tasks:
        await task

    assert [each.values for each in copies] == [model] * 3
    assert [each.watermarks for each in copies] == [ends] * 3
    assert led.waiting == (0, 0)
