"""A trace keeps what it is told, in order, until somebody takes it."""

import threading
from itertools import islice

import pytest

from runtime.tracing import CAUSE, MAX_ORIGIN, MESSAGE, NOT_TIMED, ORIGIN_BITS, Trace, trace_bytes
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
    held = trace.messages  # as an actor holds it
    held += b"first"
    trace.leave("broker-1", NodeStarted())
    first = trace.drain()
    held += b"second"
    second = trace.drain()

    assert (first.messages, len(first.events)) == (b"first", 2)
    assert (second.messages, second.events) == (b"second", [])
    assert trace.drain() == (b"", [])


def test_what_waits_is_counted_until_it_is_drained():
    trace = StandingTrace()
    trace.messages.extend(MESSAGE.pack(1, 0, 0, 1, 1, 1) * 3)
    trace.leave("broker-1", NodeStarted())
    before = trace.waiting()
    trace.drain()

    assert (before, trace.waiting()) == ((3, 1), (0, 0))


def test_another_thread_may_drain_while_events_come():
    trace = StandingTrace()
    taken = bytearray()
    done = threading.Event()

    def drain():
        while not done.is_set():
            taken.extend(trace.drain().messages)

    drainer = threading.Thread(target=drain)
    drainer.start()
    messages = trace.messages
    for number in range(100_000):
        messages += MESSAGE.pack(*[number] * 6)
    done.set()
    drainer.join()
    taken += trace.drain().messages

    assert list(MESSAGE.iter_unpack(taken)) == [(number,) * 6 for number in range(100_000)]


def test_listeners_hear_events_that_are_not_recorded():
    trace = StandingTrace(recording=False)
    heard = []
    trace.listeners.append(lambda stamp, event: heard.append((stamp.id, event)))
    trace.leave("broker-1", NodeStarted())

    assert heard == [(1, NodeStarted())]
    assert trace.drain() == (b"", [])


def test_a_row_is_a_handled_message_with_times_to_the_nearest_microsecond():
    trace = StandingTrace()
    mark = trace.marks_of("broker-1", "broker-1/api")[NodeStarted]
    begun = trace.now_s() + 12e-6
    row = MESSAGE.pack(7, 3, mark + 1, begun - 6.6e-6, begun, begun + 38.4e-6)

    assert list(trace.handled(row)) == [
        (
            Stamp(7, EPOCH_US + 12, "broker-1", 3),
            MessageHandled("broker-1/api", "NodeStarted", 7, 38, "refused"),
        )
    ]


def test_a_mark_names_one_actor_one_class_of_message_and_one_outcome():
    trace = StandingTrace()
    first = trace.marks_of("broker-1", "broker-1/api")
    second = trace.marks_of("broker-2", "broker-2/api")
    marks = [first[int], second[int], first[str], first[int]]

    assert marks[0] == marks[3]
    assert [trace.named(mark + at) for at, mark in enumerate(marks)] == [
        ("broker-1", "broker-1/api", "int", "ok"),
        ("broker-2", "broker-2/api", "int", "refused"),
        ("broker-1", "broker-1/api", "str", "crashed"),
        ("broker-1", "broker-1/api", "int", "cancelled"),
    ]


def test_a_message_without_a_time_of_sending_did_not_wait():
    trace = StandingTrace()
    mark = trace.marks_of("broker-1", "broker-1/api")[int]
    row = MESSAGE.pack(1, 0, mark, NOT_TIMED, 90e-6, 91e-6)

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
    trace = Trace(now_s=lambda: 0.0, epoch_us=0, recording=recording)
    if is_heard:
        trace.listeners.append(lambda stamp, event: None)

    assert trace.at("broker-1").is_on


def test_a_trace_that_nobody_would_see_is_off_until_somebody_listens():
    trace = Trace(now_s=lambda: 0.0, epoch_us=0, recording=False)
    pen = trace.at("broker-1")
    assert not pen.is_on

    trace.listeners.append(lambda stamp, event: None)

    assert pen.is_on
