"""What the files of a log are called (B168).

Rule: a segment's name is its base offset in 20 digits, so that names sort as offsets do. A name
that does not end in .log, .index or .timeindex belongs to no living segment.
"""

import re
from typing import Final

from wire.ids import Offset

LOG: Final = ".log"
OFFSET_INDEX: Final = ".index"
TIME_INDEX: Final = ".timeindex"
INDEXES: Final = (OFFSET_INDEX, TIME_INDEX)
KINDS: Final = (LOG, *INDEXES)

DELETED: Final = ".deleted"  # no longer read; removed after a while
CLEANED: Final = ".cleaned"  # compaction writes it: not yet worth anything
SWAP: Final = ".swap"  # compaction is done: it takes the place of the segments that it was made of

_NAME: Final = re.compile(r"(\d{20})(\.log|\.index|\.timeindex)(\.deleted|\.cleaned|\.swap|)")


def file_name(base_offset: Offset, kind: str, suffix: str = "") -> str:
    """For instance 00000000000000000042.log."""
    return f"{base_offset:020}{kind}{suffix}"


def parse_name(name: str) -> tuple[Offset, str, str] | None:
    """Base offset, kind and suffix; None if it is no file of a segment."""
    found = _NAME.fullmatch(name)
    return found and (Offset(int(found[1])), found[2], found[3])
