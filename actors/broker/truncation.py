"""Where a follower's log and its leader's part: pure.

Rule: what a follower cuts off is decided by epochs, since KIP-101; before it, by the follower's own
high watermark, which may be behind what was committed (H18). Each generation is as its Kafka was.
"""

from enum import StrEnum
from typing import NamedTuple

from actors.broker.log.epochs import LeaderEpochCache
from wire.ids import NO_LEADER_EPOCH, LeaderEpoch, Offset


class Generation(StrEnum):
    """How followers truncate: replication.generation."""

    HIGH_WATERMARK = "high-watermark"  # 0.8: to their own high watermark, before they fetch
    KIP_101 = "kip-101"  # 0.11: to where the leader says that their last epoch ends
    KIP_279 = "kip-279"  # 2.0: and again, if the leader answers with another epoch
    KIP_320 = "kip-320"  # 2.8: found by the fetch itself, and both sides compare leader epochs

    @property
    def asks_first(self) -> bool:
        """Whether the leader is asked for the end of an epoch before the first fetch."""
        return self in {Generation.KIP_101, Generation.KIP_279}

    @property
    def may_part(self) -> bool:
        """Whether logs may part unseen, and a follower takes what its leader has all the same."""
        return self in {Generation.HIGH_WATERMARK, Generation.KIP_101}


class Cut(NamedTuple):
    """From where on a follower's log has to go."""

    offset: Offset
    is_done: bool  # False: ask the leader again, for the epoch that is the last one then


def cut_for(
    epoch: LeaderEpoch,
    end_offset: Offset,
    *,
    epochs: LeaderEpochCache,
    log_end_offset: Offset,
    high_watermark: Offset,
) -> Cut:
    """What a leader's answer means: it has `epoch` up to `end_offset` (B148, B149, B154)."""
    if end_offset < 0:  # it does not know
        return Cut(high_watermark, is_done=True)
    if epoch == NO_LEADER_EPOCH:  # it is of 0.11, and tells no epoch
        return Cut(min(end_offset, log_end_offset), is_done=True)
    mine, my_end = epochs.end_offset_for(epoch, log_end_offset)
    if my_end < 0:  # its epoch is newer than all of mine, or I have none
        return Cut(min(end_offset, log_end_offset), is_done=True)
    if mine != epoch:
        return Cut(min(my_end, log_end_offset), is_done=False)
    return Cut(min(end_offset, my_end, log_end_offset), is_done=True)
