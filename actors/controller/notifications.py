"""What brokers tell the controller through ZooKeeper's sequential znodes.

Rule: what was read is acted on, then exactly that is deleted; a note that nobody can read is
deleted too, and reported (B074, B117).
"""

from collections.abc import Callable
from typing import TypeVar

from actors.controller.brokers import Brokers
from actors.controller.office import Office
from actors.controller.reassignment import Reassignments
from actors.controller.topics import Topics
from runtime.keeper import ZNode
from wire.admin_znodes import (
    IsrChangeNotificationZNode,
    LogDirEventNotificationZNode,
    NotificationZNode,
)
from wire.ids import TopicPartition

Value = TypeVar("Value")
Decode = Callable[[int, bytes], Value]


class Notifications:
    """Changed ISRs and failed disks."""

    def __init__(
        self, office: Office, topics: Topics, brokers: Brokers, reassignments: Reassignments
    ) -> None:
        self._office = office
        self._topics = topics
        self._brokers = brokers
        self._reassignments = reassignments

    async def clear(self) -> int:
        """At a failover: everything is read anew, so these notes tell nothing (B027)."""
        paths = [
            f"{kind.folder}/{name}"
            for kind in (LogDirEventNotificationZNode, IsrChangeNotificationZNode)
            for name in await self._names(kind)
        ]
        await self._office.store.delete(*paths)
        return len(paths)

    async def on_isr_changes(self) -> None:
        """Leaders changed ISRs: believe it, and tell everybody (B117)."""
        kind = IsrChangeNotificationZNode
        paths, notes = await self._read(kind, kind.decode)
        partitions: dict[TopicPartition, None] = {}
        for note in notes:
            partitions.update(dict.fromkeys(map(self._office.context.known, note)))
        known = [each for each in partitions if each in self._office.context.assignments]
        if known:
            await self._topics.refresh_leadership(known)
            self._office.send_metadata(known)
            for partition in known:
                await self._reassignments.on_isr_change(partition)
        await self._office.store.delete(*paths)

    async def on_log_dir_events(self) -> None:
        """Disks failed (B074)."""
        kind = LogDirEventNotificationZNode
        paths, brokers = await self._read(kind, kind.decode)
        await self._brokers.on_log_dir_failure(dict.fromkeys(brokers))
        await self._office.store.delete(*paths)

    async def _names(self, kind: type[NotificationZNode]) -> tuple[str, ...]:
        return await self._office.store.children(kind.folder, self._office.watcher)

    async def _read(
        self, kind: type[NotificationZNode], decode: Decode[Value]
    ) -> tuple[list[str], list[Value]]:
        names = await self._names(kind)
        paths = [f"{kind.folder}/{name}" for name in names]
        znodes = await self._office.store.keeper.read(paths)
        notes: list[Value] = []
        for name, znode in zip(names, znodes, strict=True):
            if not isinstance(znode, ZNode):
                continue
            note = self._office.store.decoded(_decode, kind, decode, name, znode.data)
            if note is not None:
                notes.append(note)
        return paths, notes


def _decode(kind: type[NotificationZNode], decode: Decode[Value], name: str, data: bytes) -> Value:
    return decode(kind.sequence_of(name), data)
