"""Turns are taken one at a time, in the order in which they were asked for."""

import asyncio

import pytest

from runtime.turn import Turn, let_others_run


async def test_first_come_first_served() -> None:
    turn, order = Turn(), []

    async def work(name: str) -> None:
        async with turn:
            order.append(f"{name} in")
            await let_others_run()
            order.append(f"{name} out")

    await asyncio.gather(*(work(name) for name in "abc"))

    assert order == ["a in", "a out", "b in", "b out", "c in", "c out"]
    assert not turn.is_taken


async def test_who_fails_or_gives_up_lets_the_next_one_in() -> None:
    turn = Turn()
    with pytest.raises(ValueError, match="oh"):
        async with turn:
            raise ValueError("oh")

    async with turn:
        waiting = asyncio.create_task(turn.__aenter__())
        await let_others_run()
        waiting.cancel()
    async with turn:
        assert turn.is_taken
    assert not turn.is_taken
