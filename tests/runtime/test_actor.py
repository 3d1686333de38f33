"""Actors: order, answers, timers, bounds, crashes."""

import asyncio
import gc
import time
from dataclasses import dataclass

import pykka
import pytest

from runtime.actor import Actor
from runtime.ref import ActorGone, AskTimedOut, InboxFull, Outcome
from runtime.system import System
from runtime.tracing import Trace
from wire.errors import ErrorCode, StaleControllerEpoch
from wire.trace import ActorCrashed, MessageRefused, NodeStopped


@dataclass(frozen=True)
class Add:
    number: int


@dataclass(frozen=True)
class Total:
    pass


@dataclass(frozen=True)
class Wait:
    pass


@dataclass(frozen=True)
class Refuse:
    pass


@dataclass(frozen=True)
class Break:
    pass


@dataclass(frozen=True)
class Ask:
    ref: object
    message: object


@dataclass(frozen=True)
class Answered:
    outcome: Outcome


class Counter(Actor):
    """Adds, waits, refuses, breaks."""

    inbox_limit = 100

    def __init__(self) -> None:
        super().__init__()
        self.numbers = []
        self.calls = []
        self.gate = asyncio.get_running_loop().create_future()
        self.handled = asyncio.Event()

    async def has_numbers(self, *numbers):
        """Wait until these, and no others, have come."""
        async with asyncio.timeout(5):
            while tuple(self.numbers) != numbers:
                self.handled.clear()
                await self.handled.wait()

    async def on_start(self):
        self.calls.append("start")

    async def on_stop(self):
        self.calls.append("stop")

    def on_failure(self, exception_type, exception_value, traceback):
        self.calls.append(exception_type.__name__)

    async def on_receive(self, message):
        self.handled.set()
        match message:
            case Add(number):
                self.numbers.append(number)
            case Total():
                return sum(self.numbers)
            case Wait():
                await asyncio.shield(self.gate)
            case Refuse():
                raise StaleControllerEpoch("epoch 3 is over")
            case Break():
                raise ZeroDivisionError("a bug")
            case Ask(ref, question):
                self.pipe(ref.ask(question), Answered)
            case Answered(outcome):
                self.numbers.append(outcome.get())
        return None


@pytest.fixture(params=[True, False], ids=["traced", "untraced"])
def trace(request):
    return Trace(now_s=time.perf_counter, epoch_us=0, recording=request.param)


@pytest.fixture
async def system(trace):
    events = trace.events = []
    trace.listeners.append(lambda stamp, event: events.append(event))
    node = System("node", trace.at("node"))
    yield node
    node.kill()
    await asyncio.sleep(0)


async def test_messages_are_handled_one_by_one_in_their_order(system):
    counter = Counter()
    ref = system.start("counter", counter)
    for number in range(50):
        ref.tell(Add(number))

    assert await ref.ask(Total()) == sum(range(50))
    assert counter.numbers == list(range(50))


async def test_the_next_message_waits_until_an_awaiting_handler_is_done(system):
    counter = Counter()
    ref = system.start("counter", counter)
    ref.tell(Wait())
    ref.tell(Add(1))
    total = asyncio.ensure_future(ref.ask(Total()))
    for _ in range(10):
        await asyncio.sleep(0)
    assert counter.numbers == []

    counter.gate.set_result(None)

    assert await total == 1


async def test_addresses_are_readable_and_unique_in_a_node(system):
    ref = system.start("replica-manager", Counter())

    assert ref.address == "node/replica-manager"
    with pytest.raises(ValueError, match="node/replica-manager"):
        system.start("replica-manager", Counter())


async def test_an_expected_error_is_the_answer_and_the_actor_lives(system):
    ref = system.start("counter", Counter())

    with pytest.raises(StaleControllerEpoch) as refused:
        await ref.ask(Refuse())

    assert refused.value.code is ErrorCode.STALE_CONTROLLER_EPOCH
    assert await ref.ask(Total()) == 0


async def test_an_ask_times_out_and_the_late_answer_harms_nobody(system):
    counter = Counter()
    ref = system.start("counter", counter)

    with pytest.raises(AskTimedOut, match="Wait within 5 ms"):
        await ref.ask(Wait(), timeout_ms=5)
    counter.gate.set_result(None)

    assert await ref.ask(Total()) == 0


async def test_a_full_inbox_refuses_the_newest_and_says_so(system, trace):
    counter = Counter()
    ref = system.start("counter", counter)
    ref.tell(Wait())
    await asyncio.sleep(0)
    for number in range(100):
        ref.tell(Add(number))

    with pytest.raises(InboxFull, match="100 messages"):
        ref.tell(Add(100))
    with pytest.raises(InboxFull):
        await ref.ask(Total())
    counter.gate.set_result(None)
    await counter.has_numbers(*range(100))

    refused = [event for event in trace.events if isinstance(event, MessageRefused)]
    assert [event.message for event in refused] == ["Add", "Total"]


