"""Processes of ours: what they say, what they are told, and that none is left behind."""

import asyncio
import os
import signal
import subprocess
import sys

import pytest

from runtime.child import Child
from tests.support.mailbox import Mailbox
from tests.support.processes import wait_for_end

LOUD = """
import sys
print("ready", flush=True)
for line in sys.stdin:
    if line == "complain\\n":
        print("it hurts", file=sys.stderr, flush=True)
        sys.exit(3)
    print("heard " + line, end="", flush=True)
"""


@pytest.fixture
def module(tmp_path, monkeypatch):
    """A module of these lines, which a child can run."""

    def make(lines: str) -> str:
        (tmp_path / "child_of_test.py").write_text(lines)
        monkeypatch.setenv("PYTHONPATH", str(tmp_path))
        return "child_of_test"

    return make


async def test_lines_come_and_go(module):
    said = Mailbox()
    child = await Child.start(module(LOUD), [], said.tell)
    assert await said.next() == "ready"

    child.send("cut broker-2")

    assert await said.next() == "heard cut broker-2"
    assert child.is_alive
    assert await child.terminate(10) == -signal.SIGTERM
    assert not child.is_alive


async def test_its_last_complaint_is_kept(module):
    said = Mailbox()
    child = await Child.start(module(LOUD), [], said.tell)
    await said.next()

    child.send("complain")

    assert await child.ended() == 3
    assert child.complaint == "it hurts"


async def test_one_that_does_not_listen_is_killed(module):
    said = Mailbox()
    deaf = "import signal, time\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
    child = await Child.start(module(deaf + "print(1, flush=True)\ntime.sleep(600)"), [], said.tell)
    await said.next()

    assert await child.terminate(0.2) == -signal.SIGKILL


async def test_one_that_stands_still_can_be_ended(module):
    said = Mailbox()
    child = await Child.start(module(LOUD), [], said.tell)
    await said.next()
    child.signal(signal.SIGSTOP)

    async with asyncio.timeout(20):
        assert await child.terminate(10) == -signal.SIGTERM


async def test_a_line_without_end_ends_the_child(module):
    child = await Child.start(
        module("print('x' * (1 << 22))\nimport time\ntime.sleep(600)"), [], print
    )

    async with asyncio.timeout(20):
        assert await child.ended() == -signal.SIGKILL


def test_a_child_dies_with_its_parent(module, tmp_path):
    name = module("import time\ntime.sleep(600)")
    parent = (
        "import asyncio\nfrom runtime.child import Child\n"
        "async def main():\n"
        f"    child = await Child.start({name!r}, [], print)\n"
        "    print(child.pid, flush=True)\n"
        "    await child.ended()\n"
        "asyncio.run(main())\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", parent], stdout=subprocess.PIPE, text=True, env=dict(os.environ)
    )
    assert process.stdout is not None
    pid = int(process.stdout.readline())

    process.kill()
    process.communicate()

    wait_for_end(pid)
