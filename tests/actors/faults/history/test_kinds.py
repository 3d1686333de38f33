"""Every kind of anomaly is found where it was planted, and nowhere else."""

import pytest

from tests.actors.faults.history.planted import ORDERS, Planted


@pytest.fixture
def history():
    return Planted()


def test_a_sound_history_is_silent(history):
    history.send("a", 0)
    history.send("b", 1)
    history.read("ab")

    assert history.kinds() == []


def test_an_empty_history_is_silent(history):
    assert history.kinds() == []


# --- lost -----------------------------------------------------------------------------------------


def test_acknowledged_and_beyond_the_end_is_lost(history):
    history.send("a", 0)
    history.send("b", 1)
    history.read("a")

    assert history.sentences() == [
        "record p-2 ('b') was acknowledged at offset 1 of orders-0 and is gone: "
        "c came to the end at 1"
    ]


def test_acknowledged_and_jumped_over_is_lost(history):
    for offset, value in enumerate("abc"):
        history.send(value, offset)
    history.read("a.c")

    assert history.sentences() == [
        "record p-2 ('b') was acknowledged at offset 1 of orders-0 and is gone: "
        "c came from offset 1 to 2"
    ]


def test_acknowledged_and_overwritten_is_lost(history):
    history.send("a", 0)
    history.send("b")
    history.read("b")

    assert history.sentences() == [
        "record p-1 ('a') was acknowledged at offset 0 of orders-0 and is gone: c read 'b' there"
    ]


def test_acknowledged_without_an_offset_and_nowhere_is_lost(history):
    history.send("a", -1)
    history.send("b", 0)
    history.read("b")

    assert history.kinds() == ["lost"]


def test_who_has_not_read_all_cannot_say_that_it_is_nowhere(history):
    history.send("a", -1)
    history.read("b", start=1)
    history.send("b", 1)

    assert history.kinds() == []


def test_read_once_and_gone_later_is_lost(history):
    history.send("a")
    history.read("a")
    history.read("", client="d")

    assert history.sentences() == [
        "'a' was read at offset 0 of orders-0 by c and is gone: d came to the end at 0"
    ]


@pytest.mark.parametrize("acks", [0, 1])
def test_what_need_not_be_kept_may_be_lost(history, acks):
    history.send("a", 0, acks=acks)
    history.read("")
    history.send("b", 0)
    history.read("b", client="d")

    assert history.kinds() == []


def test_an_unclean_election_may_lose_anything(history):
    history.send("a", 0)
    history.read("a")
    history.send("b", 0)
    history.read("b", client="d")

    assert history.kinds(unclean=[ORDERS]) == []
    assert history.kinds() == ["offsets disagree", "offsets disagree"]


def test_an_end_that_was_asked_for_before_the_acknowledgement_proves_nothing(history):
    record = history.send("a")
    began_ms = history.now_ms()
    history.acknowledged(record, 0)
    history.end(0, began_ms=began_ms)

    assert history.kinds() == []


def test_a_reader_judges_only_what_it_has_passed(history):
    for offset, value in enumerate("abcd"):
        history.send(value, offset)
    history.poll("cd", start=2)

    assert history.kinds() == []


def test_an_uncertain_failure_may_be_there_or_not(history):
    history.failed(history.send("a"), "timed out")
    history.failed(history.send("b"), "timed out")
    history.read("b")

    assert history.kinds() == []


# --- duplicated -----------------------------------------------------------------------------------


def test_an_idempotent_record_that_is_there_twice_is_duplicated(history):
    history.send("a", 0, is_idempotent=True)
    history.read("aa")

    assert history.sentences() == [
        "'a' was sent once to orders-0 and is there twice: at offsets 0, 1"
    ]


def test_a_retry_without_idempotence_may_duplicate(history):
    history.send("a", 1)
    history.read("aa")

    assert history.kinds() == []
    assert history.kinds(are_duplicates_allowed=False) == ["duplicated"]


def test_the_same_value_may_be_sent_twice(history):
    history.send("a", 0, is_idempotent=True)
    history.send("a", 1, is_idempotent=True)
    history.read("aa")
    history.read("aa", client="d")

    assert history.kinds(are_duplicates_allowed=False) == []


def test_a_record_that_is_acknowledged_at_two_offsets_is_duplicated(history):
    record = history.send("a", 0)
    history.acknowledged(record, 1)

    assert history.sentences() == ["record p-1 ('a') was acknowledged twice: at offset 0, and at 1"]


# --- reordered ------------------------------------------------------------------------------------


def test_a_record_before_one_that_was_acknowledged_earlier_is_reordered(history):
    history.send("a", 1)
    history.send("b", 0)
    history.read("ba")

    assert history.kinds() == ["reordered"]


def test_records_on_their_way_together_may_come_in_any_order(history):
    first, second = history.send("a"), history.send("b")
    history.acknowledged(first, 1)
    history.acknowledged(second, 0)
    history.read("ba")

    assert history.kinds() == []


def test_clients_do_not_wait_for_each_other(history):
    history.send("a", 1)
    history.send("b", 0, client="q")

    assert history.kinds() == []


def test_order_is_seen_by_reading_where_no_offset_was_said(history):
    history.send("a", -1)
    history.send("b", -1)
    history.read("ba")

    assert history.kinds() == ["reordered"]


def test_after_one_that_may_be_lost_its_offset_may_be_used_again(history):
    history.send("a", 5, acks=1)
    history.send("b", 4)

    assert history.kinds() == []


# --- phantom --------------------------------------------------------------------------------------


