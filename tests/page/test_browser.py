"""How the browser of these tests is found, and installed where that is ours to do."""

from pathlib import Path

import pytest

from runtime.java import Machine
from tests.support.chromium import BrowserMissing, ensure_chromium, find_chromium


def program(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    return path


def machine(folder: Path, *, uid: int = 0, system: str = "debian", **environment: str) -> Machine:
    """A machine without a browser; apt-get puts one on its PATH."""
    release = folder / "os-release"
    release.write_text(f"ID={system}\n")

    def run(command, _):
        (folder / "ran").write_text(" ".join(command))
        if "install" in command:
            program(folder / "path" / command[-1])
        return 0

    known = {"PATH": str(folder / "path")} | environment
    return Machine(known, uid=uid, os_release=release, package_lock=folder, run=run)


def test_the_browser_that_is_named_comes_before_those_on_the_path(tmp_path: Path):
    named = program(tmp_path / "mine")
    program(tmp_path / "path/chromium")

    assert find_chromium(machine(tmp_path, CHROMIUM=str(named))) == str(named)


@pytest.mark.parametrize("name", ["chromium", "chromium-browser", "google-chrome"])
def test_a_browser_is_found_on_the_path(tmp_path: Path, name: str):
    there = program(tmp_path / "path" / name)

    assert find_chromium(machine(tmp_path)) == str(there)


def test_root_on_debian_gets_one_installed(tmp_path: Path):
    assert ensure_chromium(machine(tmp_path)) == str(tmp_path / "path/chromium")
    ran = (tmp_path / "ran").read_text()
    assert ran == "apt-get install -y --no-install-recommends chromium"


@pytest.mark.parametrize(
    "given", [{"uid": 1000}, {"system": "fedora"}, {"CHROMIUM": "/nowhere/chromium"}]
)
def test_everybody_else_is_told_what_to_install(tmp_path: Path, given: dict):
    bare = machine(tmp_path, **given)

    with pytest.raises(BrowserMissing, match=r"Chromium is missing: install|CHROMIUM is /nowhere"):
        ensure_chromium(bare)
    assert not (tmp_path / "ran").exists()
