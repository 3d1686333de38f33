"""Chromium: found, or installed where that is ours to do."""

import os
import shutil

from runtime.java import Machine, alone_with_packages, apt_install

NAMES = ("chromium", "chromium-browser", "google-chrome")
PACKAGES = ("chromium", "chromium-browser")


class BrowserMissing(Exception):
    """No Chromium. The text is one sentence for whoever has to install it."""


def find_chromium(machine: Machine | None = None) -> str:
    """The executable that $CHROMIUM names, or the first one on PATH."""
    environment = (machine or Machine()).environment
    named = environment.get("CHROMIUM")
    if named:
        if shutil.which(named):
            return named
        raise BrowserMissing(f"CHROMIUM is {named}, which cannot be run: name one that can.")
    for name in NAMES:
        found = shutil.which(name, path=environment.get("PATH", os.defpath))
        if found:
            return found
    raise BrowserMissing(
        "Chromium is missing: install chromium, or point CHROMIUM to one that is there."
    )


def ensure_chromium(machine: Machine | None = None) -> str:
    """Find Chromium, and install it first where that is ours to do: as root on Debian or Ubuntu."""
    machine = machine or Machine()
    try:
        return find_chromium(machine)
    except BrowserMissing:
        if machine.uid != 0 or not machine.is_debian() or "CHROMIUM" in machine.environment:
            raise
    with alone_with_packages(machine):
        try:
            return find_chromium(machine)  # whoever held the lock may have installed it
        except BrowserMissing:
            apt_install(PACKAGES, machine)
    return find_chromium(machine)
