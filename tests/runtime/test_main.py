"""From a shell to a loop and back."""

import os
import subprocess
import sys

import pytest

TALKATIVE = """
from runtime.main import finish

def main():
    while True:
        print("again")

finish(main)
"""


BROKEN = """
from runtime.main import finish

def main():
    raise BrokenPipeError

finish(main)
"""


def finished(program, *, lines):
    """Its exit code and what it said on standard error, once so many lines were read of it."""
    with subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        for _ in range(lines):
            process.stdout.readline()
        process.stdout.close()
        return process.wait(), process.stderr.read()


def test_whoever_reads_no_further_ends_a_command_without_a_word():
    assert finished(TALKATIVE, lines=3) == (141, "")


def test_an_answer_that_is_still_in_the_buffer_when_nobody_reads_is_not_given():
    reader, writer = os.pipe()
    os.close(reader)
    program = "from runtime.main import finish; finish(lambda: print('a') or 0)"
    try:
        ended = subprocess.run(
            [sys.executable, "-c", program], stdout=writer, stderr=subprocess.PIPE, check=False
        )
    finally:
        os.close(writer)

    assert (ended.returncode, ended.stderr) == (141, b"")


def test_another_pipe_that_breaks_is_a_bug():
    program = (
        "from runtime.main import finish; finish(lambda: (_ for _ in ()).throw(BrokenPipeError))"
    )

    code, told = finished(program, lines=1)

    assert code == 1
    assert "BrokenPipeError" in told


@pytest.mark.parametrize("code", [0, 1, 2])
def test_the_exit_code_is_the_commands_own(code):
    program = f"from runtime.main import finish; finish(lambda: {code})"

    assert finished(program, lines=1) == (code, "")
