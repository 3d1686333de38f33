"""What is known of producers: KIP-98's sequences, and what becomes of them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.broker.log import producers
from actors.broker.log.producers import (
    InvalidProducerEpoch,
    OutOfOrderSequence,
    ProducerStates,
)
from wire.ids import LeaderEpoch, Offset, ProducerEpoch, ProducerId
from wire.records import (
    BatchHeader,
    ProducerStamp,
    Record,
    decode_header,
    encode_batch,
    sequence_after,
)

NOW_MS = 1_000
LAST = 2**31 - 1


def header(sequence: int, *, at: int, count: int = 1, epoch: int = 0, who: int = 7) -> BatchHeader:
    """Of a batch of so many records at an offset."""
    records = [Record(offset=Offset(at + n), timestamp_ms=5, value=b"v") for n in range(count)]
    stamp = ProducerStamp(
        producer_id=ProducerId(who), producer_epoch=ProducerEpoch(epoch), base_sequence=sequence
    )
    batch = encode_batch(records, producer=stamp, partition_leader_epoch=LeaderEpoch(0))
    return decode_header(batch)


def written(*headers: BatchHeader) -> ProducerStates:
    states = ProducerStates()
    for each in headers:
        assert states.judge(each) is None
        states.take(each, NOW_MS)
    return states


def test_whoever_is_not_known_may_begin_with_any_sequence():
    assert written(header(41, at=0)).get(ProducerId(7)).last_sequence == 41


def test_the_next_batch_follows_the_last_sequence():
    states = written(header(0, at=0, count=3))

    assert states.judge(header(3, at=9)) is None
    for wrong in (1, 2, 4, LAST):
        with pytest.raises(OutOfOrderSequence, match=f"sequence {wrong}, and 3 is due"):
            states.judge(header(wrong, at=9))


def test_a_batch_that_comes_again_is_where_it_was():
    states = written(*(header(n * 2, at=10 + n * 2, count=2) for n in range(5)))

    for n in range(5):
        there = states.judge(header(n * 2, at=99, count=2))
        assert (there.base_offset, there.last_offset) == (10 + n * 2, 11 + n * 2)


def test_only_the_last_five_batches_are_known():
    states = written(*(header(n, at=n) for n in range(6)))

    with pytest.raises(OutOfOrderSequence, match="sequence 0, and 6 is due"):
        states.judge(header(0, at=9))
    assert states.judge(header(1, at=9)).base_offset == 1


def test_a_batch_of_another_length_is_not_the_same():
    states = written(header(0, at=0, count=2))

    with pytest.raises(OutOfOrderSequence):
        states.judge(header(0, at=9, count=1))


def test_after_the_last_sequence_comes_0():
    states = written(header(LAST - 1, at=0, count=4))

    assert states.get(ProducerId(7)).last_sequence == 1
    assert states.judge(header(LAST - 1, at=9, count=4)).base_offset == 0
    assert states.judge(header(2, at=9)) is None
    assert written(header(LAST, at=0)).judge(header(0, at=9)) is None


def test_a_new_epoch_begins_with_sequence_0():
    states = written(header(5, at=0))

    assert states.judge(header(0, at=9, epoch=1)) is None
    with pytest.raises(OutOfOrderSequence, match="begins epoch 1 with sequence 6, not 0"):
        states.judge(header(6, at=9, epoch=1))


def test_an_earlier_epoch_is_fenced():
    states = written(header(0, at=0, epoch=3))

    with pytest.raises(InvalidProducerEpoch, match="at epoch 3; this batch is of epoch 2"):
        states.judge(header(0, at=9, epoch=2))


def test_batches_of_an_earlier_epoch_are_not_taken_for_those_of_a_later_one():
    states = written(header(0, at=0), header(0, at=1, epoch=1))

    assert states.judge(header(0, at=9, epoch=1)).base_offset == 1
    with pytest.raises(InvalidProducerEpoch):
        states.judge(header(0, at=9))


def test_producers_do_not_disturb_each_other():
    states = written(header(0, at=0), header(0, at=1, who=8), header(1, at=2))

    assert states.judge(header(0, at=9, who=8)).base_offset == 1
    assert states.judge(header(2, at=9)) is None


def test_a_follower_takes_what_the_leader_took():
    """It does not ask why: the leader may know less than it does, after a retention."""
    states = written(header(5, at=0, epoch=2))

    states.take(header(9, at=1, epoch=1), NOW_MS)

    known = states.get(ProducerId(7))
    assert (known.epoch, known.last_sequence, len(known.batches)) == (1, 9, 1)


def test_who_was_silent_is_forgotten():
    states = written(header(0, at=0))
    states.take(header(0, at=1, who=8), NOW_MS + 1)

    assert states.forget_silent(NOW_MS) == 1
    assert [each.producer_id for each in states] == [8]


def test_there_is_room_for_so_many_and_the_silent_one_makes_it(monkeypatch):
    monkeypatch.setattr(producers, "MOST_PRODUCERS", 2)
    states = written(header(0, at=0), header(0, at=1, who=8), header(1, at=2))

    states.take(header(0, at=3, who=9), NOW_MS)

    assert [each.producer_id for each in states] == [7, 9]


@given(st.integers(0, LAST), st.integers(0, LAST))
def test_sequences_go_round(sequence: int, count: int):
    later = sequence_after(sequence, count)

    assert 0 <= later <= LAST
    assert sequence_after(later, -count) == sequence
