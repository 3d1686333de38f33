"""Every change of a transactional id, and what is written of it: Kafka's TransactionMetadata."""

import struct
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.coordinator import transaction_rules as rules
from actors.coordinator.transaction_records import (
    decode_transactions,
    decode_value,
    encode_transaction,
    encode_value,
)
from actors.coordinator.transaction_states import (
    LEGAL_FROM,
    ConcurrentTransactions,
    InvalidTxnState,
    Transaction,
    TransactionState,
    TransactionValue,
)
from wire.errors import InvalidRecord
from wire.ids import ProducerEpoch, ProducerId, TopicPartition

STATES = list(TransactionState)
E, O, PC, PA, CC, CA, D, F = STATES  # noqa: E741 - in the order of their numbers
LEGAL = {  # by hand: to, from
    *((E, E), (E, CC), (E, CA)),
    *((O, O), (O, E), (O, CC), (O, CA)),
    *((PC, O), (PA, O), (PA, F), (CC, PC), (CA, PA)),
    *((D, E), (D, CC), (D, CA), (F, O)),
}
A, B = TopicPartition("a", 0), TopicPartition("b", 1)


def value(state=E, *, epoch=3, partitions=(), start_ms=-1):
    return TransactionValue(
        producer_id=ProducerId(7),
        producer_epoch=ProducerEpoch(epoch),
        timeout_ms=60_000,
        state=state,
        partitions=frozenset(partitions),
        update_ms=5,
        start_ms=start_ms,
    )


def known(state=E, **options):
    return Transaction("mover", value(state, **options))


@pytest.mark.parametrize("to", STATES, ids=lambda each: each.words)
@pytest.mark.parametrize("before", STATES, ids=lambda each: each.words)
def test_only_these_changes_may_be_begun(before, to):
    transaction = known(before)
    if (to, before) in LEGAL:
        transaction.begin(to)
        assert transaction.pending is to
    else:
        with pytest.raises(InvalidTxnState):
            transaction.begin(to)
        assert transaction.pending is None


def test_the_table_has_every_state():
    assert set(LEGAL_FROM) == set(STATES)


def test_while_a_change_is_on_its_way_no_other_is_begun():
    transaction = known(O)
    transaction.begin(PC)

    with pytest.raises(ConcurrentTransactions):
        transaction.begin(PA)
    transaction.settle(None)
    transaction.begin(PA)
    transaction.settle(value(PA, partitions=[A]))

    assert (transaction.state, transaction.unmarked) == (PA, {A})


@pytest.mark.parametrize("is_committed", [True, False])
@pytest.mark.parametrize("state", [E, O, PC, PA, CC, CA], ids=lambda each: each.words)
def test_how_a_transaction_may_be_ended(state, is_committed):
    ends = {O: PC if is_committed else PA}
    is_done = state is (CC if is_committed else CA)
    is_under_way = state is (PC if is_committed else PA)
    if is_under_way:
        with pytest.raises(ConcurrentTransactions):
            rules.ended(known(state), is_committed, 9)
    elif state in ends or is_done:
        found = rules.ended(known(state), is_committed, 9)
        assert (found.state if found else None) is ends.get(state)
    else:
        with pytest.raises(InvalidTxnState):
            rules.ended(known(state), is_committed, 9)


def test_partitions_are_added_until_the_transaction_ends():
    first = rules.added(known(CC, partitions=[B]), [A], 9)
    again = rules.added(known(O, partitions=[A], start_ms=9), [A], 10)
    more = rules.added(known(O, partitions=[A], start_ms=9), [A, B], 10)

    assert (first.state, first.partitions, first.start_ms) == (O, {A}, 9)
    assert again is None
    assert (more.partitions, more.start_ms) == ({A, B}, 9)
    for state in (PC, PA):
        with pytest.raises(ConcurrentTransactions):
            rules.added(known(state), [A], 9)


def test_who_is_not_the_last_is_fenced():
    rules.check_producer(known(), ProducerId(7), ProducerEpoch(3))
    for epoch in (2, 4):
        with pytest.raises(rules.ProducerFenced):
            rules.check_producer(known(), ProducerId(7), ProducerEpoch(epoch))
    for nobody in (None, known()):
        with pytest.raises(rules.InvalidProducerIdMapping):
            rules.check_producer(nobody, ProducerId(8), ProducerEpoch(3))


def test_one_that_says_who_it_was_must_be_the_last_or_its_retry():
    transaction = known()
    transaction.last_epoch = ProducerEpoch(2)

    for epoch in (2, 3):
        rules.check_expected(transaction, ProducerId(7), ProducerEpoch(epoch))
    assert rules.is_retry(transaction, ProducerEpoch(2))
    assert not rules.is_retry(transaction, ProducerEpoch(3))
    for producer, epoch in ((7, 1), (7, 4), (8, 3)):
        with pytest.raises(rules.ProducerFenced):
            rules.check_expected(transaction, ProducerId(producer), ProducerEpoch(epoch))


def test_after_the_last_epoch_comes_another_producer_id():
    assert not rules.needs_new_id(known(epoch=32_765))
    assert rules.needs_new_id(known(epoch=32_766))
    assert rules.fenced(known(O, epoch=32_766), 9).producer_epoch == 32_767
    renewed = rules.initialised(known(epoch=32_766), 1_000, 9, ProducerId(8))
    assert (renewed.producer_id, renewed.producer_epoch) == (8, 0)


def test_only_an_open_transaction_is_too_late():
    assert rules.is_timed_out(known(O, start_ms=100), 60_100)
    assert not rules.is_timed_out(known(O, start_ms=100), 60_099)
    assert not rules.is_timed_out(known(PC, start_ms=100), 99_999)


# --- records ------------------------------------------------------------------------------------


def test_a_record_has_kafkas_format():
    """Written by hand, as TransactionLogValue's schema says."""
    by_hand = struct.pack(">hqhib", 0, 7, 3, 60_000, 1) + struct.pack(">i", 2)
    by_hand += struct.pack(">h1sii", 1, b"a", 1, 0) + struct.pack(">h1sii", 1, b"b", 2, 1)
    by_hand += struct.pack(">i", 4) + struct.pack(">qq", 5, 9)

    found = value(O, partitions=[B, A, TopicPartition("b", 4)], start_ms=9)
    assert encode_value(found) == by_hand
    assert decode_value(by_hand) == found
    empty = struct.pack(">hqhib", 0, 7, 3, 60_000, 0) + struct.pack(">iqq", -1, 5, -1)
    assert encode_value(value()) == empty
    assert decode_value(empty) == value()


def test_a_change_is_read_as_it_was_written():
    for change in (("mover", value(PA, partitions=[A])), ("mover", None)):
        assert list(decode_transactions(encode_transaction(change, 1), 0)) == [change]


@given(st.binary(max_size=80))
def test_any_bytes_are_a_transaction_or_refused(data: bytes):
    with suppress(InvalidRecord):
        decode_value(data)
