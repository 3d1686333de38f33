"""The launcher prepares once, anew when it must, and hands over; bin/test leaves nothing behind.

A small project with pins of its own is launched for real. Its packages are made here, so that no
registry is asked, and one of them builds as slowly as a test likes.
"""

import io
import os
import select
import shutil
import signal
import subprocess
import sys
import tarfile
import textwrap
import time
import tomllib
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import IO

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).parent.parent
PATIENCE_S = 60.0

# Builds a wheel; the project's puts its folder on the path. Pebble waits once, at the fifo HOLD.
BACKEND = """
import os, zipfile
from pathlib import Path

def build_wheel(folder, settings=None, metadata=None):
    name, version = Path("NAME").read_text().split()
    if name == "pebble" and os.path.exists(hold := os.environ.get("HOLD", "")):
        Path(hold).read_text()
        os.unlink(hold)
    wheel = f"{name}-{version}-py3-none-any.whl"
    files = {
        f"{name}.pth": os.getcwd() if name == "understudy" else "",
        f"{name}.py": f"version = '{version}'",
        f"{name}-{version}.dist-info/METADATA": f"Metadata-Version: 2.1\\nName: {name}\\nVersion: {version}",
        f"{name}-{version}.dist-info/WHEEL": "Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any",
    }
    files[f"{name}-{version}.dist-info/RECORD"] = "".join(f"{file},,\\n" for file in files)
    with zipfile.ZipFile(Path(folder, wheel), "w") as archive:
        for file, text in files.items():
            archive.writestr(file, text)
    return wheel

build_editable = build_wheel
"""  # noqa: E501
PYPROJECT = """
[build-system]
requires = []
build-backend = "backend"
backend-path = ["."]
"""
COMMAND_HEAD = "".join((ROOT / "bin/test").read_text().partition('"$@"\n')[:2])
COMMAND = f'''{COMMAND_HEAD}
Says who runs it.
"""
import sys
import pebble, room
print(sys.prefix, pebble.version, room.__file__, *sys.argv[1:], sep="\\n")
'''


def write(folder: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)


def source_package(folder: Path, name: str, number: str) -> None:
    files = {"backend.py": BACKEND, "pyproject.toml": PYPROJECT, "NAME": f"{name} {number}"}
    with tarfile.open(folder / f"{name}-{number}.tar.gz", "w:gz") as archive:
        for file, text in {**files, "PKG-INFO": f"Name: {name}\nVersion: {number}\n"}.items():
            member = tarfile.TarInfo(f"{name}-{number}/{file}")
            member.size = len(text.encode())
            archive.addfile(member, io.BytesIO(text.encode()))


class Process(subprocess.Popen[bytes]):
    """A process whose words are waited for, but never for ever; leaving it kills it."""

    def __init__(
        self, command: Sequence[str | Path], environment: dict[str, str], cwd: Path | None
    ):
        pipe, null = subprocess.PIPE, subprocess.DEVNULL
        super().__init__(command, 0, stdin=null, stdout=pipe, stderr=pipe, env=environment, cwd=cwd)
        self.said = self.complained = ""

    def wait_for(self, words: str, stream: IO[bytes] | None) -> str:
        assert stream is not None
        heard = b""
        while words.encode() not in heard or not heard.endswith(b"\n"):
            assert select.select([stream], [], [], PATIENCE_S)[0], f"never said {words}: {heard!r}"
            some = os.read(stream.fileno(), 4096)
            assert some, f"ended without saying {words}: {heard!r}"
            heard += some
        return heard.decode()

    def end(self) -> None:
        out, err = self.communicate(timeout=PATIENCE_S)
        self.said, self.complained = out.decode(), err.decode()

    def __exit__(self, *_: object) -> None:
        self.kill()
        super().__exit__(None, None, None)


