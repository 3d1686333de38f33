"""What is wrong with a real disk on purpose.

Rule: it is asked before the kernel is, and fails as the kernel would. It belongs to a node and not
to one of its lives: who starts again finds the same disk.
"""

from runtime.files import DiskFailed


class Trouble:
    """What is wrong with a disk on purpose."""

    def __init__(self) -> None:
        self.is_full = False
        self.failing: tuple[str, ...] = ()  # prefixes of paths
        self.slowness_s = 0.0  # that a sync takes longer

    def touch(self, path: str) -> None:
        """Fail if this path does."""
        if path.startswith(self.failing):
            raise DiskFailed(path)

    def heal(self) -> None:
        """All is well again."""
        self.is_full, self.failing, self.slowness_s = False, (), 0.0
