"""Where a token comes from, and that it is never shown."""

import pytest

from actors.token import BadToken, token_of

TOKEN = "a-token-of-some-length"


def test_a_file_wins_over_the_environment(tmp_path):
    file = tmp_path / "token"
    file.write_text(TOKEN + "\n")

    assert token_of(file, {"UNDERSTUDY_TOKEN": "another-token-altogether"}) == TOKEN
    assert token_of(None, {"UNDERSTUDY_TOKEN": TOKEN}) == TOKEN
    assert token_of(None, {}) is None


@pytest.mark.parametrize("text", ["short", "x" * 600, "sixteen letters and spaces", "ümlauts" * 4])
def test_what_can_be_no_token_is_refused_unseen(tmp_path, text):
    file = tmp_path / "token"
    file.write_text(text, encoding="utf-8")

    with pytest.raises(BadToken) as raised:
        token_of(file, {})

    assert text not in str(raised.value)


def test_a_file_that_cannot_be_read_is_a_sentence(tmp_path):
    with pytest.raises(BadToken, match="cannot be read"):
        token_of(tmp_path / "none", {})
