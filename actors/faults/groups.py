"""What members of groups are told: of one generation always the same, and nothing to two of them.

Rule: only what was answered counts. A static member that comes back is the one that it was, under
another id; a group that was deleted, or forgotten, begins anew.
"""

from abc import ABC, abstractmethod
from collections.abc import Collection
from typing import ClassVar

from actors.coordinator.records import OFFSETS_TOPIC
from actors.faults.invariant import Exchange, Invariant
from actors.faults.sight import Sight
from wire.consumer_protocol import decode_assignment
from wire.errors import ApiError, ErrorCode
from wire.groups import SyncGroup, SyncGroupResponse
from wire.ids import TopicPartition
from wire.trace import GroupForgotten, TraceEvent

Generation = tuple[str, int]


class _ToldToMembers(Invariant, ABC):
    """Hears what each member of each generation is told that it has."""

    events: ClassVar[tuple[type[TraceEvent], ...]] = (GroupForgotten,)

    def __init__(self, voided: Collection[TopicPartition] = ()) -> None:
        self._voided = voided  # where what was written may be gone, and a generation come again

    def on_answered(self, exchange: Exchange, sight: Sight) -> None:
        """A member has been told what it is given."""
        request, response = exchange.request, exchange.response
        if not isinstance(request, SyncGroup) or not isinstance(response, SyncGroupResponse):
            return
        if response.error_code is not ErrorCode.NONE:
            return
        if any(each.topic == OFFSETS_TOPIC for each in self._voided):
            return
        member = request.group_instance_id or request.member_id
        self._told((request.group_id, request.generation_id), member, response.assignment)

    def on_event(self, node: str, event: TraceEvent) -> None:
        """A group that is forgotten counts its generations from 1 again."""
        assert isinstance(event, GroupForgotten)
        self._forget(event.group)

    @abstractmethod
    def _told(self, generation: Generation, member: str, assignment: bytes) -> None:
        """A member has this in that generation."""

    @abstractmethod
    def _forget(self, group: str) -> None:
        """The group begins anew."""


class OneAssignmentAGeneration(_ToldToMembers):
    """Whoever asks, and however often, and whoever coordinates: a generation's assignment stays."""

    name = "I-26"

    def __init__(self, voided: Collection[TopicPartition] = ()) -> None:
        super().__init__(voided)
        self._given: dict[Generation, dict[str, bytes]] = {}

    def _told(self, generation: Generation, member: str, assignment: bytes) -> None:
        before = self._given.setdefault(generation, {}).setdefault(member, assignment)
        if before != assignment:
            group, number = generation
            self.found(f"group {group}: {member} is told two things of generation {number}")

    def _forget(self, group: str) -> None:
        self._given = {key: value for key, value in self._given.items() if key[0] != group}


class OneReaderAGeneration(_ToldToMembers):
    """No partition has two readers in one generation."""

    name = "I-27"

    def __init__(self, voided: Collection[TopicPartition] = ()) -> None:
        super().__init__(voided)
        self._readers: dict[Generation, dict[TopicPartition, str]] = {}

    def _told(self, generation: Generation, member: str, assignment: bytes) -> None:
        try:
            partitions = decode_assignment(assignment).partitions
        except ApiError:
            return  # a program's own protocol
        readers = self._readers.setdefault(generation, {})
        for each in partitions:
            reader = readers.setdefault(each, member)
            if reader != member:
                group, number = generation
                what = f"group {group}: {member} and {reader} both read it in generation {number}"
                self.found(what, partition=each)

    def _forget(self, group: str) -> None:
        self._readers = {key: value for key, value in self._readers.items() if key[0] != group}