async def test_a_timer_is_a_message_and_can_be_cancelled(system):
    counter = Counter()
    system.start("counter", counter)
    counter.after(1, Add(1))
    counter.after(2, Add(2)).cancel()
    counter.after(3, Add(4))

    await counter.has_numbers(1, 4)


async def test_the_answer_to_a_piped_ask_comes_back_as_a_message(system):
    asker = Counter()
    ref, other = system.start("asker", asker), system.start("other", Counter())
    other.tell(Add(7))

    ref.tell(Ask(other, Total()))

    await asker.has_numbers(7)


async def test_what_a_killed_actor_had_just_piped_is_neither_begun_nor_missed(system):
    counter, begun = Counter(), []
    system.start("counter", counter)

    async def work():
        begun.append(True)

    counter.pipe(work(), Answered)
    counter.kill()
    await asyncio.sleep(0)  # the task is cancelled, …
    await asyncio.sleep(0)  # … and its end is heard of
    gc.collect()  # "was never awaited" would be an error here

    assert begun == []


async def test_a_stopped_actor_handles_what_it_has_and_then_stops(system):
    counter = Counter()
    ref = system.start("counter", counter)
    ref.tell(Add(1))

    await system.stop_actor(ref)

    assert counter.numbers == [1]
    assert counter.calls == ["start", "stop"]
    assert not ref.is_alive
    with pytest.raises(ActorGone):
        await ref.ask(Total())


async def test_a_message_to_a_gone_actor_is_a_dead_letter(system, trace):
    ref = system.start("counter", Counter())
    await system.stop_actor(ref)

    ref.tell(Add(1))

    assert MessageRefused("node/counter", "Add", "the actor is gone") in trace.events


async def test_a_crash_takes_its_node_down_and_no_other(system, trace):
    counter, neighbour = Counter(), Counter()
    ref, near = system.start("counter", counter), system.start("neighbour", neighbour)
    elsewhere = System("elsewhere", trace.at("elsewhere"))
    far = elsewhere.start("counter", Counter())

    ref.tell(Break())
    reason = await system.down()

    assert "node/counter crashed: ZeroDivisionError('a bug')" in reason
    assert isinstance(system.error, ZeroDivisionError)
    assert (ref.is_alive, near.is_alive) == (False, False)
    assert counter.calls == ["start", "ZeroDivisionError"]
    assert neighbour.calls in (["start"], [])
    crash = next(event for event in trace.events if isinstance(event, ActorCrashed))
    assert crash.actor == "node/counter"
    assert 'raise ZeroDivisionError("a bug")' in crash.traceback
    assert "Break()" in crash.message
    assert NodeStopped(reason) in trace.events
    assert await far.ask(Total()) == 0
    await elsewhere.stop()


async def test_an_expected_error_that_nobody_asked_for_is_a_bug(system):
    ref = system.start("counter", Counter())

    ref.tell(Refuse())

    assert "StaleControllerEpoch" in await system.down()


async def test_every_pending_ask_of_a_crashed_node_has_exactly_one_answer(system):
    counter, neighbour = Counter(), Counter()
    ref, near = system.start("counter", counter), system.start("neighbour", neighbour)
    waiting = asyncio.ensure_future(near.ask(Wait()))
    await asyncio.sleep(0)
    questions = [ref.ask(Break()), *(ref.ask(Total()) for _ in range(5)), near.ask(Total())]
    asks = [waiting, *map(asyncio.ensure_future, questions)]

    _, pending = await asyncio.wait(asks, timeout=5)

    assert not pending
    assert all(isinstance(ask.exception(), ActorGone) for ask in asks)


async def test_a_killed_node_stops_where_it_stands(system, trace):
    counter = Counter()
    ref = system.start("counter", counter)
    waiting = asyncio.ensure_future(ref.ask(Wait()))
    await asyncio.sleep(0)
    ref.tell(Add(1))
    counter.after(0, Add(2))

    system.kill("a power cut")
    with pytest.raises(ActorGone):
        await waiting

    assert await system.down() == "a power cut"
    assert counter.numbers == []
    assert "stop" not in counter.calls
    with pytest.raises(ActorGone):
        system.start("late", Counter())


async def test_a_paused_node_handles_nothing_until_it_is_resumed(system):
    counter = Counter()
    ref = system.start("counter", counter)
    await ref.ask(Total())
    system.pause()
    ref.tell(Add(1))
    counter.after(0, Add(2))
    for _ in range(20):
        await asyncio.sleep(0)
    assert counter.numbers == []

    system.resume()

    await counter.has_numbers(1, 2)


async def test_a_paused_node_stops_once_it_is_resumed(system):
    """What else was frozen with it is the one's to know who froze it."""
    counter = Counter()
    ref = system.start("counter", counter)
    system.pause()
    ref.tell(Add(1))
    stopping = asyncio.ensure_future(system.stop())
    for _ in range(20):
        await asyncio.sleep(0)
    assert system.is_paused
    assert counter.numbers == []

    system.resume()

    await stopping
    assert counter.numbers == [1]


