"""What a topic may be called: B083."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.administration.names import check_topic_name, colliding
from tests.wire.strategies import fixed
from wire.errors import InvalidTopic, MalformedZNode
from wire.znode_json import read_topic


@pytest.mark.behaviour("B083")
@pytest.mark.parametrize("topic", ["a", "...", "_", "-", "Orders.v2_eu-1", "x" * 249])
def test_a_name_of_letters_digits_dots_dashes_and_underscores_is_allowed(topic: str) -> None:
    check_topic_name(topic)


@pytest.mark.behaviour("B083")
@pytest.mark.parametrize(
    ("topic", "sentence"),
    [
        ("", "is empty; it must have 1 to 249 characters"),
        (".", "is '.', which is a folder"),
        ("..", "is '..', which is a folder"),
        ("x" * 250, "has 250 characters; it must have at most 249"),
        ("a/b", "'a/b' has '/' at position 1; only ASCII letters"),
        ("two words", "'two words' has ' ' at position 3"),
        ("größe", "'größe' has 'ö' at position 2"),
        ("line\n", r"'line\\n' has '\\n' at position 4"),
        ("\ud800", r"has '\\ud800' at position 0"),
    ],
)
def test_another_name_is_refused_and_the_sentence_says_why(topic: str, sentence: str) -> None:
    with pytest.raises(InvalidTopic, match=sentence):
        check_topic_name(topic)


@fixed(200)
@given(st.text(max_size=4) | st.text("aZ0._-", max_size=252))
def test_what_is_allowed_can_be_read_from_zookeeper_and_nothing_else_can(topic: str) -> None:
    try:
        read_topic("/brokers/topics", topic)
    except MalformedZNode:
        with pytest.raises(InvalidTopic):
            check_topic_name(topic)
    else:
        check_topic_name(topic)


@pytest.mark.behaviour("B083")
def test_names_collide_that_differ_only_in_dots_and_underscores() -> None:
    others = ["a_b_c", "a.b.c", "a-b.c", "a.b_c", "a.b", "A.b.c"]

    assert colliding("a.b_c", others) == ("a.b.c", "a_b_c")


def test_a_name_does_not_collide_with_itself() -> None:
    assert colliding("a.b", ["a.b", "a.b"]) == ()


def test_the_order_of_a_set_is_not_seen() -> None:
    names = {"a_b.c", "a.b.c", "a_b_c"}

    assert colliding("a.b_c", names) == ("a.b.c", "a_b.c", "a_b_c")
