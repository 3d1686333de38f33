"""Where a disk's errors become a broker's.

Rule: whoever calls a log meets KafkaStorageError, with the disk's own error as its cause.
"""

from runtime.files import DiskError
from wire.errors import KafkaStorageError


class RottenLog(KafkaStorageError):
    """The bytes of one log make no sense; the disk is well, and so are the other logs."""


class Storage:
    """`with Storage(folder)`: what the disk refuses there, as what a broker answers."""

    __slots__ = ("_folder",)

    def __init__(self, folder: str) -> None:
        self._folder = folder

    def __enter__(self) -> None:
        pass

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        if isinstance(error, DiskError):
            raise KafkaStorageError(f"{self._folder}: {error}") from error
