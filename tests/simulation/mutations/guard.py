"""A guard of actors/, and how to take it out.

Rule: a guard is a fragment of one function's source. Who removes it replaces the fragment and
compiles that function anew; a fragment that is not found exactly once is an error, so that no
mutation rots in silence. The new code takes the place of the old in the function itself: whoever
holds the function, holds the new one. There is no way back, so it is done in a process of its own.
"""

import ast
import inspect
import textwrap
from collections.abc import Callable
from importlib import import_module
from types import CodeType, FunctionType
from typing import Any, NamedTuple

from tests.simulation.mutations.grounds import SEEDS, Ground


class Rotten(LookupError):
    """The source is no longer what the list says; the sentence says which."""


class Edit(NamedTuple):
    """One function with one fragment replaced."""

    function: str  # actors.broker.fence:Fence.check
    fragment: str  # found exactly once in it
    replacement: str


class Guard(NamedTuple):
    """Something that keeps a bad thing from happening."""

    name: str
    protects: str  # a sentence, with the ids of the behaviours and historic bugs
    edits: tuple[Edit, ...]
    ground: Ground = SEEDS  # where its absence is looked for; anything but seeds says why

    def remove(self) -> None:
        """Take it out of this process."""
        for edit in self.edits:
            function = function_of(edit)
            function.__code__ = mutated_code(edit, function)


def check(guard: Guard) -> None:
    """Raise Rotten if it is no longer in the source."""
    for edit in guard.edits:
        mutated_code(edit, function_of(edit))


def guard(
    name: str, function: str, fragment: str, replacement: str, protects: str, ground: Ground = SEEDS
) -> Guard:
    """A guard that is one fragment."""
    return Guard(name, protects, (Edit(function, fragment, replacement),), ground)


def function_of(edit: Edit) -> FunctionType:
    """The function, whatever it is wrapped in."""
    module, _, path = edit.function.partition(":")
    found: Any = import_module(module)
    try:
        for part in path.split("."):
            found = inspect.getattr_static(found, part)
    except AttributeError:
        raise Rotten(f"there is no {edit.function}") from None
    if isinstance(found, property):
        found = found.fget
    if isinstance(found, classmethod | staticmethod):
        found = found.__func__
    assert isinstance(found, FunctionType), f"{edit.function} is no function"
    return found


def mutated_code(edit: Edit, function: FunctionType) -> CodeType:
    """What the function does with the fragment replaced."""
    source = textwrap.dedent(inspect.getsource(function))
    count = source.count(edit.fragment)
    if count != 1:
        raise Rotten(f"{edit.function} has {edit.fragment!r} {count} times")
    tree = ast.parse(source.replace(edit.fragment, edit.replacement))
    (definition,) = tree.body
    assert isinstance(definition, ast.FunctionDef | ast.AsyncFunctionDef)
    definition.decorator_list = []
    ast.increment_lineno(tree, function.__code__.co_firstlineno - 1)
    made: dict[str, Callable[..., Any]] = {}
    exec(compile(tree, function.__code__.co_filename, "exec"), function.__globals__, made)
    code: CodeType = made[definition.name].__code__
    if code.co_freevars != function.__code__.co_freevars:
        raise Rotten(f"{edit.function} closes over {function.__code__.co_freevars}")
    return code