class Project:
    """A clone of a small project, in a folder whose name has a space."""

    def __init__(self, folder: Path):
        self.root = folder / "a clone"
        packages = folder / "packages"
        packages.mkdir(parents=True)
        for name, number in (("wheel", "1.0"), ("pebble", "1.0"), ("pebble", "2.0")):
            source_package(packages, name, number)
        write(
            self.root,
            {
                "backend.py": BACKEND,
                "pyproject.toml": PYPROJECT,
                "NAME": "understudy 0.1",
                "room/__init__.py": "",
                "bin/command": COMMAND,
            },
        )
        shutil.copy(ROOT / "bin/.python", self.root / "bin")
        (self.root / "bin/command").chmod(0o755)
        self.pin("1.0")
        self.environment = {
            "PATH": os.environ["PATH"],
            "HOME": "/dev/null",
            "PIP_CONFIG_FILE": "/dev/null",
            "PIP_NO_INDEX": "1",
            "PIP_FIND_LINKS": packages.as_uri(),
        }

    def pin(self, pebble: str) -> None:
        self.pinned = pebble
        write(self.root, {".requirements.lock": f"pebble=={pebble}\nwheel==1.0\n"})

    def start(self, *command: str | Path, cwd: Path | None = None, **environment: str) -> Process:
        return Process(
            command or [self.root / "bin/command"], {**self.environment, **environment}, cwd
        )

    def run(self, *command: str | Path, cwd: Path | None = None, **environment: str) -> Process:
        with self.start(*command, cwd=cwd, **environment) as process:
            process.end()
        return process

    def answer(self, *arguments: str) -> str:
        lines = (self.root / ".venv", self.pinned, self.root / "room/__init__.py", *arguments)
        return "".join(f"{line}\n" for line in lines)


@pytest.fixture
def fresh(tmp_path: Path) -> Project:
    return Project(tmp_path)


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Project:
    return Project(tmp_path_factory.mktemp("shared"))


@pytest.fixture
def prepared(shared: Project) -> Project:
    run = shared.run()
    assert run.returncode == 0, run.complained
    return shared


def test_the_first_run_prepares_and_talks_on_stderr_alone(fresh: Project, tmp_path: Path):
    write(tmp_path, {f"{name}.py": "raise SystemExit(name)" for name in ("typing", "venv", "pip")})

    run = fresh.run(cwd=tmp_path)

    assert (run.returncode, run.said) == (0, fresh.answer())
    said = run.complained.splitlines()
    assert said[0].startswith("understudy: preparing .venv from .requirements.lock")
    assert any("pebble-1.0.tar.gz" in line for line in said)
    assert said[-1] == "understudy: ready"


def test_a_later_run_says_nothing_and_passes_its_arguments_on(prepared: Project):
    run = prepared.run(prepared.root / "bin/command", "two words", "--flag", "")

    assert (run.returncode, run.complained) == (0, "")
    assert run.said == prepared.answer("two words", "--flag", "")


def test_a_later_run_adds_little_time(prepared: Project):
    def quickest(python: Path) -> float:
        def once() -> float:
            start = time.perf_counter()
            prepared.run(python, "-c", "pass")
            return time.perf_counter() - start

        return min(once() for _ in range(5))

    added = quickest(prepared.root / "bin/.python") - quickest(prepared.root / ".venv/bin/python")

    assert added < 0.3


def test_a_changed_pin_is_prepared_again(prepared: Project):
    prepared.pin("2.0")

    run = prepared.run()

    assert run.said == prepared.answer()
    assert "preparing .venv" in run.complained


def test_a_changed_pyproject_reinstalls_the_project_and_keeps_the_packages(prepared: Project):
    write(prepared.root, {"pyproject.toml": PYPROJECT + f"# {os.urandom(4).hex()}\n"})

    run = prepared.run()

    assert run.said == prepared.answer()
    assert "preparing" not in run.complained
    assert "pebble" not in run.complained
    assert run.complained.endswith("understudy: ready\n")


def test_two_first_runs_at_once_share_one_preparation(fresh: Project):
    with fresh.start() as one, fresh.start() as other:
        one.end()
        other.end()

    assert (one.returncode, one.said) == (0, fresh.answer())
    assert (other.returncode, other.said) == (0, fresh.answer())
    assert (one.complained + other.complained).count("preparing .venv from") == 1


def test_an_interrupted_preparation_ends_all_that_it_started(fresh: Project):
    hold = fresh.root / "hold"
    os.mkfifo(hold)
    with fresh.start(HOLD=str(hold)) as first:
        first.wait_for("pebble-1.0.tar.gz", first.stderr)
        first.send_signal(signal.SIGINT)
        first.end()
    assert first.returncode == 130
    assert first.complained == "understudy: not ready: the next run prepares .venv anew\n"
    assert not (fresh.root / ".venv/.packages").exists()
    # Whatever had outlived it would hold the lock, and stderr.
    assert (
        subprocess.run(["flock", "-n", fresh.root / ".venv.lock", "true"], check=False).returncode
        == 0
    )


