"""Of which topic a log is: Kafka's file partition.metadata.

Rule: written beside the first records and never changed. A log whose topic was deleted, and made
anew under the same name while its broker was away, is told by it. A file that says nothing sensible
says nothing.
"""

from contextlib import closing, suppress
from typing import Final

from actors.broker.log.checkpoints import read_whole
from runtime.files import Disk, DiskError
from wire.ids import TopicId

FILE: Final = "partition.metadata"
_BEFORE: Final = b"version: 0\ntopic_id: "
_ID_LENGTH: Final = 22


def read_topic_id(disk: Disk, folder: str) -> TopicId | None:
    """The topic's id, if it is known."""
    found = None
    with suppress(DiskError):  # then it is not known, and whoever uses the log will see
        found = read_whole(disk, f"{folder}/{FILE}")
    if found is None or not found.startswith(_BEFORE):
        return None
    named = found[len(_BEFORE) :].strip()
    return TopicId(named.decode()) if len(named) == _ID_LENGTH and named.isascii() else None


def write_topic_id(disk: Disk, folder: str, topic_id: TopicId) -> None:
    """Note it, unless it is noted; the folder is there."""
    path = f"{folder}/{FILE}"
    if not disk.exists(path):
        with closing(disk.open(path, create=True)) as file:
            file.append(_BEFORE + topic_id.encode() + b"\n")
