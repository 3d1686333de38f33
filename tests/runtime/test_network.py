"""Calls over a transport that works, and over one that misbehaves: each ends exactly once."""

import asyncio
import gc
import weakref

import pytest

from runtime.actor import Actor
from runtime.network import CallTimedOut, Disconnected, Endpoint, Incoming, MemoryTransport
from runtime.ref import InboxFull
from runtime.system import System
from runtime.tracing import CAUSE, Trace
from tests.support.mailbox import Mailbox
from wire.frame import Frame, FrameKind
from wire.trace import CallFinished


class Echo:
    """Answers at once."""

    def tell(self, message: Incoming) -> None:
        message.reply(b"echo " + message.payload)


class Full:
    """Takes nothing."""

    def tell(self, message: Incoming) -> None:
        raise InboxFull("no room")


class Recorder(MemoryTransport):
    """Delivers only by hand, so that a test decides what happens when."""

    def __init__(self) -> None:
        super().__init__()
        self.frames: list[Frame] = []

    def transmit(self, frame: Frame) -> None:
        self.frames.append(frame)


def endpoint(address, transport, trace, **more):
    return Endpoint(address, transport, trace.at(address), **more)


def calls(trace) -> list[CallFinished]:
    return [event for _, event in trace.drain().stamped() if isinstance(event, CallFinished)]


@pytest.fixture
def trace(sim) -> Trace:
    return sim.trace


@pytest.fixture
def pair(sim, trace):
    transport = MemoryTransport()
    here, there = endpoint("here", transport, trace), endpoint("there", transport, trace)
    there.serve(Echo())
    return here, there


async def test_a_call_has_the_response_of_the_one_who_was_called(pair, trace):
    here, _ = pair

    response = await here.call("there", b"hello", timeout_ms=100, label="Hello")

    assert response == b"echo hello"
    assert calls(trace) == [CallFinished("here", "there", "Hello", 5, 10, 0, "ok")]
    assert here.pending == 0


async def test_whoever_watches_calls_hears_of_them_also_if_nothing_is_recorded(sim):
    trace = Trace(now_s=sim.loop.time, epoch_us=0, recording=False)
    here = endpoint("here", MemoryTransport(), trace)
    here.serve(Echo())
    heard = []
    stop = trace.watch([CallFinished], lambda _, event: heard.append(event.request))

    await here.call("here", b"", timeout_ms=100, label="Heard")
    stop()
    await here.call("here", b"", timeout_ms=100, label="Unheard")

    assert heard == ["Heard"]


async def test_a_node_may_call_itself(pair):
    _, there = pair

    assert await there.call("there", b"me", timeout_ms=100) == b"echo me"


async def test_a_message_is_sent_and_not_answered(pair):
    here, there = pair
    there.serve(mailbox := Mailbox())

    here.send("there", b"news")
    incoming = await mailbox.next()
    incoming.reply(b"nobody asked")
    await asyncio.sleep(0)

    assert (incoming.source, incoming.payload) == ("here", b"news")
    assert here.pending == 0


async def test_messages_arrive_in_the_order_in_which_they_were_sent(pair):
    here, there = pair
    there.serve(mailbox := Mailbox())

    for number in range(100):
        here.send("there", b"%d" % number)
    await asyncio.sleep(0)

    assert [message.payload for message in mailbox.messages] == [b"%d" % n for n in range(100)]


async def test_a_call_to_nobody_is_disconnected_at_once(pair, trace, sim):
    here, _ = pair

    with pytest.raises(Disconnected, match="nobody is at nowhere"):
        await here.call("nowhere", b"", timeout_ms=100)

    assert sim.now_ms == 0
    assert [call.outcome for call in calls(trace)] == ["Disconnected"]


async def test_a_call_to_one_who_serves_nothing_is_refused_at_once(pair, sim):
    _, there = pair

    with pytest.raises(Disconnected, match="here did not take the request"):
        await there.call("here", b"", timeout_ms=100)

    assert sim.now_ms == 0


async def test_a_call_to_a_full_inbox_is_refused_at_once(pair, sim):
    here, there = pair
    there.serve(Full())

    with pytest.raises(Disconnected, match="did not take"):
        await here.call("there", b"", timeout_ms=100)
    here.send("there", b"dropped without a word")
    await asyncio.sleep(0)

    assert sim.now_ms == 0


