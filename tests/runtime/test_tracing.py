"""A trace keeps what it is told, in order, until somebody takes it."""

import threading
from itertools import islice

import pytest

from runtime.tracing import CAUSE, MAX_ORIGIN, NOT_TIMED, ORIGIN_BITS, Trace, trace_bytes
from tests.support.traces import EPOCH_US, StandingTrace
from wire.trace import MessageHandled, NodeStarted, NodeStopped, Stamp


def ids(trace: Trace):
    return iter(trace.next_id, None)


def test_an_event_is_stamped_with_time_node_and_cause():
    trace = StandingTrace()
    pen = trace.at("broker-2")
    pen(NodeStarted())
    trace.at_us = 1_234
    token = CAUSE.set([1])
    try:
        pen(NodeStopped("killed"))
    finally:
        CAUSE.reset(token)

    assert list(trace.drain().stamped()) == [
        (Stamp(1, EPOCH_US, "broker-2", 0), NodeStarted()),
        (Stamp(2, EPOCH_US + 1_234, "broker-2", 1), NodeStopped("killed")),
    ]


def test_what_was_drained_is_not_drained_again_and_what_comes_later_is():
    trace = StandingTrace()
    held = trace.messages.extend  # as an actor holds it
    held(range(8))
    trace.leave("broker-1", NodeStarted())
    first = trace.drain()
    held(range(8, 16))
    second = trace.drain()

    assert (first.messages, len(first.events)) == (list(range(8)), 2)
    assert (second.messages, second.events) == (list(range(8, 16)), [])
    assert trace.drain() == ([], [])


def test_another_thread_may_drain_while_events_come():
    trace = StandingTrace()
    taken = []
    done = threading.Event()

    def drain():
        while not done.is_set():
            taken.extend(trace.drain().messages)

    drainer = threading.Thread(target=drain)
    drainer.start()
    for number in range(100_000):
        trace.messages.extend((number,) * 8)
    done.set()
    drainer.join()
    taken += trace.drain().messages

    assert taken == [number for number in range(100_000) for _ in range(8)]


def test_listeners_hear_events_that_are_not_recorded():
    trace = StandingTrace(recording=False)
    heard = []
    trace.listeners.append(lambda stamp, event: heard.append((stamp.id, event)))
    trace.leave("broker-1", NodeStarted())

    assert heard == [(1, NodeStarted())]
    assert trace.drain() == ([], [])


def test_a_row_of_integers_is_a_handled_message():
    trace = StandingTrace()
    actor = trace.number_of("broker-1", "broker-1/api")
    kind = trace.kinds[NodeStarted]
    begun = trace.now_ns() + 12_000
    sent, ended = begun - 7_000, begun + 38_999
    row = [7, 3, actor, kind, sent, begun, ended, 1]

    assert list(trace.handled(row)) == [
        (
            Stamp(7, EPOCH_US + 12, "broker-1", 3),
            MessageHandled("broker-1/api", "NodeStarted", 7, 38, "refused"),
        )
    ]


def test_a_message_without_a_time_of_sending_did_not_wait():
    trace = StandingTrace()
    actor = trace.number_of("broker-1", "broker-1/api")
    row = [1, 0, actor, trace.kinds[int], NOT_TIMED, 90_000, 91_000, 0]

    assert [event.queue_us for _, event in trace.handled(row)] == [0]


def test_ids_of_two_origins_never_meet():
    room = 2**ORIGIN_BITS
    first, second = StandingTrace(origin=4), StandingTrace(origin=5)

    assert list(islice(ids(first), 3)) == [4 * room + 1, 4 * room + 2, 4 * room + 3]
    assert next(ids(second)) == 5 * room + 1  # 10^12 events later


def test_the_largest_origin_still_fits_a_column():
    assert StandingTrace(origin=MAX_ORIGIN).next_id() < 2**63 - 2**39


@pytest.mark.parametrize("origin", [-1, MAX_ORIGIN + 1])
def test_an_origin_that_would_not_fit_is_refused(origin: int):
    with pytest.raises(ValueError, match=f"an origin is from 0 to {MAX_ORIGIN}"):
        StandingTrace(origin=origin)


def test_two_traces_are_the_same_if_their_bytes_are():
    def told(*reasons):
        trace = StandingTrace()
        for reason in reasons:
            trace.leave("broker-1", NodeStopped(reason))
        return trace_bytes(trace)

    assert told("killed", "stopped") == told("killed", "stopped")
    assert told("killed", "stopped") != told("stopped", "killed")


@pytest.mark.parametrize(("recording", "is_heard"), [(True, False), (False, True), (True, True)])
def test_a_trace_is_on_if_it_is_recorded_or_listened_to(recording: bool, is_heard: bool):
    trace = Trace(now_ns=lambda: 0, epoch_ns=0, recording=recording)
    if is_heard:
        trace.listeners.append(lambda stamp, event: None)

    assert trace.at("broker-1").is_on


def test_a_trace_that_nobody_would_see_is_off_until_somebody_listens():
    trace = Trace(now_ns=lambda: 0, epoch_ns=0, recording=False)
    pen = trace.at("broker-1")
    assert not pen.is_on

    trace.listeners.append(lambda stamp, event: None)

    assert pen.is_on
