"""Which transactions were aborted: Kafka's .txnindex."""

import struct

import pytest

from actors.broker.log.aborted import (
    AbortedEntry,
    AbortedTransactions,
    decode_index,
    encode_index,
    index_base,
)
from wire.errors import CorruptRecordBatch


def entries(*each):
    known = AbortedTransactions()
    for producer, first, last, stable in each:
        known.add(AbortedEntry(producer, first, last, stable))
    return known


def test_an_index_has_kafkas_format():
    entry = AbortedEntry(7, 10, 20, 15)
    by_hand = struct.pack(">hqqqq", 0, 7, 10, 20, 15)

    assert encode_index([entry, entry]) == by_hand * 2
    assert decode_index(by_hand * 2, "x") == (entry, entry)


@pytest.mark.parametrize(
    "data",
    [b"\0", struct.pack(">hqqqq", 1, 7, 10, 20, 15), struct.pack(">hqqqq", 0, 7, 20, 10, 15)],
)
def test_an_index_that_cannot_be_is_refused(data):
    with pytest.raises(CorruptRecordBatch):
        decode_index(data, "x")


@pytest.mark.parametrize(
    ("first", "upto", "found"),
    [
        (0, 5, []),
        (0, 6, [1]),
        (0, 100, [1, 2, 3]),
        (11, 100, [2, 3]),
        (20, 21, [2]),
        (21, 30, []),
        (31, 100, []),
    ],
)
def test_those_that_overlap_are_found(first, upto, found):
    known = entries((1, 5, 10, 11), (2, 7, 20, 21), (3, 30, 30, 31))

    assert [each.producer_id for each in known.overlapping(first, upto)] == found


def test_what_a_producer_wrote_in_one_is_told_from_what_others_wrote():
    known = entries((1, 5, 10, 11))

    assert known.has(1, 7)
    assert not known.has(2, 7)
    assert not known.has(1, 11)


def test_a_cut_and_a_new_beginning_forget():
    known = entries((1, 5, 10, 11), (2, 7, 20, 21), (3, 30, 30, 31))

    known.cut(30)
    known.forget_before(11)

    assert [each.producer_id for each in known.overlapping(0, 99)] == [2]


@pytest.mark.parametrize(
    ("name", "base"),
    [(f"{42:020}.txnindex", 42), (f"{42:020}.index", None), ("42.txnindex", None)],
)
def test_only_its_own_files_are_an_index(name, base):
    assert index_base(name) == base
