"""How far long work is, for who waits for it.

Rule: work that is done within two seconds shows nothing. On a terminal one line is written over;
elsewhere a calm line is left now and then. All of it goes to standard error: what a command
answers is not mixed with it.
"""

import shutil
from typing import Final, TextIO

from runtime.world import Clock

QUIET_MS: Final = 2_000
REDRAW_MS: Final = 100
LINE_MS: Final = 5_000
BAR: Final = 24


class Progress:
    """One piece of work."""

    def __init__(self, name: str, total: int, stream: TextIO, clock: Clock) -> None:
        self._name = name
        self._total = max(1, total)
        self._stream = stream
        self._clock = clock
        self._is_terminal = stream.isatty()
        self._begun_ms = clock.elapsed_ms()
        self._shown_ms = self._begun_ms + QUIET_MS - LINE_MS
        self._is_shown = False

    def update(self, done: int, text: str = "") -> None:
        """So much is done."""
        now_ms = self._clock.elapsed_ms()
        pause_ms = REDRAW_MS if self._is_terminal else LINE_MS
        if now_ms - self._begun_ms < QUIET_MS or now_ms - self._shown_ms < pause_ms:
            return
        self._shown_ms, self._is_shown = now_ms, True
        line = self._line(done, now_ms - self._begun_ms, text)
        if self._is_terminal:
            width = shutil.get_terminal_size().columns - 1
            self._stream.write("\r\x1b[K" + line[:width])
        else:
            self._stream.write(line + "\n")
        self._stream.flush()

    def close(self) -> None:
        """It is over: the line is gone from a terminal."""
        if self._is_shown and self._is_terminal:
            self._stream.write("\r\x1b[K")
            self._stream.flush()

    def _line(self, done: int, took_ms: float, text: str) -> str:
        part = min(1.0, done / self._total)
        full = round(part * BAR)
        left = f", {took_ms / part / 1000 * (1 - part):.0f} s left" if part > 0 else ""
        bar = "█" * full + "░" * (BAR - full)
        return f"{self._name} {bar} {part:4.0%}{left}{' · ' + text if text else ''}"
