"""A program that records all the time and says so, for tests that kill it.

    python -m tests.support.endless FOLDER RUN [half]

Each line is the number of an event and its time in microseconds. With `half`, the program is killed
in the middle of its first part.
"""

import asyncio
import os
import signal
import sys
import time
from pathlib import Path

import msgspec

import runtime.recorder
from runtime.actor import Actor
from runtime.clock import real_trace
from runtime.recorder import Recorder, write_parquet
from runtime.system import System
from wire.trace import BrokerRegistered


class Count(msgspec.Struct, frozen=True):
    number: int


class Counter(Actor):
    async def on_receive(self, message: Count) -> None:
        self.host.trace(BrokerRegistered(message.number, 0, 0))
        sys.stdout.write(f"{message.number} {time.time_ns() // 1000}\n")
        sys.stdout.flush()
        self.ref.tell(Count(message.number + 1))


def write_half(table, path: Path) -> None:
    write_parquet(table, path)
    os.truncate(path, path.stat().st_size // 2)
    os.kill(os.getpid(), signal.SIGKILL)


async def main(folder: Path, run: str, *how: str) -> None:
    if "half" in how:
        runtime.recorder.write_parquet = write_half
    trace = real_trace(recording=True)
    recorder = Recorder(trace, folder, run=run)
    await recorder.start()
    node = System("broker-1", trace.at("broker-1"))
    node.start("counter", Counter()).tell(Count(1))
    await node.down()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), *sys.argv[2:]))
