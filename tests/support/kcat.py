"""kcat: found, or installed where that is ours to do."""

import os
import shutil

from runtime.java import Machine, alone_with_packages, apt_install

NAMES = ("kcat", "kafkacat")
PACKAGES = ("kcat", "kafkacat")


class KcatMissing(Exception):
    """No kcat. The text is one sentence for whoever has to install it."""


def find_kcat(machine: Machine | None = None) -> str:
    """The first executable on PATH."""
    environment = (machine or Machine()).environment
    for name in NAMES:
        found = shutil.which(name, path=environment.get("PATH", os.defpath))
        if found:
            return found
    raise KcatMissing("kcat is missing: install kcat.")


def ensure_kcat(machine: Machine | None = None) -> str:
    """Find kcat, and install it first where that is ours to do: as root on Debian or Ubuntu."""
    machine = machine or Machine()
    try:
        return find_kcat(machine)
    except KcatMissing:
        if machine.uid != 0 or not machine.is_debian():
            raise
    with alone_with_packages(machine):
        try:
            return find_kcat(machine)  # whoever held the lock may have installed it
        except KcatMissing:
            apt_install(PACKAGES, machine)
    return find_kcat(machine)