def test_what_outlives_a_killed_preparation_is_waited_for_and_done_anew(fresh: Project):
    hold = fresh.root / "hold"
    os.mkfifo(hold)
    with fresh.start(HOLD=str(hold)) as first:
        first.wait_for("pebble-1.0.tar.gz", first.stderr)
        first.kill()
        with fresh.start() as second:
            second.wait_for("waiting for another run", second.stderr)
            hold.write_text("")
            second.end()

    assert second.said == fresh.answer()
    assert "preparing .venv" in second.complained


def test_a_moved_folder_is_prepared_for_its_new_place(prepared: Project):
    prepared.root = prepared.root.rename(prepared.root.with_name("another place"))

    run = prepared.run()

    assert run.said == prepared.answer()
    assert "preparing .venv" in run.complained


def test_any_current_folder_will_do_and_a_link_too(prepared: Project, tmp_path: Path):
    (tmp_path / "link").symlink_to(prepared.root / "bin/command")

    for command, cwd in (
        ("./link", tmp_path),
        ("bin/command", prepared.root),
        ("../bin/command", prepared.root / "room"),
        ("./command", prepared.root / "bin"),
    ):
        assert prepared.run(command, cwd=cwd).said == prepared.answer()


def test_the_environment_of_others_stays_outside(prepared: Project, tmp_path: Path):
    write(tmp_path, {"pebble.py": "version = 'not ours'"})
    theirs = str(tmp_path)

    run = prepared.run(PYTHONPATH=theirs, PYTHONHOME=theirs, VIRTUAL_ENV=theirs, PIP_TARGET=theirs)

    assert run.said == prepared.answer()


EVERY_DEBIAN_HAS = (
    *("bash", "cat", "dirname", "env", "flock", "grep", "id"),
    *("mkdir", "readlink", "rm", "sed", "setsid", "sh", "tee"),
)


def tools(folder: Path, **scripts: str) -> str:
    """Make a PATH that holds what every Debian has, Python not included, and some scripts."""
    folder.mkdir()
    for name in EVERY_DEBIAN_HAS:
        found = shutil.which(name)
        assert found is not None
        (folder / name).symlink_to(found)
    for name, text in scripts.items():
        script = folder / name.replace("_", "-").replace("python3-", "python3.")
        script.unlink(missing_ok=True)
        script.write_text(f"#!/bin/sh\n{text}\n")
        script.chmod(0o755)
    return str(folder)


PYTHON_WITHOUT_ENSUREPIP = f'case "$3" in *ensurepip*) exit 1;; esac; exec "{sys.executable}" "$@"'


@pytest.mark.parametrize("scripts", [{}, {"python3": "exit 1"}], ids=["none", "too old"])
def test_without_a_python_that_will_do_one_sentence_says_so(
    fresh: Project, tmp_path: Path, scripts: dict[str, str]
):
    run = fresh.run(PATH=tools(tmp_path / "tools", **scripts))

    assert (run.returncode, run.said) == (1, "")
    assert run.complained.splitlines()[1:] == [
        "understudy: Python 3.11 or newer is missing: install it, then run this again."
    ]


def test_without_ensurepip_one_sentence_names_the_package_to_who_is_not_root(
    fresh: Project, tmp_path: Path
):
    path = tools(tmp_path / "tools", python3_11=PYTHON_WITHOUT_ENSUREPIP, id="echo 1000")

    run = fresh.run(PATH=path)

    name = f"python3.{sys.version_info.minor}-venv"
    assert (run.returncode, run.said) == (1, "")
    assert run.complained.splitlines()[1:] == [
        f"understudy: Python's venv module is missing: install the package {name},"
        " then run this again."
    ]


@pytest.mark.skipif(not Path("/var/lib/dpkg").exists(), reason="this is not Debian")
def test_without_ensurepip_root_gets_it_from_apt_get(fresh: Project, tmp_path: Path):
    path = tools(
        tmp_path / "tools",
        python3_11=PYTHON_WITHOUT_ENSUREPIP,
        id="echo 0",
        apt_get=f'echo "$@" | tee -a "{tmp_path}/asked"; exit 1',
    )

    run = fresh.run(PATH=path)

    assert run.returncode == 1  # this apt-get only listens
    assert (tmp_path / "asked").read_text().splitlines() == [
        "update",
        f"install -y --no-install-recommends python3.{sys.version_info.minor}-venv",
    ]


