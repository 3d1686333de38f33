"""Where Java is: ZooKeeper's server and Spark both run on it.

Rule: JAVA_HOME is asked first, then PATH, then the folder where Debian keeps its own. What is too
old or broken counts as absent, and is named in the one sentence that says what to install.
"""

import fcntl
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

OLDEST: Final = 17
PACKAGES: Final = ("openjdk-17-jre-headless", "default-jre-headless")  # newer releases lack 17
ANSWER_TIMEOUT_S: Final = 30.0


class JavaMissing(Exception):
    """No Java that will do. The text is one sentence for whoever has to install it."""


@dataclass(frozen=True)
class Java:
    """A Java that will do."""

    executable: Path
    home: Path  # what it says itself: the executable may be a link or a shim
    version: int


def run_aloud(command: Sequence[str], environment: Mapping[str, str]) -> int:
    """Run a command that talks to people, and so on stderr: stdout belongs to the caller."""
    return subprocess.run(
        command, env=environment, stdin=subprocess.DEVNULL, stdout=sys.stderr, check=False
    ).returncode


@dataclass(frozen=True)
class Machine:
    """What finding and installing depend on."""

    environment: Mapping[str, str] = field(default_factory=lambda: os.environ)
    uid: int = field(default_factory=os.getuid)
    os_release: Path = Path("/etc/os-release")
    installed: Path = Path("/usr/lib/jvm")
    package_lock: Path = Path("/var/lib/dpkg")  # bin/.python takes the same one
    run: Callable[[Sequence[str], Mapping[str, str]], int] = run_aloud

    def is_debian(self) -> bool:
        """Whether apt-get can be expected: Debian, Ubuntu, or what calls itself like them."""
        if not self.os_release.is_file():
            return False
        names = re.findall(r"(?m)^ID(?:_LIKE)?=[\"']?([^\"'\n]*)", self.os_release.read_text())
        return not {"debian", "ubuntu"}.isdisjoint(" ".join(names).split())


def find_java(machine: Machine | None = None) -> Java:
    """Answer with the first Java that is new enough, or raise JavaMissing."""
    machine = machine or Machine()
    refused: list[str] = []
    for executable in _candidates(machine):
        java = _ask(executable, machine)
        if java is None:
            refused.append(f"{executable} does not answer")
        elif java.version < OLDEST:
            refused.append(f"{executable} is Java {java.version}")
        else:
            return java
    found = f" ({', '.join(refused)})" if refused else ""
    raise JavaMissing(
        f"Java {OLDEST} or newer is missing{found}: install {PACKAGES[0]},"
        " or point JAVA_HOME to a Java that is there."
    )


def ensure_java(machine: Machine | None = None) -> Java:
    """Find Java, and install it first where that is ours to do: as root on Debian or Ubuntu."""
    machine = machine or Machine()
    try:
        return find_java(machine)
    except JavaMissing:
        if machine.uid != 0 or not machine.is_debian():
            raise
    with alone_with_packages(machine):
        try:
            return find_java(machine)  # whoever held the lock may have installed it
        except JavaMissing:
            apt_install(PACKAGES, machine)
    return find_java(machine)


def _candidates(machine: Machine) -> Iterator[Path]:
    home = machine.environment.get("JAVA_HOME")
    if home and (Path(home) / "bin/java").exists():
        yield Path(home) / "bin/java"
    on_path = shutil.which("java", path=machine.environment.get("PATH", os.defpath))
    if on_path:
        yield Path(on_path)
    yield from sorted(machine.installed.glob("*/bin/java"))


def _ask(executable: Path, machine: Machine) -> Java | None:
    """Ask a Java for its version and home; None when it does not answer like one."""
    # Without UsePerfData, Java leaves no /tmp/hsperfdata_<user> behind.
    command = [str(executable), "-XX:-UsePerfData", "-XshowSettings:properties", "-version"]
    try:
        answer = subprocess.run(
            command,
            env=machine.environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=ANSWER_TIMEOUT_S,
            check=False,
        ).stderr
    except (OSError, subprocess.TimeoutExpired):
        return None
    version = re.search(r"java\.specification\.version = (?:1\.)?(\d+)", answer)
    home = re.search(r"java\.home = (.+)", answer)
    if version is None or home is None:
        return None
    return Java(executable, Path(home[1].strip()), int(version[1]))


@contextmanager
def alone_with_packages(machine: Machine) -> Iterator[None]:
    """Keep other processes of ours from installing meanwhile."""
    descriptor = os.open(machine.package_lock, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def apt_install(packages: Sequence[str], machine: Machine) -> None:
    """Let apt-get try one package after the other. Whether it helped is for the caller to see."""
    sys.stderr.write(f"understudy: installing {packages[0]} with apt-get\n")
    environment = {**machine.environment, "DEBIAN_FRONTEND": "noninteractive"}
    install = ("apt-get", "install", "-y", "--no-install-recommends")
    try:
        machine.run(("apt-get", "update"), environment)  # if it fails, an older list may do
        for package in packages:
            if machine.run((*install, package), environment) == 0:
                return
    except FileNotFoundError:
        return  # a Debian without apt-get