def test_what_nobody_sent_is_a_phantom(history):
    history.read("x")

    assert history.sentences() == ["c read 'x' at offset 0 of orders-0, and nobody sent it there"]


def test_what_failed_for_certain_is_a_phantom(history):
    history.failed(history.send("a"), "no room", is_certain=True)
    history.read("a")

    assert history.kinds() == ["phantom"]


def test_an_unclean_election_invents_nothing(history):
    history.read("x")

    assert history.kinds(unclean=[ORDERS]) == ["phantom"]


def test_a_record_without_a_partition_may_be_in_any(history):
    history.sent("p", "orders", b"a")
    history.sent("p", "payments", b"b")
    history.read("ab")

    assert history.sentences() == ["c read 'b' at offset 1 of orders-0, and nobody sent it there"]


# --- stale reads ----------------------------------------------------------------------------------


def test_an_end_before_what_was_acknowledged_is_stale_if_it_is_found_later(history):
    history.send("a", 0)
    history.send("b", 1)
    history.read("a")
    history.read("ab", client="d")

    assert history.sentences() == [
        "record p-2 ('b') was acknowledged at offset 1 of orders-0 and was not there for all: "
        "c came to the end at 1"
    ]


def test_a_jump_over_what_another_finds_is_stale(history):
    history.send("a", 0)
    history.send("b")
    history.send("c", 2)
    history.read("a.c")
    history.read("abc", client="d")

    assert history.kinds() == ["stale read"]


def test_whoever_goes_on_reading_is_not_stale(history):
    history.send("a", 0)
    history.read("a")
    history.send("b", 1)
    history.poll("b", start=1)
    history.end(2)

    assert history.kinds() == []


# --- offsets that disagree ------------------------------------------------------------------------


def test_an_offset_with_two_values_disagrees(history):
    history.send("a")
    history.send("b")
    history.read("a")
    history.read("b", client="d")

    assert history.sentences() == ["offset 0 of orders-0 was read as 'a' by c and as 'b' by d"]


def test_a_record_read_elsewhere_than_acknowledged_disagrees(history):
    history.send("a", 0)
    history.send("b")
    history.read("ba")

    assert history.sentences() == [
        "record p-1 ('a') was acknowledged at offset 0 of orders-0 and read at 1"
    ]


def test_a_copy_before_the_one_acknowledged_is_no_disagreement(history):
    history.send("a", 1)
    history.read("a", is_end=False)

    assert history.kinds() == []


def test_an_idempotent_record_has_no_copy(history):
    history.send("a", 1, is_idempotent=True)
    history.read("a", is_end=False)

    assert history.kinds() == ["offsets disagree"]


def test_two_records_acknowledged_at_one_offset_disagree(history):
    first, second = history.send("a"), history.send("b")
    history.acknowledged(first, 0)
    history.acknowledged(second, 0)

    assert history.kinds() == ["offsets disagree"]


# --- gaps, and what comes again -------------------------------------------------------------------


def test_a_hole_that_nobody_knows_is_a_gap(history):
    history.send("a", 0)
    history.send("c", 2)
    history.read("a.c")
    history.read("a.c", client="d")

    assert history.sentences() == [
        "c came from offset 1 of orders-0 to 2, and nobody knows what is between"
    ]
    assert history.kinds(sparse=[ORDERS]) == []


def test_a_reader_that_moves_leaves_no_gap(history):
    history.send("a", 0)
    history.send("b", 9)
    history.read("a", is_end=False)
    history.read("b", start=9)

    assert history.kinds() == []


def test_a_huge_gap_takes_no_time(history):
    history.send("a", 0)
    history.send("b", 2**62)
    history.poll("a", start=0)
    history.poll("b", start=2**62)

    assert history.kinds() == ["gap"]


def test_who_did_not_move_is_given_nothing_again(history):
    history.send("a", 0)
    history.read("a", is_end=False)
    history.poll("a", start=0)

    assert history.kinds() == ["read again"]


def test_who_never_says_where_it_goes_may_have_gone_back(history):
    history.send("a", 0)
    history.poll("a", start=0)
    history.poll("a", start=0)

    assert history.kinds() == []


# --- commits --------------------------------------------------------------------------------------


@pytest.mark.parametrize("seen", [3, None])
def test_a_commit_that_is_forgotten_is_lost(history, seen):
    history.commit(3)
    history.commit(5)
    history.see_commit(seen)

    assert history.kinds() == ["commit lost"]


def test_a_group_may_go_back(history):
    history.commit(5)
    history.commit(3)
    history.see_commit(3)

    assert history.kinds() == []


def test_a_commit_that_nobody_acknowledged_may_come_later(history):
    history.commit(3, is_acknowledged=False)
    history.commit(5)
    history.see_commit(3)

    assert history.kinds() == []


def test_a_commit_meanwhile_may_be_seen_or_not(history):
    history.commit(5)
    before_ms = history.now_ms()
    history.see_commit(5, before_ms)
    history.see_commit(3, before_ms)
    history.commit(3, before_ms)
    asked_ms = history.now_ms()
    history.commit(7)
    history.see_commit(3, asked_ms)

    assert history.kinds() == []


def test_groups_do_not_share_their_offsets(history):
    history.commit(5)
    history.committed_seen("d", "other", ORDERS, None)

    assert history.kinds() == []


def test_an_unclean_offsets_topic_may_forget_commits(history):
    history.commit(5)
    history.see_commit(None)
    offsets = type(ORDERS)("__consumer_offsets", 7)

    assert history.kinds(unclean=[offsets]) == []