def test_the_pins_are_installed_and_satisfy_what_the_project_asks_for():
    lock = (ROOT / ".requirements.lock").read_text().split()
    pins = {
        name.lower().replace("_", "-"): number for name, number in (p.split("==") for p in lock)
    }
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    wanted = [
        *project["build-system"]["requires"],
        *project["project"]["dependencies"],
        *project["dependency-groups"]["dev"],
    ]

    for requirement in map(Requirement, wanted):
        assert pins[requirement.name.lower()] in requirement.specifier, requirement
    assert {name: version(name) for name in pins} == pins
    check = subprocess.run(
        [sys.executable, "-m", "pip", "check"], capture_output=True, text=True, check=False
    )
    assert check.returncode == 0, check.stdout


CHECKED = {
    "room/__init__.py": '"""A room."""\n',
    "tests/test_room.py": "def test_good():\n    pass\n\n\ndef test_other():\n    pass\n",
    "pyproject.toml": textwrap.dedent("""
        [tool.pytest.ini_options]
        addopts = ["-p", "no:cacheprovider", "-p", "no:asyncio"]
        [tool.mypy]
        files = ["room"]
        [tool.importlinter]
        root_packages = ["room"]
        [[tool.importlinter.contracts]]
        name = "a room stands alone"
        type = "independence"
        modules = ["room"]
    """),
}


class Checked:
    """A small project that bin/test checks, and the TMPDIR it is given for it."""

    def __init__(self, folder: Path):
        self.root = folder / "a checked clone"
        self.temporary = folder / "tmp"
        self.temporary.mkdir(parents=True)
        write(self.root, CHECKED)
        (self.root / "bin").mkdir()
        shutil.copy(ROOT / "bin/test", self.root / "bin")
        self.environment = {
            **os.environ,
            "PYTHONPATH": str(ROOT),
            "TMPDIR": str(self.temporary),
            "HOLD": str(folder / "hold"),
        }

    def start(self, *arguments: str) -> Process:
        command = [sys.executable, self.root / "bin/test", *arguments]
        return Process(command, self.environment, None)


@pytest.fixture
def checked(tmp_path: Path) -> Checked:
    return Checked(tmp_path)


def test_bin_test_passes_when_all_parts_do(checked: Checked):
    with checked.start("-k", "good") as run:
        run.end()

    assert (run.returncode, run.complained) == (0, ""), run.said
    assert "1 passed, 1 deselected" in run.said
    last = run.said.splitlines()[-1]
    assert last == "bin/test: all passed: ruff check, ruff format, mypy, import rules, pytest"
    assert not list(checked.temporary.iterdir())


def test_bin_test_runs_every_part_and_names_those_that_failed(checked: Checked):
    write(checked.root, {"room/__init__.py": "import os\nx: int = ''\n"})

    with checked.start("-k", "nothing") as run:
        run.end()

    assert run.returncode == 1
    assert "a room stands alone KEPT" in run.said
    assert "No test was selected" in run.said
    assert run.complained == "bin/test: failed: ruff check, ruff format, mypy, pytest\n"


def test_an_interrupted_bin_test_leaves_neither_process_nor_folder(checked: Checked):
    held = """
        import os, subprocess, tempfile

        def test_hold():
            tempfile.mkdtemp()
            orphan = subprocess.Popen(["setsid", "sh", "-c", "exec sleep infinity"])
            try:
                print("orphan", "is", orphan.pid, flush=True)
                open(os.environ["HOLD"]).read()
            finally:
                print("closed", flush=True)
    """
    write(checked.root, {"tests/test_hold.py": textwrap.dedent(held)})
    os.mkfifo(checked.environment["HOLD"])

    with checked.start("-s", "-k", "hold") as run:
        orphan = run.wait_for("orphan is", run.stdout).split()[-1]
        run.send_signal(signal.SIGTERM)
        run.end()

    assert run.returncode == 143
    assert "closed" in run.said
    assert run.complained.splitlines() == [
        "bin/test: ends what a part left behind: sleep infinity",
        "bin/test: interrupted",
    ]
    assert not Path(f"/proc/{orphan}").exists()
    assert not list(checked.temporary.iterdir())
