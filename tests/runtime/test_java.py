"""Java is found where people put it, refused when too old, installed where that is ours to do."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from runtime.java import JavaMissing, Machine, ensure_java, find_java

INSTALL = ("apt-get", "install", "-y", "--no-install-recommends")


def put_java(home: Path, version: str) -> Path:
    """Make a Java that only knows its version and its home."""
    java = home / "bin/java"
    java.parent.mkdir(parents=True)
    java.write_text(
        f"#!/bin/sh\necho '    java.home = {home}' >&2\n"
        f"echo '    java.specification.version = {version}' >&2\n"
    )
    java.chmod(0o755)
    return java


class Debian:
    """A machine whose apt-get installs Java, if it has the package."""

    def __init__(
        self, folder: Path, packages: Sequence[str], name: str = "ID=debian", uid: int = 0
    ):
        self.asked: list[tuple[str, ...]] = []
        self._packages = packages
        self._installed = folder / "jvm"
        (folder / "os-release").write_text(f'NAME="Some Linux"\n{name}\n')
        self.machine = Machine(
            environment={"PATH": str(folder / "nothing here")},
            uid=uid,
            os_release=folder / "os-release",
            installed=self._installed,
            package_lock=folder,
            run=self._run,
        )

    def _run(self, command: Sequence[str], environment: Mapping[str, str]) -> int:
        assert environment["DEBIAN_FRONTEND"] == "noninteractive"
        self.asked.append(tuple(command))
        if command[-1] in self._packages:
            put_java(self._installed / command[-1], "17")
            return 0
        return 100


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Debian(tmp_path, [], uid=1000).machine


def with_environment(machine: Machine, **environment: str) -> Machine:
    return Machine(
        environment=environment,
        uid=machine.uid,
        os_release=machine.os_release,
        installed=machine.installed,
        run=machine.run,
    )


def test_java_home_comes_before_path(machine: Machine, tmp_path: Path):
    at_home = put_java(tmp_path / "a home", "21")
    on_path = put_java(tmp_path / "other", "17")

    java = find_java(
        with_environment(machine, JAVA_HOME=str(tmp_path / "a home"), PATH=str(on_path.parent))
    )

    assert (java.executable, java.home, java.version) == (at_home, tmp_path / "a home", 21)


@pytest.mark.parametrize("wrong", ["", "/nowhere/at/all", "/dev/null"])
def test_a_wrong_java_home_falls_through_to_path(machine: Machine, tmp_path: Path, wrong: str):
    on_path = put_java(tmp_path / "other", "17")

    java = find_java(with_environment(machine, JAVA_HOME=wrong, PATH=str(on_path.parent)))

    assert java.executable == on_path


def test_an_old_java_home_falls_through_to_path(machine: Machine, tmp_path: Path):
    put_java(tmp_path / "old", "1.8")
    on_path = put_java(tmp_path / "other", "17")

    java = find_java(
        with_environment(machine, JAVA_HOME=str(tmp_path / "old"), PATH=str(on_path.parent))
    )

    assert java.executable == on_path


def test_a_java_that_path_does_not_name_is_found_where_debian_keeps_it(machine: Machine):
    put_java(machine.installed / "java-11", "11")
    kept = put_java(machine.installed / "java-17", "17")

    assert find_java(machine).executable == kept


@pytest.mark.parametrize(
    ("version", "verdict"), [("1.8", "is Java 8"), ("11", "is Java 11"), ("?", "does not answer")]
)
def test_a_java_that_will_not_do_is_named_in_the_sentence(
    machine: Machine, tmp_path: Path, version: str, verdict: str
):
    java = put_java(tmp_path / "other", version)

    with pytest.raises(JavaMissing) as missing:
        find_java(with_environment(machine, PATH=str(java.parent)))

    assert str(missing.value) == (
        f"Java 17 or newer is missing ({java} {verdict}): install openjdk-17-jre-headless,"
        " or point JAVA_HOME to a Java that is there."
    )


def test_root_on_debian_gets_java_from_apt_get(tmp_path: Path):
    debian = Debian(tmp_path, ["openjdk-17-jre-headless"])

    java = ensure_java(debian.machine)

    assert java.version == 17
    assert debian.asked == [("apt-get", "update"), (*INSTALL, "openjdk-17-jre-headless")]


def test_a_release_without_java_17_gives_its_default(tmp_path: Path):
    debian = Debian(tmp_path, ["default-jre-headless"], 'ID=mint\nID_LIKE="ubuntu debian"')

    assert ensure_java(debian.machine).version == 17
    assert debian.asked[-1] == (*INSTALL, "default-jre-headless")


def test_an_apt_get_that_fails_leaves_the_sentence(tmp_path: Path):
    with pytest.raises(JavaMissing, match=r"^Java 17 or newer is missing: install openjdk-17"):
        ensure_java(Debian(tmp_path, []).machine)


@pytest.mark.parametrize(
    ("name", "uid"), [("ID=debian", 1000), ("ID=fedora", 0), ("ID=notdebian", 0)]
)
def test_whoever_is_not_root_on_debian_is_told_what_to_install(tmp_path: Path, name: str, uid: int):
    debian = Debian(tmp_path, ["openjdk-17-jre-headless"], name, uid)

    with pytest.raises(JavaMissing, match="install openjdk-17-jre-headless"):
        ensure_java(debian.machine)

    assert debian.asked == []


def test_the_java_of_this_machine_answers():
    java = find_java()

    assert java.version >= 17
    assert (java.home / "bin/java").exists()
