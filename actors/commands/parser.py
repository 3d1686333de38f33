"""What every command reads its arguments with.

Rule: a wrong argument is one sentence that names it and what would be right, and exit code 1.
"""

import argparse
from pathlib import Path
from typing import NoReturn


class Parser(argparse.ArgumentParser):
    """argparse, with our exit code and without its page of usage."""

    def error(self, message: str) -> NoReturn:
        """One sentence."""
        self.exit(1, f"{self.prog}: {message}; see {self.prog} --help\n")


def folder(text: str) -> Path:
    """A folder by its name: an empty one, say of a variable that is not set, is none."""
    if not text:
        raise argparse.ArgumentTypeError("the folder has no name")
    return Path(text)


def whole(text: str, least: int, most: int) -> int:
    """A whole number within a range."""
    if not text.isdecimal() or not least <= int(text) <= most:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from {least} to {most}")
    return int(text)