async def test_actors_stop_in_the_reverse_order_of_their_start(system, trace):
    for name in ("first", "second", "third"):
        system.start(name, Counter())
    trace.events.clear()

    await system.stop()

    stopped = [event.actor for event in trace.events if type(event).__name__ == "ActorStopped"]
    assert stopped == ["node/third", "node/second", "node/first"]


async def test_a_busy_actor_lets_others_run(system):
    class Echo(Actor):
        async def on_receive(self, message):
            self.ref.tell(message)

    busy = system.start("busy", Echo())
    busy.tell("again")
    ref = system.start("counter", Counter())

    assert await ref.ask(Total()) == 0


async def test_an_actor_is_a_pykka_actor_that_its_own_refs_can_use(system):
    counter = Counter()
    system.start("counter", counter)
    assert isinstance(counter, pykka.Actor)

    counter.actor_ref.tell(Add(3))
    answer = counter.actor_ref.ask(Total(), block=False)

    assert await answer == 3
    assert pykka.ActorRegistry.get_all() == []


async def test_an_error_in_on_start_is_a_crash(system):
    class Stillborn(Actor):
        async def on_start(self):
            raise OSError("no room")

    ref = system.start("stillborn", Stillborn())

    with pytest.raises(ActorGone):
        await ref.ask(Total())
    assert "stillborn crashed: OSError('no room')" in await system.down()


async def test_a_preempting_message_takes_the_place_of_all_that_waits(system):
    counter = Counter()
    ref = system.start("counter", counter)
    ref.tell(Wait())
    await counter.handled.wait()
    ref.tell(Add(1))
    ref.tell(Add(2))

    dropped = counter.preempt(Add(10))
    ref.tell(Add(20))
    counter.gate.set_result(None)

    await counter.has_numbers(10, 20)
    assert dropped == [Add(1), Add(2)]


async def test_an_ask_that_is_preempted_is_answered_with_an_error(system):
    counter = Counter()
    ref = system.start("counter", counter)
    ref.tell(Wait())
    await counter.handled.wait()
    asking = asyncio.ensure_future(ref.ask(Total()))
    await asyncio.sleep(0)

    assert counter.preempt(Add(10)) == [Total()]

    with pytest.raises(ActorGone, match="node/counter was preempted"):
        await asking
    counter.gate.set_result(None)
    assert await ref.ask(Total()) == 10


async def test_a_preempting_message_wakes_an_actor_that_has_nothing_to_do(system):
    counter = Counter()
    ref = system.start("counter", counter)
    await ref.ask(Total())
    await asyncio.sleep(0)

    assert counter.preempt(Add(10)) == []

    await counter.has_numbers(10)


async def test_an_actor_that_is_preempted_while_it_stops_handles_the_message_and_stops(system):
    counter = Counter()
    ref = system.start("counter", counter)
    ref.tell(Wait())
    await counter.handled.wait()
    ref.tell(Add(1))
    stopping = asyncio.ensure_future(system.stop_actor(ref))
    await asyncio.sleep(0)

    assert counter.preempt(Add(10)) == [Add(1)]
    counter.gate.set_result(None)

    await asyncio.wait_for(stopping, 5)
    assert counter.numbers == [10]
    assert counter.calls == ["start", "stop"]


async def test_a_preempting_message_to_a_killed_actor_is_not_handled(system):
    counter = Counter()
    ref = system.start("counter", counter)
    system.kill_actor(ref)

    assert counter.preempt(Add(10)) == []

    assert not counter.inbox.queue


async def test_a_killed_actor_ends_where_it_stands_and_its_node_lives(system):
    counter = Counter()
    ref = system.start("counter", counter)
    ref.tell(Wait())
    await counter.handled.wait()
    ref.tell(Add(1))
    counter.after(0, Add(2))
    asking = asyncio.ensure_future(ref.ask(Total()))
    await asyncio.sleep(0)

    system.kill_actor(ref)
    counter.gate.set_result(None)

    with pytest.raises(ActorGone):
        await asking
    assert not ref.is_alive
    assert counter.numbers == []
    assert counter.calls == ["start"]
    assert system.is_up


async def test_the_address_of_a_killed_actor_is_free_at_once(system, trace):
    first, second = Counter(), Counter()
    former = system.start("counter", first)
    await former.ask(Total())

    system.kill_actor(former)
    ref = system.start("counter", second)
    for _ in range(5):
        await asyncio.sleep(0)  # the former one's task ends

    stopped = [event.actor for event in trace.events if type(event).__name__ == "ActorStopped"]
    assert stopped == ["node/counter"]
    assert system.lookup("counter") is ref
    ref.tell(Add(1))
    await second.has_numbers(1)


async def test_an_actor_is_killed_once_and_never_in_place_of_its_namesake(system):
    former = system.start("counter", Counter())
    system.kill_actor(former)
    ref = system.start("counter", Counter())

    system.kill_actor(former)

    assert await ref.ask(Total()) == 0
    assert system.addresses() == ("node/counter",)
