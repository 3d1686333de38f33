"""Where trace events go: complete Parquet parts, one table an event.

Rule: a part is complete or absent. It is written under a hidden name, which Spark passes over, and
renamed into place; a kill loses at most what came since the last write, half a second ago, even if
the loop hangs, since the recorder has a thread of its own. Tables are
`FOLDER/<event>/run=<run>/hour=<hour>/part-<origin>-<n>.parquet`.

Nothing is synced: a killed process loses no page that the kernel has, and a machine that loses its
power may lose the last parts.
"""

import asyncio
import fcntl
import logging
import os
import re
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from runtime.tables import by_event, by_hour, table_of_events, table_of_messages
from runtime.tracing import MESSAGE, Drained, Trace
from wire.trace import SCHEMA_VERSION, MessageHandled

FLUSH_MS: Final = 500
FULL_MESSAGES: Final = 64_000  # so many are written before their time,
FULL_EVENTS: Final = 50_000  # and so many others
TICK_MS: Final = 50
# A busy loop lets go of Python's lock at every select, for a microsecond, and that keeps a thread
# beside it from ever demanding the lock: it starves for seconds, and every select costs the loop a
# scuffle. So the thread sleeps until the loop calls it, and the loop waits while it works, a little
# at a time; not for long, since a disk may hang. Who is not called knows that the loop hangs.
WAY_S: Final = 0.01
PATIENCE_S: Final = 0.5
UNCALLED_S: Final = 0.15
METADATA: Final = {"understudy.schema": str(SCHEMA_VERSION)}

_log = logging.getLogger("understudy.trace")


