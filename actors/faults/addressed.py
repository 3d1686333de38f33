"""Which messages a fault wants.

Rule: a frame is looked at from the outside first; its message is only decoded if something inside
it was asked for. What is counted are the frames that match in all else.
"""

from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from actors.faults.vocabulary import OnLink
from actors.names import node_name
from runtime.world import Dice
from wire.codec import AnyMessage
from wire.errors import MalformedMessage
from wire.frame import Frame
from wire.ids import TopicPartition
from wire.parted import unpack

Spoken = tuple[str, int | None, int | None]


class Addressed:
    """The frames that one fault wants."""

    def __init__(self, fault: OnLink, chance: Dice) -> None:
        self._fault = fault
        self._chance = chance
        self._source = None if fault.source is None else _node(fault.source)
        self._to = None if fault.to is None else _node(fault.to)
        inside = (fault.message, fault.controller_epoch, fault.leader_epoch, fault.topic)
        self._looks_inside = any(each is not None for each in (*inside, fault.partition))
        self.matched = 0
        self.hits = 0

    def __call__(self, frame: Frame) -> bool:
        """Whether it wants this one."""
        fault = self._fault
        if fault.times is not None and self.hits >= fault.times:
            return False
        if not self._is_of_link(frame) or (self._looks_inside and not self._has(frame)):
            return False
        self.matched += 1
        if fault.nth is not None and self.matched != fault.nth:
            return False
        if fault.probability < 1 and self._chance.random() >= fault.probability:
            return False
        self.hits += 1
        return True

    def _is_of_link(self, frame: Frame) -> bool:
        return self._source in {None, frame.source} and self._to in {None, frame.destination}

    def _has(self, frame: Frame) -> bool:
        fault, message = self._fault, _decoded(frame)
        if message is None:
            return False
        if fault.message is not None and type(message).__name__ != fault.message:
            return False
        epoch = fault.controller_epoch
        if epoch is not None and getattr(message, "controller_epoch", None) != epoch:
            return False
        if fault.topic is None and fault.partition is None and fault.leader_epoch is None:
            return True
        return any(self._wants(*each) for each in _partitions(message))

    def _wants(self, topic: str, partition: int | None, leader_epoch: int | None) -> bool:
        fault = self._fault
        return (
            fault.topic in {None, topic}
            and fault.partition in {None, partition}
            and fault.leader_epoch in {None, leader_epoch}
        )


def _node(who: int | str) -> str:
    return node_name(who) if isinstance(who, int) else who


def _decoded(frame: Frame) -> AnyMessage | None:
    try:
        return unpack(frame.payload)
    except MalformedMessage:
        return None


def _partitions(value: Any, epoch: int | None = None) -> Iterator[Spoken]:
    """What a message says of partitions: topic, number, leader epoch where it is said."""
    if isinstance(value, TopicPartition):
        yield value.topic, value.partition, epoch
        return
    inside: Iterable[Any] = ()
    if isinstance(value, msgspec.Struct):
        epoch = getattr(value, "leader_epoch", getattr(value, "current_leader_epoch", epoch))
        topic = getattr(value, "topic", None)
        if isinstance(topic, str):
            yield topic, None, epoch
        inside = (getattr(value, name) for name in value.__struct_fields__)
    elif isinstance(value, tuple | list):
        epoch = getattr(value, "leader_epoch", epoch)
        inside = value
    elif isinstance(value, dict):
        inside = value.items()
    for each in inside:
        yield from _partitions(each, epoch)
