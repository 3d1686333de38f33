"""What a simulated disk is made of: bytes and names that remember what is not yet durable.

Rule: every write and every change of a name can be taken back until it is settled; a crash takes
back what a real disk may lose, and the seed chooses.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from random import Random
from typing import TypeVar

from runtime import files
from runtime.files import Data, FileMissing, WrongKind


class Node:
    """What a name can stand for."""


Kind = TypeVar("Kind", bound=Node)


class Content(Node):
    """A file's bytes, and how to take back each write since the last sync."""

    def __init__(self) -> None:
        self.bytes = bytearray()
        self.handles = 0
        self.is_named = True
        self._unsynced: list[tuple[int, Data, int]] = []  # where, what was there, length of the new
        self._synced = 0  # writes so far that no longer stand in the list

    @property
    def writes(self) -> int:
        """How many there were, synced or not."""
        return self._synced + len(self._unsynced)

    def write(self, position: int, data: Data) -> None:
        """What reaches past the end is an append, and may be lost by itself."""
        view, size = memoryview(data).cast("B"), len(self.bytes)
        inside = view[: max(0, size - position)]
        if inside:
            end = position + len(inside)
            self._unsynced.append((position, self.bytes[position:end], len(inside)))
            self.bytes[position:end] = inside
        if len(inside) < len(view):
            self.bytes += bytes(max(0, position - size))
            self.bytes += view[len(inside) :]
            self._unsynced.append((size, b"", len(self.bytes) - size))

    def truncate(self, size: int) -> None:
        """A longer file is an append of zeros."""
        if size < len(self.bytes):
            self._unsynced.append((size, self.bytes[size:], 0))
            del self.bytes[size:]
        elif size > len(self.bytes):
            self.write(size - 1, b"\0")

    def settle(self, writes: int) -> None:
        """The first so many writes are durable."""
        if writes > self._synced:
            del self._unsynced[: writes - self._synced]
            self._synced = writes

    def crash(self, random: Random | None) -> None:
        """Forget some of what was not synced; without random, all of it."""
        steps: list[tuple[int, Data, Data]] = []
        self._synced = self.writes
        while self._unsynced:
            position, before, length = self._unsynced.pop()
            steps.append((position, before, self.bytes[position : position + length]))
            self.bytes[position : position + length] = before
        if random is not None:
            self._redo_some(steps[::-1], random)

    def _redo_some(self, steps: list[tuple[int, Data, Data]], random: Random) -> None:
        left = _some(random, sum(len(before) != len(after) for _, before, after in steps))
        same = len(self.bytes)  # the bytes up to here are those that an overwrite was meant for
        for position, before, after in steps:
            if len(before) == len(after):
                length = min(_some(random, len(after)), max(0, same - position))
                self.bytes[position : position + length] = after[:length]
                continue
            if after and left >= 0:
                self.bytes += after if left else after[: _some(random, len(after) - 1)]
                same = len(self.bytes)
            elif before:
                same = min(same, position)
                if left > 0:
                    del self.bytes[position:]
            left -= 1


class Directory(Node):
    """Names: as they are now, as they are on the platter, and what lies between."""

    def __init__(self) -> None:
        self.entries: dict[str, Node] = {}
        self.durable: dict[str, Node] = {}
        self.unsynced: dict[int, Change] = {}

    def reload(self) -> Iterator[Content]:
        """Back to what is on the platter; the files in it, in the order of paths."""
        self.entries = dict(sorted(self.durable.items()))
        for node in self.entries.values():
            if isinstance(node, Directory):
                yield from node.reload()
            elif isinstance(node, Content):
                yield node


Naming = tuple[Directory, str, Node | None]


@dataclass(frozen=True, slots=True, eq=False)
class Change:
    """What one operation does to names, all of it or nothing."""

    number: int
    names: tuple[Naming, ...]
    directories: tuple[Directory, ...]  # to sync one of them makes it durable


class Names:
    """The tree of names, and in which order it was changed."""

    def __init__(self) -> None:
        self.root = Directory()
        self.changes = 0
        self._unsynced: dict[int, Change] = {}

    def find(self, kind: type[Kind], path: str, names: tuple[str, ...] | None = None) -> Kind:
        """What the path leads to, or the names of it that are given."""
        node: Node = self.root
        for name in files.segments_of(path) if names is None else names:
            if not isinstance(node, Directory):
                raise WrongKind(path)
            if name not in node.entries:
                raise FileMissing(path)
            node = node.entries[name]
        if not isinstance(node, kind):
            raise WrongKind(path)
        return node

    def entry(self, path: str) -> tuple[Directory, str]:
        names, name = files.entry_of(path)
        return self.find(Directory, path, names), name

    def change(self, *names: Naming, emptied: Node | None = None) -> None:
        """Do it now. It is durable when one of its directories is synced, or by luck.

        A directory that goes is one of them: its own names must be gone from the platter first.
        """
        directories = tuple(dict.fromkeys(directory for directory, _, _ in names))
        if len(directories) > 1:
            # A move between directories must not be durable without what it stands on, such as
            # the making of its target. A disk may always sync early, so all of that is synced now.
            self._apply(tuple(self._unsynced.values()))
        if isinstance(emptied, Directory):
            directories += (emptied,)
        self.changes += 1
        change = Change(self.changes, names, directories)
        self._unsynced[change.number] = change
        for directory in change.directories:
            directory.unsynced[change.number] = change
        for directory, name, node in names:
            _set(directory.entries, name, node)

    def settle(self, directory: Directory, upto: int) -> None:
        """Make its changes durable, with those that came before in directories they share."""
        chosen: dict[int, Change] = {}
        ahead = [(directory, upto)]
        while ahead:
            here, upto = ahead.pop()
            for number, change in here.unsynced.items():
                if number <= upto and number not in chosen:
                    chosen[number] = change
                    ahead += [(other, number) for other in change.directories if other is not here]
        self._apply(tuple(chosen[number] for number in sorted(chosen)))

    def settle_all(self) -> Iterator[Content]:
        """Make every change durable; the files that are there."""
        self._apply(tuple(self._unsynced.values()))
        yield from self.root.reload()

    def crash(self, random: Random | None) -> Iterator[Content]:
        """Keep some of the changes, or none; the files that are left, in the order of paths."""
        changes = tuple(self._unsynced.values())
        self._apply(changes[: 0 if random is None else _some(random, len(changes))])
        for change in self._unsynced.values():
            for directory in change.directories:
                directory.unsynced.clear()
        self._unsynced.clear()
        yield from self.root.reload()

    def _apply(self, changes: tuple[Change, ...]) -> None:
        for change in changes:
            del self._unsynced[change.number]
            for directory in change.directories:
                del directory.unsynced[change.number]
            for directory, name, node in change.names:
                _set(directory.durable, name, node)


def _set(entries: dict[str, Node], name: str, node: Node | None) -> None:
    if node is None:
        entries.pop(name, None)
    else:
        entries[name] = node


def _some(random: Random, most: int) -> int:
    """None, some or all, each often enough to be met."""
    return random.choice((0, random.randint(0, most), most))
