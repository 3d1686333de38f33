"""Faults and scenarios on a cluster that somebody else has started, by its live page.

Rule: the cluster does it and tells of it; here it is only asked for and shown. Whoever stops
watching a scenario stops it.
"""

import argparse
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import msgspec

from actors.commands.common import print_json, say
from actors.doors.http.client import Page, PageRefused
from actors.faults.scenario import Scenario
from actors.faults.simulated import Verdict
from actors.faults.vocabulary import INSTANT, AnyFault, as_table
from actors.faults.written import scenario_toml
from actors.remote import ClusterUnreachable
from actors.token import BadToken, token_of
from runtime.main import Sentence


@asynccontextmanager
async def _page(given: argparse.Namespace) -> AsyncIterator[Page]:
    try:
        token = token_of(given.token_file, os.environ)
        async with Page(given.bootstrap_server, token=token) as page:
            yield page
    except (PageRefused, BadToken, ClusterUnreachable) as error:
        raise Sentence(str(error)) from None


async def inject(fault: AnyFault, given: argparse.Namespace) -> int:
    """One fault."""
    async with _page(given) as page:
        done = await page.ask("POST", "/api/faults", as_table(fault))
    if given.json:
        print_json(done)
        return 0
    say(str(done["done"]))
    number = done["number"]
    if number and not isinstance(fault, INSTANT):
        where = given.bootstrap_server
        say(
            f"fault {number}; undo: bin/inject-fault heal --number {number} "
            f"--bootstrap-server {where}"
        )
    return 0


async def list_active(given: argparse.Namespace) -> int:
    """What is broken there now."""
    async with _page(given) as page:
        active: list[dict[str, Any]] = await page.ask("GET", "/api/faults")
    if given.json:
        print_json(active)
        return 0
    for each in active:
        say(f"{each['number']:5}  {each['text']}")
    if not active:
        say("nothing is broken")
    return 0


async def play_there(
    scenario: Scenario, given: argparse.Namespace, aside: Callable[[str], None]
) -> Verdict:
    """Have it played there, and show what is told of it."""
    async with _page(given) as page:
        started = await page.ask("POST", "/api/scenarios", {"toml": scenario_toml(scenario)})
        path = f"/api/scenarios/{started['number']}"
        shown, is_over = 0, False
        try:
            while True:
                state = await page.ask("GET", f"{path}?after={shown}")
                for line in state["lines"]:
                    aside(line)
                shown += len(state["lines"])
                if state["refusal"]:
                    is_over = True
                    raise Sentence(state["refusal"])
                if state["verdict"] is not None:
                    is_over = True
                    return msgspec.convert(state["verdict"], Verdict)
        finally:
            if not is_over:
                await page.ask("DELETE", path)
