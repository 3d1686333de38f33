"""Random histories: sound ones are silent, and one change to the reads is always found."""

from time import process_time

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.faults.history.checker import KINDS, check_history
from actors.faults.history.events import Acknowledged, EndSeen, Polled, Sent
from actors.faults.history.files import BadHistory
from tests.actors.faults.history.planted import ORDERS, Planted

FATES = ("acknowledged", "unsaid", "uncertain there", "uncertain absent", "refused", "weak, lost")


@st.composite
def sound_histories(draw, fates=FATES, least=0, most_copies=2):
    """Producers that take turns, then readers who begin anywhere and go on to the end."""
    history, log = Planted(), []
    waiting = []
    for number, fate in enumerate(draw(st.lists(st.sampled_from(fates), min_size=least))):
        value = f"v{number}"
        is_idempotent = draw(st.booleans())
        client = draw(st.sampled_from("pq"))
        acks = 1 if fate.startswith("weak") else -1
        record = history.send(value, client=client, is_idempotent=is_idempotent, acks=acks)
        if fate in ("acknowledged", "unsaid", "uncertain there"):
            copies = 1 if is_idempotent else draw(st.integers(1, most_copies))
            log += [value] * copies
        offset = len(log) - 1 if fate == "acknowledged" else -1
        match fate:
            case "acknowledged" | "unsaid":
                waiting.append((record, offset))
            case "refused":
                history.failed(record, "refused", is_certain=True)
            case "uncertain there" | "uncertain absent":
                history.failed(record, "timed out")
            case _:
                history.acknowledged(record, len(log))
        if draw(st.booleans()):
            for each in waiting:
                history.acknowledged(*each)
            waiting.clear()
            if draw(st.booleans()):
                start = draw(st.integers(0, len(log)))
                history.read(log[start:], start=start, client=draw(st.sampled_from("cd")))
    for each in waiting:
        history.acknowledged(*each)
    history.read(log, client="last")
    return history


@given(sound_histories())
def test_a_sound_history_is_silent(history):
    assert history.sentences() == []


@given(sound_histories(), st.integers(0, 3))
def test_a_sound_history_is_silent_whatever_of_its_reads_is_kept(history, kept):
    """A recorder that stops early blames nobody."""
    reads = [each for each in history.events if isinstance(each, Polled | EndSeen)]
    after = len(history.events) if kept >= len(reads) else history.events.index(reads[kept])
    history.events = history.events[:after]

    assert history.sentences() == []


@given(sound_histories(("acknowledged",), least=2, most_copies=1), st.data())
def test_one_change_to_the_reads_is_found(history, data):
    polls = [n for n, each in enumerate(history.events) if isinstance(each, Polled)]
    chosen = data.draw(st.sampled_from(polls))
    read = history.events[chosen]
    match data.draw(st.sampled_from(["drop", "again", "value", "invent", "swap", "copy"])):
        case "drop":
            del history.events[chosen]
        case "again":
            history.events.insert(chosen, read)
        case "value":
            others = {history.events[n].value for n in polls} - {read.value}
            other = data.draw(st.sampled_from(sorted(others)))
            history.events[chosen] = msgspec.structs.replace(read, value=other)
        case "invent":
            history.events[chosen] = msgspec.structs.replace(read, value="x")
        case "swap":
            mates = [n for n in polls if n != chosen and history.events[n].value != read.value]
            other = data.draw(st.sampled_from(mates))
            mate = history.events[other]
            history.events[chosen] = msgspec.structs.replace(read, value=mate.value)
            history.events[other] = msgspec.structs.replace(mate, value=read.value)
        case "copy":
            ahead = msgspec.structs.replace(read, offset=read.offset + 10**6)
            history.events.insert(chosen + 1, ahead)

    assert history.sentences()


# --- what is no history ---------------------------------------------------------------------------


def test_an_answer_to_nothing_makes_no_sense():
    with pytest.raises(BadHistory, match=r"^id 'x' was answered and never sent$"):
        check_history([Acknowledged(at_ms=1, id="x", offset=0)])


def test_an_id_belongs_to_one_record():
    sent = Sent(at_ms=1, client="p", id="x", topic="orders", partition=0, value="a")

    with pytest.raises(BadHistory, match=r"^id 'x' was sent twice; each record needs its own$"):
        check_history([sent, msgspec.structs.replace(sent, value="b")])


def test_times_say_the_order_not_lines():
    history = Planted()
    history.send("a", 0)
    history.send("b", 1)
    history.read("ab")

    assert check_history(reversed(history.events)) == []


def test_every_kind_has_a_name_of_its_own():
    assert len({each.name for each in KINDS}) == len(KINDS)
    assert all(each.name for each in KINDS)


# --- how long it takes ----------------------------------------------------------------------------


def judged_s(count):
    """How long it takes to judge as many records, read by two who both miss every other."""
    history = Planted()
    for number in range(count):
        history.send(f"v{number}", number)
    for client in "cd":
        history.positioned(client, ORDERS, 0)
        for number in range(0, count, 2):
            history.polled(client, ORDERS, number, b"v%d" % number)
    begun = process_time()
    found = check_history(history.events)
    assert len(found) >= count // 2 - 1
    return process_time() - begun


def test_many_events_take_seconds_and_not_minutes():
    assert judged_s(40_000) < 20  # half a second; if it grew with the square, minutes
