"""Produce requests that wait, without any world: B163, B164, L-7."""

from random import Random

import pytest

from actors.broker.purgatory import Purgatory, Waiting
from wire.data import ProduceResult
from wire.errors import ErrorCode
from wire.ids import NO_OFFSET, Offset, TopicPartition

pytestmark = pytest.mark.behaviour("B164")


def at(number: int) -> TopicPartition:
    return TopicPartition("orders", number)


class Clock:
    """A timer that only knows whether it was cancelled."""

    def __init__(self) -> None:
        self.is_cancelled = False

    def cancel(self) -> None:
        self.is_cancelled = True


class Request:
    """A produce request for some offsets, and what it was answered."""

    def __init__(self, **offsets: int) -> None:
        ends = {at(int(name[1:])): Offset(offset) for name, offset in offsets.items()}
        results = {
            each: ProduceResult(partition=each, base_offset=Offset(end - 1))
            for each, end in ends.items()
        }
        required = dict(ends)
        self.answers = []
        self.timer = Clock()
        self.waiting = Waiting(results, required, self.answers.append)
        self.waiting.timer = self.timer  # type: ignore[assignment]

    @property
    def codes(self):
        """Of the one answer there is, by partition."""
        (results,) = self.answers
        return {each.partition.partition: each.error_code for each in results}


@pytest.fixture
def purgatory():
    return Purgatory()


def put(purgatory, **offsets):
    request = Request(**offsets)
    purgatory.wait(request.waiting)
    return request


def is_empty(purgatory):
    return len(purgatory) == 0 and purgatory._of == {}


def test_a_request_is_answered_when_the_high_watermark_has_passed_its_records(purgatory):
    request = put(purgatory, p0=3)

    purgatory.committed(at(0), Offset(2), ErrorCode.NONE)
    assert (request.answers, len(purgatory)) == ([], 1)
    purgatory.committed(at(0), Offset(3), ErrorCode.NONE)

    assert request.codes == {0: ErrorCode.NONE}
    assert request.timer.is_cancelled
    assert is_empty(purgatory)


def test_one_high_watermark_answers_all_that_it_has_passed_in_their_order(purgatory):
    requests = [put(purgatory, p0=end) for end in (1, 2, 3)]

    purgatory.committed(at(0), Offset(2), ErrorCode.NONE)

    assert [len(each.answers) for each in requests] == [1, 1, 0]
    assert len(purgatory) == 1


def test_a_request_for_several_partitions_is_answered_once_with_each_ones_end(purgatory):
    request = put(purgatory, p0=1, p1=1, p2=1, p3=1)

    purgatory.committed(at(2), Offset(1), ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND)
    purgatory.fail(at(1), ErrorCode.NOT_LEADER_OR_FOLLOWER)
    purgatory.committed(at(0), Offset(9), ErrorCode.NONE)
    assert request.answers == []
    purgatory.time_out(request.waiting)

    assert request.codes == {
        0: ErrorCode.NONE,
        1: ErrorCode.NOT_LEADER_OR_FOLLOWER,
        2: ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        3: ErrorCode.REQUEST_TIMED_OUT,
    }
    assert [each.base_offset for each in request.answers[0]] == [0, NO_OFFSET, NO_OFFSET, NO_OFFSET]
    assert is_empty(purgatory)


def test_time_that_is_up_after_the_answer_changes_nothing(purgatory):
    request = put(purgatory, p0=1)
    purgatory.committed(at(0), Offset(1), ErrorCode.NONE)

    purgatory.time_out(request.waiting)  # it was in the inbox already

    assert request.codes == {0: ErrorCode.NONE}


def test_those_behind_one_whose_time_is_up_wait_on(purgatory):
    first, second = put(purgatory, p0=1), put(purgatory, p0=2)

    purgatory.time_out(first.waiting)
    purgatory.committed(at(0), Offset(2), ErrorCode.NONE)

    assert (first.codes, second.codes) == ({0: ErrorCode.REQUEST_TIMED_OUT}, {0: ErrorCode.NONE})


def test_news_of_partitions_for_which_nobody_waits_is_nothing(purgatory):
    purgatory.committed(at(0), Offset(1), ErrorCode.NONE)
    purgatory.fail(at(0), ErrorCode.NOT_LEADER_OR_FOLLOWER)

    assert is_empty(purgatory)


@pytest.mark.parametrize("seed", range(20))
def test_whatever_happens_each_is_answered_once_and_nothing_is_left(purgatory, seed):
    dice, ends, requests = Random(seed), dict.fromkeys(range(4), 0), []

    for _ in range(1_000):
        match dice.randrange(4):
            case 0 | 1:
                chosen = dice.sample(sorted(ends), dice.randint(1, 3))
                for number in chosen:
                    ends[number] += 1
                requests.append(put(purgatory, **{f"p{each}": ends[each] for each in chosen}))
            case 2:
                number = dice.choice(sorted(ends))
                upto = dice.randint(0, ends[number])
                purgatory.committed(at(number), Offset(upto), ErrorCode.NONE)
            case 3 if requests:
                purgatory.time_out(dice.choice(requests).waiting)
        if not dice.randrange(100):
            purgatory.fail(at(dice.choice(sorted(ends))), ErrorCode.NOT_LEADER_OR_FOLLOWER)
    for request in requests:
        purgatory.time_out(request.waiting)

    assert {len(each.answers) for each in requests} == {1}
    assert all(each.timer.is_cancelled for each in requests)
    assert is_empty(purgatory)