class Recorder:
    """Drains a trace into a folder, in a thread of its own."""

    def __init__(
        self,
        trace: Trace,
        folder: Path,
        *,
        run: str,
        origin: str = "0",
        flush_ms: float = FLUSH_MS,
    ) -> None:
        if not re.fullmatch(r"[\w.+-]+", run):
            raise ValueError(f"a run's name becomes a folder's: {run!r} will not do")
        if not re.fullmatch(r"\w+", origin):
            raise ValueError(f"an origin is a word, not {origin!r}")
        self._trace = trace
        self._folder = folder
        self._run = run
        self._origin = origin
        self._flush_ms = flush_ms
        self._number: int | None = None  # of the last part; None: the folder was not looked at
        self._thread: threading.Thread | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._stopping = threading.Event()
        self._writing = threading.Lock()
        self._call = threading.Event()  # the loop gives the thread its turn
        self._passed = threading.Event()  # the thread has had it
        self._passed.set()
        self._patience_s = PATIENCE_S  # how much longer the loop would wait for that
        self._is_failing = False
        self.lost = 0  # events that could not be written: the disk was full, or gone

    async def start(self) -> None:
        """Write from now on."""
        self._thread = threading.Thread(target=self._run_on, name="recorder")
        self._thread.start()
        self._give_way(asyncio.get_running_loop())

    async def close(self) -> None:
        """Write what is left, and stop."""
        self._stopping.set()
        self._call.set()
        if self._timer is not None:
            self._timer.cancel()
        if self._thread is not None:
            await asyncio.to_thread(self._thread.join)
        await self.flush()

    async def flush(self) -> None:
        """Write all that has come so far."""
        await asyncio.to_thread(self.write)

    def write(self) -> None:
        """Write a part for each kind of event that has come."""
        with self._writing:
            rows, events = self._trace.drain()
            if not rows and not events:
                return
            before = self.lost
            if rows:
                table = partial(table_of_messages, self._trace, rows)
                self._write(MessageHandled.__name__, len(rows) // MESSAGE.size, table)
            for event, group in by_event(Drained(bytearray(), events)).items():
                table = partial(table_of_events, event, group)
                self._write(event.__name__, len(group.events), table)
            self._report(before)

    def _run_on(self) -> None:
        """Write in time; until told to stop, or until there is no program left."""
        self._sweep()
        due = time.monotonic() + self._flush_ms / 1000
        while threading.main_thread().is_alive() and not self._stopping.is_set():
            self._call.wait(UNCALLED_S)
            self._call.clear()
            messages, events = self._trace.waiting()
            is_full = messages >= FULL_MESSAGES or events >= FULL_EVENTS
            if is_full or time.monotonic() >= due:
                self.write()
                due = time.monotonic() + self._flush_ms / 1000
            self._patience_s = PATIENCE_S
            self._passed.set()
        self.write()

    def _give_way(self, loop: asyncio.AbstractEventLoop) -> None:
        """On the loop, now and then: call the thread, and wait until it has had its turn."""
        if self._passed.is_set():
            self._passed.clear()
            self._call.set()
        is_late = self._patience_s > 0 and not self._passed.wait(WAY_S)
        if is_late:
            self._patience_s -= WAY_S
        if not self._stopping.is_set():
            self._timer = loop.call_later(0 if is_late else TICK_MS / 1000, self._give_way, loop)

    def _write(self, name: str, count: int, table: Callable[[], pa.Table]) -> None:
        """Write one table, or count it as lost: neither a disk nor an odd value ends the rest."""
        try:
            for hour, rows in by_hour(table()):
                self._write_part(name, hour, rows)
                count -= rows.num_rows
        except (OSError, OverflowError, pa.ArrowException) as error:
            self.lost += count
            if not self._is_failing:
                _log.error("%d %s events of the trace are lost: %s", count, name, error)

    def _write_part(self, name: str, hour: str, table: pa.Table) -> None:
        folder = self._folder / name / f"run={self._run}" / f"hour={hour}"
        folder.mkdir(parents=True, exist_ok=True)
        part = f"part-{self._origin}-{self._next_number():06d}.parquet"
        hidden = self._folder / f".{name}-{self._run}-{part}.{os.getpid()}.tmp"
        try:
            with hidden.open("wb") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX)  # tells a sweep that somebody is writing
                write_parquet(table, hidden)
                hidden.replace(folder / part)
        finally:
            with suppress(OSError):
                hidden.unlink(missing_ok=True)

    def _report(self, before: int) -> None:
        """Say when losing begins and ends, and not every half second in between."""
        was_failing, self._is_failing = self._is_failing, self.lost > before
        if was_failing and not self._is_failing:
            _log.warning("the trace is written again; it lacks %d events", self.lost)

    def _next_number(self) -> int:
        if self._number is None:
            parts = self._folder.glob(f"*/run={self._run}/hour=*/part-{self._origin}-*.parquet")
            numbers = (part.stem.rpartition("-")[2] for part in parts)
            self._number = max((int(each) for each in numbers if each.isdecimal()), default=0)
        self._number += 1
        return self._number

    def _sweep(self) -> None:
        """Remove what killed recorders left half-written; what is being written is locked."""
        for hidden in self._folder.glob(".*.parquet.*.tmp"):
            with suppress(OSError), hidden.open("rb") as half:
                fcntl.flock(half, fcntl.LOCK_EX | fcntl.LOCK_NB)
                hidden.unlink()


def write_parquet(table: pa.Table, path: Path) -> None:
    """Write a table: ids and times by their differences, texts by their number in a dictionary."""
    integers = [field.name for field in table.schema if field.type == pa.int64()]
    texts = [field.name for field in table.schema if field.name not in integers]
    with pq.ParquetWriter(
        path,
        table.schema,
        compression="zstd",
        use_dictionary=texts,
        write_statistics=integers,  # of a text they are dear, and its dictionary says more
        column_encoding=dict.fromkeys(integers, "DELTA_BINARY_PACKED"),
        store_schema=False,  # Parquet's own says it all, and a reader should get plain texts
    ) as writer:
        writer.write_table(table)
        writer.add_key_value_metadata(METADATA)
