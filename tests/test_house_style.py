"""Rules that no linter has."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
ROOMS = ("wire", "runtime", "actors", "spark")
FILES = [path for room in ROOMS for path in sorted((ROOT / room).rglob("*.py"))]
TOP_LEVEL = {
    *ROOMS,
    "tests",
    "bin",
    "pyproject.toml",
    "README.md",
    "ARCHITECTURE.md",
    "CHANGELOG.md",
    "LICENSE",
}
# The longest there are; a new one should be shorter, and these shorter than they are.
LONG_FILES = {"wire/errors.py": 600, "runtime/zookeeper.py": 460}
LONG_FUNCTION = 60
# Words of the cluster that the runtime does not know: it would run any actors.
FOREIGN = re.compile(r"\b(isr|leader|topic|partition)\b", re.IGNORECASE)


def name(path: Path) -> str:
    return str(path.relative_to(ROOT))


@pytest.mark.parametrize("path", FILES, ids=name)
def test_a_module_says_its_rule(path):
    docstring = ast.get_docstring(ast.parse(path.read_text()))

    assert docstring
    assert path.name == "__init__.py" or "Rule:" in docstring


@pytest.mark.parametrize("path", FILES, ids=name)
def test_a_file_has_one_noun(path):
    lines = len(path.read_text().splitlines())

    assert lines <= LONG_FILES.get(name(path), 400)


@pytest.mark.parametrize("path", FILES, ids=name)
def test_a_function_fits_a_screen(path):
    functions = [
        node
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]

    long = [each.name for each in functions if each.end_lineno - each.lineno >= LONG_FUNCTION]
    assert long == []


@pytest.mark.parametrize("path", FILES, ids=name)
def test_nobody_imports_for_the_type_checker_only(path):
    assert "TYPE_CHECKING" not in path.read_text()


@pytest.mark.parametrize(
    "path", [path for path in FILES if path.is_relative_to(ROOT / "runtime")], ids=name
)
def test_the_runtime_does_not_know_what_the_actors_are_about(path):
    code = "\n".join(
        line for line in path.read_text().splitlines() if not line.lstrip().startswith("#")
    )

    assert FOREIGN.findall(code) == []


@pytest.mark.parametrize("package", ["pykka", "kazoo"])
def test_one_file_speaks_to_each_foreign_runtime(package):
    imports = re.compile(rf"^\s*(from|import) {package}\b", re.MULTILINE)

    speakers = [name(path) for path in FILES if imports.search(path.read_text())]
    kazoo = ["runtime/link.py", "runtime/zookeeper.py"]  # a socket's end, and all that uses it
    assert speakers == {"pykka": ["runtime/actor.py"], "kazoo": kazoo}[package]


def test_the_top_level_stays_as_it_is():
    there = {path.name for path in ROOT.iterdir() if not path.name.startswith(".")}

    assert there - {"__pycache__"} <= TOP_LEVEL


@pytest.mark.parametrize("path", sorted((ROOT / "bin").iterdir()), ids=name)
def test_every_command_can_be_run(path):
    assert path.stat().st_mode & 0o111
