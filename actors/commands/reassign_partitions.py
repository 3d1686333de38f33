"""bin/reassign-partitions: as kafka-reassign-partitions.

Rule: a plan is read whole before anything moves; how to take it back is printed before it begins
to matter.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from actors.clients import Clients
from actors.commands.common import (
    command_parser,
    given_as,
    one_of,
    print_json,
    read_json,
    run_command,
    say,
)
from actors.commands.progress import Progress
from actors.operations import reassignments
from actors.operations.given import Nothing
from runtime.clock import RealClock

ACTIONS = ("generate", "execute", "verify", "list", "cancel")
LOOK_MS = 200


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command."""
    parser = command_parser(
        "reassign-partitions",
        "Move partitions to other brokers: propose, begin, verify, list, cancel.",
        "--bootstrap-server 127.0.0.1:9092 --execute --reassignment-json-file plan.json --wait",
    )
    for action in ACTIONS:
        parser.add_argument(f"--{action}", action="store_true")
    parser.add_argument("--topics-to-move-json-file", type=Path, metavar="FILE")
    parser.add_argument("--broker-list", metavar="1,2,3")
    parser.add_argument("--disable-rack-aware", action="store_true")
    parser.add_argument("--reassignment-json-file", type=Path, metavar="FILE")
    parser.add_argument("--throttle", type=int, metavar="BYTES", help="a second, for each broker")
    parser.add_argument("--additional", action="store_true", help="beside moves that go on")
    parser.add_argument("--preserve-throttles", action="store_true")
    parser.add_argument("--wait", action="store_true", help="with --execute: until all is moved")
    parser.add_argument("--json", action="store_true", help="answer as JSON")
    given = parser.parse_args(arguments)
    action = one_of(given, parser, *ACTIONS)
    if action == "generate" and not (given.topics_to_move_json_file and given.broker_list):
        parser.error("--generate needs --topics-to-move-json-file and --broker-list")
    if action in ("execute", "verify", "cancel") and given.reassignment_json_file is None:
        parser.error(f"--{action} needs --reassignment-json-file")
    brokers = (given.broker_list or "1").split(",")
    if not all(each.strip().isdecimal() for each in brokers):
        parser.error(f"--broker-list is {given.broker_list!r:.50}; it must be such as 1,2,3")
    return run_command(parser, given, WORK[action])


async def _generate(clients: Clients, given: argparse.Namespace) -> None:
    wanted = given_as(
        reassignments.GenerateGiven,
        topics=read_json(given.topics_to_move_json_file),
        broker_list=[int(each) for each in given.broker_list.split(",")],
        rack_aware=not given.disable_rack_aware,
    )
    proposal = await reassignments.generate(clients, wanted)
    if given.json:
        print_json(proposal)
        return
    say("Current partition replica assignment")
    say(_plan_text(proposal.current))
    say()
    say("Proposed partition reassignment configuration")
    say(_plan_text(proposal.proposed))


async def _execute(clients: Clients, given: argparse.Namespace) -> int:
    plan = read_json(given.reassignment_json_file)
    wanted = given_as(
        reassignments.ExecuteGiven, plan=plan, throttle=given.throttle, additional=given.additional
    )
    begun = await reassignments.execute(clients, wanted)
    if not given.json:
        say("Current partition replica assignment")
        say()
        say(_plan_text(begun.previous))
        say()
        say("Save this to use as the --reassignment-json-file option during rollback")
        count = len(begun.previous.partitions)
        say(f"Successfully started partition reassignments for {count} partitions")
        sys.stdout.flush()
    verified = await _await(clients, plan) if given.wait else None
    if given.json:
        print_json({"previous": begun.previous, "verified": verified})
    elif verified is not None:
        _tell(verified)
    return 0 if verified is None or verified.is_complete else 1


async def _await(clients: Clients, plan: str) -> reassignments.Verified:
    """Look until nothing of the plan moves; Ctrl-C leaves the moves going on."""
    clock = RealClock()
    progress: Progress | None = None
    try:
        while True:
            verified = await reassignments.verify(clients, reassignments.VerifyGiven(plan=plan))
            done = sum(each.state != "in progress" for each in verified.partitions)
            total = len(verified.partitions)
            progress = progress or Progress("moving", total, sys.stderr, clock)
            progress.update(done, f"{done} of {total} partitions")
            if done == total:
                return verified
            await clock.sleep(LOOK_MS)
    finally:
        if progress is not None:
            progress.close()


async def _verify(clients: Clients, given: argparse.Namespace) -> int:
    wanted = given_as(
        reassignments.VerifyGiven,
        plan=read_json(given.reassignment_json_file),
        preserve_throttles=given.preserve_throttles,
    )
    verified = await reassignments.verify(clients, wanted)
    if given.json:
        print_json(verified)
    else:
        say("Status of partition reassignment:")
        _tell(verified)
    return 1 if any(each.state == "failed" for each in verified.partitions) else 0


WORDS = {
    "completed": "Reassignment of partition {} is completed.",
    "in progress": "Reassignment of partition {} is still in progress.",
    "failed": "Reassignment of partition {} is neither going on nor completed.",
}


def _tell(verified: reassignments.Verified) -> None:
    for each in verified.partitions:
        say(WORDS[each.state].format(f"{each.topic}-{each.partition}"))


async def _list(clients: Clients, given: argparse.Namespace) -> None:
    moves = await reassignments.list_moves(clients, Nothing())
    if given.json:
        print_json(moves)
        return
    if not moves:
        say("No partition reassignments found.")
        return
    say("Current partition reassignments:")
    for each in moves:
        listed = ",".join(map(str, each.replicas))
        line = f"{each.topic}-{each.partition}: replicas: {listed}."
        for word, brokers in (("adding", each.adding), ("removing", each.removing)):
            if brokers:
                line += f" {word}: {','.join(map(str, brokers))}."
        say(line)


async def _cancel(clients: Clients, given: argparse.Namespace) -> None:
    wanted = given_as(
        reassignments.VerifyGiven,
        plan=read_json(given.reassignment_json_file),
        preserve_throttles=given.preserve_throttles,
    )
    done = await reassignments.cancel(clients, wanted)
    if given.json:
        print_json(done)
    elif not done.cancelled:
        say("None of the specified partition reassignments are active.")
    else:
        listed = ", ".join(f"{each.topic}-{each.partition}" for each in done.cancelled)
        say(f"Successfully cancelled partition reassignments for: {listed}")


def _plan_text(plan: reassignments.Plan) -> str:
    ordered = {"version": plan.version, "partitions": msgspec.to_builtins(plan.partitions)}
    return msgspec.json.encode(ordered).decode()


WORK: dict[str, Any] = {
    "generate": _generate,
    "execute": _execute,
    "verify": _verify,
    "list": _list,
    "cancel": _cancel,
}
