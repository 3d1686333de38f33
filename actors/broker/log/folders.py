"""What the folders of logs are called.

Rule: a log is in a folder of its partition's name. One that was deleted has a name that is never
used again, so that its partition's is free at once.
"""

import re
from contextlib import suppress
from typing import Final

from actors.administration.names import check_topic_name
from runtime.files import MAX_NAME_BYTES, Disk
from wire.errors import InvalidTopic
from wire.ids import TopicPartition

_TO_BE_DELETED: Final = re.compile(r"\S+-[0-9]+\.[0-9a-f]{32}-delete")
_FUTURE: Final = re.compile(r"\S+-[0-9]+\.[0-9a-f]{32}-future")  # on its way to another disk
_FOLDER: Final = re.compile(r"(.+)-(0|[1-9][0-9]{0,9})", re.DOTALL)
_MAX_PARTITION: Final = 2**31 - 1


class NotALog(ValueError):
    """A folder of this name is no log's; the sentence says why."""


def parse_folder(name: str) -> TopicPartition:
    """The partition whose log is in a folder of this name."""
    found = _FOLDER.fullmatch(name)
    if found is None or int(found[2]) > _MAX_PARTITION:
        raise NotALog("its name is not a topic, a dash and the number of a partition")
    try:
        check_topic_name(found[1])
    except InvalidTopic as error:
        raise NotALog(str(error)) from error
    return TopicPartition(found[1], int(found[2]))


def partitions_on(disk: Disk) -> tuple[TopicPartition, ...]:
    """Those of whose logs there are folders."""
    found = []
    for name in disk.list():
        with suppress(NotALog):
            found.append(parse_folder(name))
    return tuple(found)


def folder_to_delete(partition: TopicPartition, unique_hex: str) -> str:
    """As Log.logDeleteDirName: the topic's name is cut where the folder's would be too long."""
    suffix = f"-{partition.partition}.{unique_hex}-delete"
    name = f"{partition.topic[: MAX_NAME_BYTES - len(suffix)]}{suffix}"
    assert is_to_be_deleted(name), f"{name} would not be known again"
    return name


def is_to_be_deleted(name: str) -> bool:
    """Whether it is the folder of a log that was deleted."""
    return _TO_BE_DELETED.fullmatch(name) is not None


def is_future(name: str) -> bool:
    """Whether it is Kafka's copy of a log for another disk, which is none of our business."""
    return _FUTURE.fullmatch(name) is not None