async def test_a_call_is_disconnected_when_its_peer_closes(pair, sim):
    here, there = pair
    there.serve(mailbox := Mailbox())
    waiting = asyncio.create_task(here.call("there", b"", timeout_ms=100))
    incoming = await mailbox.next()

    there.close()

    with pytest.raises(Disconnected, match="there closed the connection"):
        await waiting
    assert sim.now_ms == 0
    incoming.reply(b"into the void")  # by an actor that does not know yet


async def test_an_answer_that_was_sent_before_its_sender_closed_still_arrives(pair):
    here, there = pair
    there.serve(mailbox := Mailbox())
    waiting = asyncio.create_task(here.call("there", b"", timeout_ms=100))
    incoming = await mailbox.next()

    incoming.reply(b"last words")
    there.close()

    assert await waiting == b"last words"


async def test_a_peers_end_does_not_fail_a_call_to_its_next_life(pair, trace):
    here, there = pair

    there.close()
    reborn = endpoint("there", here._transport, trace)
    reborn.serve(Echo())

    assert await here.call("there", b"again", timeout_ms=100) == b"echo again"


async def test_a_broken_link_fails_the_calls_begun_before_it_broke_and_no_later_one(sim, trace):
    here = endpoint("here", Recorder(), trace)
    old = asyncio.create_task(here.call("there", b"", timeout_ms=100))
    other = asyncio.create_task(here.call("elsewhere", b"", timeout_ms=100))
    await asyncio.sleep(0)
    broke = here.calls_begun
    new = asyncio.create_task(here.call("there", b"", timeout_ms=100))
    await asyncio.sleep(0)

    here.peer_lost("there", "the old link broke", broke)
    ends = await asyncio.gather(old, other, new, return_exceptions=True)

    assert [type(end) for end in ends] == [Disconnected, CallTimedOut, CallTimedOut]


async def test_a_call_that_nobody_answers_times_out(pair, trace, sim):
    here, there = pair
    there.serve(mailbox := Mailbox())

    with pytest.raises(CallTimedOut, match="there has not answered Fetch within 250 ms"):
        await here.call("there", b"12", timeout_ms=250, label="Fetch")

    assert sim.now_ms == 250
    assert calls(trace) == [CallFinished("here", "there", "Fetch", 2, 0, 250_000, "CallTimedOut")]
    mailbox.messages[0].reply(b"late")
    await asyncio.sleep(0)
    assert here.pending == 0


async def test_the_first_answer_counts_and_repetitions_are_ignored(sim, trace):
    transport = Recorder()
    here = endpoint("here", transport, trace)
    waiting = asyncio.create_task(here.call("there", b"", timeout_ms=100))
    await asyncio.sleep(0)
    number = transport.frames[0].correlation

    for kind, payload in ((1, b"first"), (1, b"second"), (3, b"")):
        here.deliver(Frame(FrameKind(kind), number, "there", "here", 0, memoryview(payload)))
    here.lost(number, "too late")
    here.peer_lost("there", "too late", here.calls_begun)

    assert await waiting == b"first"
    here.deliver(Frame(FrameKind.RESPONSE, number, "there", "here", 0, memoryview(b"third")))


async def test_an_answer_from_somebody_else_is_not_taken(sim, trace):
    transport = Recorder()
    here = endpoint("here", transport, trace)
    waiting = asyncio.create_task(here.call("there", b"", timeout_ms=100))
    await asyncio.sleep(0)
    number = transport.frames[0].correlation

    here.deliver(Frame(FrameKind.RESPONSE, number, "impostor", "here", 0, memoryview(b"lie")))

    with pytest.raises(CallTimedOut):
        await waiting


async def test_closing_ends_every_pending_call(pair, trace):
    here, there = pair
    there.serve(mailbox := Mailbox())
    waiting = [asyncio.create_task(here.call("there", b"", timeout_ms=100)) for _ in range(3)]
    await mailbox.next()

    here.close()
    here.close()
    ends = await asyncio.gather(*waiting, return_exceptions=True)

    assert [type(end) for end in ends] == [Disconnected] * 3
    assert [call.outcome for call in calls(trace)] == ["Disconnected"] * 3
    assert here.pending == 0


async def test_who_has_left_the_network_neither_calls_nor_sends(pair):
    here, _ = pair
    here.close()

    with pytest.raises(Disconnected, match="here has left"):
        await here.call("there", b"", timeout_ms=100)
    with pytest.raises(Disconnected, match="here has left"):
        here.send("there", b"")


