"""Work beside the caller's."""

import asyncio

import pytest

from runtime.tasks import Bell, Promise, Tasks, all_of


async def test_whoever_is_cancelled_while_waiting_cancels_it_for_nobody_else(sim):
    promise = Promise()

    async def wait():
        return await promise

    first, second = asyncio.create_task(wait()), asyncio.create_task(wait())
    await asyncio.sleep(0)

    first.cancel()
    await asyncio.sleep(0)
    promise.keep(7)

    assert await second == 7
    assert first.cancelled()


async def test_a_promise_is_settled_once(sim):
    kept, failed = Promise(), Promise()
    kept.keep(1)
    kept.fail(ValueError("late"))
    failed.fail(ValueError("first"))
    failed.keep(2)

    assert await kept == 1
    with pytest.raises(ValueError, match="first"):
        await failed


async def test_a_promise_is_waited_for_no_longer_than_asked(sim):
    promise = Promise()

    assert not await promise.settled(250)
    assert sim.now_ms == 250
    promise.fail(ValueError("nobody looks at it"))
    assert await promise.settled()


async def test_a_bell_wakes_all_who_wait_in_their_order(sim):
    bell, woken = Bell(), []

    async def wait(name):
        woken.append((name, await bell.wait(1_000)))

    waits = [asyncio.create_task(wait(name)) for name in "cab"]
    await asyncio.sleep(0)
    bell.ring()
    await asyncio.gather(*waits)

    assert woken == [("c", True), ("a", True), ("b", True)]
    assert sim.now_ms == 0


async def test_a_ring_that_nobody_hears_is_gone(sim):
    bell = Bell()
    bell.ring()

    assert not await bell.wait(100)
    assert sim.now_ms == 100


async def test_the_owner_hears_of_a_crash_and_the_others_go_on(sim):
    crashes, done = [], []
    tasks = Tasks(crashes.append)

    async def crash():
        raise KeyError("a bug")

    async def work():
        await asyncio.sleep(1)
        done.append(True)

    tasks.start(crash())
    tasks.start(work())
    await asyncio.sleep(2)

    assert [repr(each) for each in crashes] == ["KeyError('a bug')"]
    assert done == [True]
    assert len(tasks) == 0


async def test_what_still_runs_ends_when_the_owner_closes(sim):
    tasks, ended = Tasks(pytest.fail), []

    async def work():
        try:
            await asyncio.sleep(1_000)
        finally:
            ended.append(True)

    tasks.start(work())
    await asyncio.sleep(0)
    tasks.start(work())  # this one is cancelled before it begins
    await tasks.close()
    tasks.start(work())  # and this one is not begun at all

    assert ended == [True]
    assert len(tasks) == 0


async def test_all_are_awaited_at_once_and_told_in_order(sim):
    async def wait(ms):
        await sim.sleep(ms)
        if ms == 50:
            raise ValueError("fifty")
        return ms

    outcomes = await all_of([wait(100), wait(50), wait(10)])

    assert sim.now_ms == 100
    assert [each.value for each in outcomes] == [100, None, 10]
    assert isinstance(outcomes[1].error, ValueError)
