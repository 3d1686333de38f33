"""A bar for who waits, and calm lines for a file."""

from io import StringIO

import pytest

from actors.commands.progress import Progress


class Stream(StringIO):
    def __init__(self, is_terminal):
        super().__init__()
        self._is_terminal = is_terminal

    def isatty(self):
        return self._is_terminal


class HandClock:
    """Time passes when a test says so."""

    def __init__(self):
        self.at_ms = 0.0

    def now_ms(self):
        return round(self.at_ms)

    def elapsed_ms(self):
        return self.at_ms

    async def sleep(self, duration_ms):
        self.at_ms += duration_ms


def shown(*, is_terminal, every_ms, until_ms, is_closed=False):
    stream, clock = Stream(is_terminal), HandClock()
    progress = Progress("moving", until_ms, stream, clock)
    while clock.at_ms < until_ms:
        clock.at_ms += every_ms
        progress.update(int(clock.at_ms), "so far")
    if is_closed:
        progress.close()
    return stream.getvalue()


@pytest.mark.parametrize("is_terminal", [True, False])
def test_what_is_done_within_two_seconds_shows_nothing(is_terminal):
    assert shown(is_terminal=is_terminal, every_ms=10, until_ms=1_990, is_closed=True) == ""


def test_a_file_gets_a_line_every_few_seconds_and_nothing_to_move_a_cursor():
    text = shown(is_terminal=False, every_ms=100, until_ms=20_000, is_closed=True)

    lines = text.splitlines()
    assert len(lines) == 4  # at 2, 7, 12 and 17 seconds
    assert "\r" not in text
    assert "\x1b" not in text
    assert " 10%, 18 s left" in lines[0]
    assert lines[0].startswith("moving ")
    assert lines[0].endswith("so far")


def test_a_terminal_gets_one_line_that_is_gone_at_the_end(monkeypatch):
    monkeypatch.setenv("COLUMNS", "40")

    text = shown(is_terminal=True, every_ms=50, until_ms=4_000, is_closed=True)

    drawn = text.split("\r\x1b[K")
    assert "\n" not in text
    assert text.endswith("\r\x1b[K")
    assert 15 <= len(drawn) <= 25  # ten times a second
    assert all(len(each) < 40 for each in drawn)
    assert "\x1b[K" in text


def test_nothing_done_yet_and_nothing_to_do_are_no_accident():
    stream, clock = Stream(False), HandClock()
    progress = Progress("producing", 0, stream, clock)
    clock.at_ms = 3_000

    progress.update(0)
    clock.at_ms = 9_000
    progress.update(7)

    first, second = stream.getvalue().splitlines()
    assert "  0%" in first
    assert "100%" in second
