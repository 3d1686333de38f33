"""Other people's clients as a test has them: processes whose testimony becomes a history."""

import asyncio
import json
import sys
from asyncio.subprocess import PIPE
from pathlib import Path

from actors.faults.history.recording import History
from runtime.world import Clock
from wire.ids import TopicPartition

ROOT = Path(__file__).parents[2]


class WitnessClock:
    """The real clock; but what another process tells happened when it says."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.told_ms: float | None = None

    def elapsed_ms(self) -> float:
        return self._clock.elapsed_ms() if self.told_ms is None else self.told_ms


class Member:
    """One process, and what it said so far."""

    def __init__(self, name: str, group: str, history: History, clock: WitnessClock, news):
        self.name = name
        self.seen: list[bytes] = []
        self.read_from: set[TopicPartition] = set()  # since the last assignment
        self.assignments = 0
        self.first_record_ms: float | None = None
        self.errors: list[str] = []
        self.is_closed = False
        self.crash = ""
        self._group = group
        self._history = history
        self._clock = clock
        self._news = news
        self._process: asyncio.subprocess.Process | None = None

    async def start(self, kind: str, bootstrap: str, topic: str) -> None:
        arguments = ("-m", "tests.support.other_clients", kind, bootstrap, self._group, topic)
        self._process = await asyncio.create_subprocess_exec(
            sys.executable, *arguments, stdin=PIPE, stdout=PIPE, stderr=PIPE, cwd=ROOT
        )

    async def listen(self) -> None:
        """Take down all that it says, until it ends."""
        assert self._process is not None
        assert self._process.stdout is not None
        assert self._process.stderr is not None
        errors = asyncio.create_task(self._process.stderr.read())
        while line := await self._process.stdout.readline():
            self._take(json.loads(line))
            self._news()
        text = (await errors).decode()
        if await self._process.wait() or not self.is_closed:
            self.crash = text[-2_000:] or "it ended without a word"
        self._news()

    def stop(self) -> None:
        """Have it close its client; `listen` ends when it has."""
        assert self._process is not None
        assert self._process.stdin is not None
        self._process.stdin.close()

    def kill(self) -> None:
        """End it, if it has not ended."""
        if self._process is not None and self._process.returncode is None:
            self._process.kill()

    def _take(self, said: dict) -> None:
        self._clock.told_ms = said["at_ms"]
        match said["event"]:
            case "assigned":
                self.read_from = set()
                self.assignments += 1
            case "polled":
                for topic, number, offset, text in said["records"]:
                    self._take_record(TopicPartition(topic, number), offset, text.encode())
            case "committed":
                for topic, number, offset in said["offsets"]:
                    self._history.committed(
                        self.name,
                        self._group,
                        TopicPartition(topic, number),
                        offset,
                        began_ms=said["began_ms"],
                        is_acknowledged=said["is_done"],
                    )
            case "failed":
                self.errors.append(said["error"])
            case "closed":
                self.is_closed = True
        self._clock.told_ms = None

    def _take_record(self, partition: TopicPartition, offset: int, value: bytes) -> None:
        if partition not in self.read_from:
            self._history.positioned(self.name, partition, offset)
            self.read_from.add(partition)
        self._history.polled(self.name, partition, offset, value)
        self.seen.append(value)