async def test_an_address_has_one_endpoint_at_a_time(pair, trace):
    here, _ = pair

    with pytest.raises(ValueError, match="already"):
        endpoint("here", here._transport, trace)


async def test_to_answer_twice_is_a_bug(pair):
    here, there = pair
    there.serve(mailbox := Mailbox())
    waiting = asyncio.create_task(here.call("there", b"", timeout_ms=100))
    incoming = await mailbox.next()

    incoming.reply(b"once")

    with pytest.raises(AssertionError, match="answered twice"):
        incoming.reply(b"twice")
    assert await waiting == b"once"


async def test_a_cancelled_call_leaves_nothing_pending(pair, trace):
    here, there = pair
    there.serve(mailbox := Mailbox())
    waiting = asyncio.create_task(here.call("there", b"", timeout_ms=100))
    incoming = await mailbox.next()

    waiting.cancel()
    await asyncio.wait([waiting])
    incoming.reply(b"late")
    await asyncio.sleep(0)

    assert here.pending == 0
    assert [call.outcome for call in calls(trace)] == ["cancelled"]


async def test_a_call_cancelled_as_it_fails_leaves_no_unseen_error(pair, sim):
    here, _ = pair
    unseen = []
    sim.loop.set_exception_handler(lambda _, context: unseen.append(context))
    waiting = asyncio.create_task(here.call("there", b"", timeout_ms=100))
    await asyncio.sleep(0)

    here.lost(here.calls_begun - 1, "broken")
    waiting.cancel()
    await asyncio.wait([waiting])
    gc.collect()

    assert waiting.cancelled()
    assert unseen == []


async def test_a_call_that_cannot_be_sent_leaves_nothing_pending(sim, trace):
    class Broken(MemoryTransport):
        def transmit(self, frame: Frame) -> None:
            raise RuntimeError("a bug")

    here = endpoint("here", Broken(), trace)

    with pytest.raises(RuntimeError, match="a bug"):
        await here.call("there", b"", timeout_ms=100)

    assert here.pending == 0


async def test_thousands_of_calls_leave_no_call_and_no_timer_behind(pair, sim):
    here, _ = pair

    for _ in range(50):
        await asyncio.gather(*(here.call("there", b"x", timeout_ms=1000) for _ in range(100)))
    timers = len(sim.loop._timers)
    waits = here._deadlines._waits
    await here.call("there", b"x", timeout_ms=1000)

    assert here.pending == 0
    assert timers == 1
    assert [len(each) for each in waits.values()] == [1]
    await sim.sleep(1001)
    assert not waits
    assert not sim.loop._timers


async def test_a_response_is_not_kept_while_an_older_call_waits(pair):
    here, there = pair
    mailbox = Mailbox()
    there.serve(mailbox)
    stuck = asyncio.create_task(here.call("there", b"", timeout_ms=1000))
    await mailbox.next()
    there.serve(Echo())

    response = await here.call("there", b"large", timeout_ms=1000)
    kept = weakref.ref(response)
    del response

    assert kept() is None
    stuck.cancel()


async def test_a_request_is_the_cause_of_what_is_done_at_the_other_end(sim, trace):
    class Caller(Actor):
        async def on_receive(self, message):
            await here.call("there", b"hello", timeout_ms=100)

    class Server(Actor):
        async def on_start(self):
            there.serve(self.ref)

        async def on_receive(self, message):
            message.reply(b"")

    transport = MemoryTransport()
    here, there = endpoint("here", transport, trace), endpoint("there", transport, trace)
    far = System("there", trace.at("there"))
    far.start("server", Server())
    near = System("here", trace.at("here"))
    caller = near.start("caller", Caller())
    await asyncio.sleep(0)

    await caller.ask("go")
    await near.stop()
    await far.stop()

    handled = {event.actor: stamp for stamp, event in trace.handled(trace.messages)}
    assert handled["there/server"].cause == handled["here/caller"].id
    events = trace.drain().stamped()
    causes = [stamp.cause for stamp, event in events if isinstance(event, CallFinished)]
    assert causes == [handled["here/caller"].id]


async def test_a_frame_does_not_change_the_cause_of_whoever_delivers_it(pair):
    here, _ = pair
    before = CAUSE.get()

    here.deliver(Frame(FrameKind.ONE_WAY, 0, "there", "here", 99, memoryview(b"")))

    assert CAUSE.get() is before
