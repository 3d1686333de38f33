"""A partition's state in few words."""

from typing import Any

from wire.znodes import PartitionState


def state(leader: Any, leader_epoch: Any, *isr: Any, controller_epoch: Any = 1) -> PartitionState:
    """As ZooKeeper should have it; by default the first controller has written it."""
    return PartitionState(
        controller_epoch=controller_epoch, leader=leader, leader_epoch=leader_epoch, isr=isr
    )
