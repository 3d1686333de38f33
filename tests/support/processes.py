"""Real processes for tests: started, read line by line, and looked for afterwards."""

import os
import select
import signal
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


class Command:
    """A command of bin/ under this Python, with a temporary folder of its own."""

    def __init__(self, name: str, *arguments: str, tmp: Path) -> None:
        self._process = subprocess.Popen(
            [sys.executable, str(ROOT / "bin" / name), *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=os.environ | {"TMPDIR": str(tmp), "PYTHONPATH": str(ROOT)},
        )
        self.lines: list[str] = []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._process.kill()
        self._process.communicate()

    @property
    def pid(self) -> int:
        return self._process.pid

    def line_with(self, text: str) -> str:
        """The next line that has a text; the end of output is a failure."""
        for line in self._process.stdout:
            self.lines.append(line.rstrip())
            if text in line:
                return line.rstrip()
        raise AssertionError(f"no {text!r} in {self.lines}, {self._process.stderr.read()}")

    def send(self, number: int) -> None:
        self._process.send_signal(number)

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()

    def end(self, timeout_s: float = 30) -> tuple[int, str, str]:
        out, err = self._process.communicate(timeout=timeout_s)
        return self._process.returncode, out, err

    def interrupt(self) -> tuple[int, str, str]:
        self.send(signal.SIGINT)
        return self.end()


def zookeepers_in(tmp: Path) -> list[int]:
    """The embedded servers whose data are in a folder."""
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                line = (folder / "cmdline").read_bytes()
            except OSError:
                continue
            if str(tmp).encode() in line and b"ZooKeeperServerMain" in line:
                found.append(int(folder.name))
    return found


def wait_for_end(pid: int, timeout_s: float = 20) -> None:
    """Wait until a process that is not our child has ended."""
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        ready, _, _ = select.select([descriptor], [], [], timeout_s)
        assert ready, f"process {pid} is still there"
    finally:
        os.close(descriptor)
