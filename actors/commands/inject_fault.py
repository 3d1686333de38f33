"""bin/inject-fault: a scenario, a single fault, or random faults for a while; and a verdict.

Rule: what happens is told while it happens, a line each. All of it is played in the simulator
unless a cluster is named or a real one is asked for; a single fault is a scenario of its own there.
"""

import argparse
import re
import sys
from collections.abc import Callable
from difflib import get_close_matches
from pathlib import Path
from typing import Final

import msgspec

from actors.commands.common import many, print_json, say
from actors.commands.fault_arguments import (
    ROLES,
    about,
    add_fields,
    add_invariants,
    fault_given,
    vocabulary_lines,
)
from actors.commands.inject_remotely import inject, list_active, play_there
from actors.commands.parser import Parser
from actors.config import GENERATIONS, BadConfig
from actors.faults.hand import FaultRefused
from actors.faults.narrator import Narrator
from actors.faults.real import judge_real
from actors.faults.scenario import BadScenario, Load, Scenario, Step, read_scenario
from actors.faults.simulated import Verdict, judge, lasting_scenario_of_seed
from actors.faults.stage import RealStage
from actors.faults.vocabulary import KINDS, AnyFault, OnRequest
from actors.faults.written import scenario_toml
from actors.places import failures_as_sentences
from runtime.main import INTERRUPTED, Sentence, run

NAME: Final = "inject-fault"
FOUND: Final = 2  # the exit code for a violation
LONGEST_S: Final = 86_400
FAULT_AT_MS: Final = 1_000  # in the load of a single fault's scenario
MOST_SEED: Final = 2**31 - 1
EXAMPLES: Final = f"""examples:
  bin/inject-fault tests/scenarios/leader-dies.toml               # in the simulator
  bin/inject-fault tests/scenarios/leader-dies.toml --real        # on a cluster of its own
  bin/inject-fault kill --broker 1                                # in the simulator, with a verdict
  bin/inject-fault kill --broker 1 --bootstrap-server 127.0.0.1:8080
  bin/inject-fault drop --message LeaderAndIsr --to 2 --controller-epoch 7 --nth 2 \\
      --bootstrap-server 127.0.0.1:8080
  bin/inject-fault heal --number 3 --bootstrap-server 127.0.0.1:8080
  bin/inject-fault --random --for 120 --processes
  bin/inject-fault --list                                         # every fault, with its flags

a broker is a number, or {ROLES}
HOST:PORT is that of the live page, which bin/run-cluster prints

exit codes: 0 done, or all held; 1 wrong input, or it was refused; 2 a violation was found;
130 Ctrl-C, and all was healed"""


def main(arguments: list[str] | None = None) -> int:
    """The command."""
    words = sys.argv[1:] if arguments is None else arguments
    if words and words[0] in KINDS:
        return _single(words[0], words[1:])
    parser = _parser()
    given, unknown = parser.parse_known_args(words)
    try:
        if given.scenario is not None:  # else a fault's flags would be blamed for its name
            _check_is_file(given.scenario)
        if unknown:
            parser.error(f"unrecognized arguments: {' '.join(unknown)}")
        return _chosen(parser, given)
    except (BadScenario, BadConfig, FaultRefused) as error:
        return _refuse(str(error))


def _chosen(parser: Parser, given: argparse.Namespace) -> int:
    asked = [given.list, given.active, given.random, given.scenario is not None]
    if sum(asked) != 1:
        parser.error("one of a fault, a file, --random, --list and --active must be given")
    if given.random is not (given.duration is not None):
        parser.error("--random needs --for, and nothing else does")
    if given.list:
        for line in vocabulary_lines():
            say(line)
        return 0
    if given.active:
        if given.bootstrap_server is None:
            parser.error("--active needs --bootstrap-server")
        return run(list_active(given), name=NAME, interrupted=INTERRUPTED)
    if given.random:
        given.seed = _seed(given)
        scenario = lasting_scenario_of_seed(given.seed, for_ms=given.duration * 1000)
    else:
        scenario = read_scenario(Path(given.scenario))
    return _play(_seeded(scenario, given), given)


def _parser() -> Parser:
    parser = Parser(
        prog=NAME,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        description="Break something on purpose, tell what comes of it, and judge it.",
        usage=(
            "inject-fault FILE [options] | FAULT [its flags] | --random --for SECONDS [options] | "
            "--list | --active"
        ),
        epilog=EXAMPLES,
    )
    parser.add_argument(
        "scenario", nargs="?", metavar="FILE|FAULT", help="a scenario's file, or a fault's name"
    )
    parser.add_argument("--list", action="store_true", help="every fault, and its flags")
    parser.add_argument("--active", action="store_true", help="the faults that are not mended")
    parser.add_argument("--random", action="store_true", help="random faults on a real cluster")
    parser.add_argument(
        "--for", dest="duration", type=_seconds, metavar="SECONDS", help="how long, with --random"
    )
    _add_worlds(parser)
    parser.add_argument(
        "--json", action="store_true", help="the verdict as JSON, the account aside"
    )
    _add_server(parser)
    return parser


def _add_server(parser: Parser) -> None:
    parser.add_argument(
        "--bootstrap-server", metavar="HOST:PORT", help="the live page of a cluster that runs"
    )
    parser.add_argument(
        "--token-file", type=Path, metavar="FILE", help="what the cluster demands, if it does"
    )


def _add_worlds(parser: Parser) -> None:
    parser.add_argument("--seed", type=_number, metavar="N", help="default: the file's, or any")
    parser.add_argument("--real", action="store_true", help="on a real cluster of its own")
    parser.add_argument("--processes", action="store_true", help="the same, each broker a process")
    parser.add_argument(
        "--generation", choices=GENERATIONS, help="replication.generation, instead of the file's"
    )
    add_invariants(
        parser, "in the simulator only this one looks on, and others so named; default: all"
    )


def _seconds(text: str) -> float:
    if not re.fullmatch(r"[0-9]{1,6}(\.[0-9]{1,3})?", text) or not 0 < float(text) <= LONGEST_S:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds up to {LONGEST_S}")
    return float(text)


def _number(text: str) -> int:
    if not text.isdecimal() or int(text) > 2**62:
        raise argparse.ArgumentTypeError(f"{text!r} is no seed: it is a number from 0 on")
    return int(text)


def _seed(given: argparse.Namespace) -> int:
    if given.seed is not None:
        return int(given.seed)
    from random import SystemRandom  # noqa: PLC0415, TID251 - nobody chose, and it is told

    return SystemRandom().randint(1, MOST_SEED)


def _check_is_file(path: str) -> None:
    if not path.endswith(".toml") and "/" not in path and not Path(path).exists():
        near = ", ".join(get_close_matches(path, KINDS, cutoff=0))
        raise BadScenario(
            f"{path!r:.60} is neither a file nor a fault: the nearest are {near}; see {NAME} --list"
        )


def _seeded(scenario: Scenario, given: argparse.Namespace) -> Scenario:
    if given.seed is not None:
        scenario = msgspec.structs.replace(scenario, seed=given.seed)
    if given.generation is not None:
        overrides = scenario.overrides | {"replication.generation": given.generation}
        scenario = msgspec.structs.replace(scenario, overrides=overrides)
    return scenario


# --- a single fault -------------------------------------------------------------------------------


def _single(name: str, arguments: list[str]) -> int:
    parser = Parser(
        prog=f"{NAME} {name}",
        description=f"{about(KINDS[name])} Without --bootstrap-server: in the simulator, judged.",
        epilog=f"a broker (N|ROLE) is a number, or {ROLES}",
    )
    add_fields(parser, KINDS[name])
    _add_server(parser)
    _add_worlds(parser)
    parser.add_argument("--json", action="store_true", help="the answer as JSON")
    parser.set_defaults(random=False)
    given = parser.parse_args(arguments)
    try:
        fault = fault_given(name, given)
        if given.bootstrap_server is None:
            return _play(_seeded(scenario_of_fault(fault), given), given)
        _check_only_server(given)
    except (BadScenario, BadConfig, FaultRefused) as error:
        return _refuse(str(error))
    return run(inject(fault, given), name=NAME, interrupted=INTERRUPTED)


def scenario_of_fault(fault: AnyFault) -> Scenario:
    """A fault in an everyday load, mended when that is over, and nothing else."""
    load = Load(idempotence=True, groups=True)
    return Scenario(
        name=fault.name,
        about=about(type(fault)),
        overrides={"offsets.topic.num.partitions": 1},
        load=load,
        steps=(Step(do=fault, at_ms=FAULT_AT_MS), Step(at_ms=load.over_ms)),
    )


# --- a scenario -----------------------------------------------------------------------------------


def _play(scenario: Scenario, given: argparse.Namespace) -> int:
    aside = _say_aside if given.json else say
    _check_world(scenario, given)
    if given.bootstrap_server is not None:
        _check_only_server(given)
        return run(_there(scenario, given, aside), name=NAME, interrupted=INTERRUPTED)
    _introduce(scenario, aside)
    if _is_real(given):
        work = _really(scenario, given, aside)
        return run(work, name=NAME, interrupted=INTERRUPTED)
    try:
        verdict = judge(
            scenario,
            narrate=lambda stage: Narrator(stage, aside),
            is_traced=True,
            only=tuple(given.invariant),
        )
    except KeyboardInterrupt:
        return INTERRUPTED
    return conclude(verdict, scenario, given, "virtual seconds")


def _is_real(given: argparse.Namespace) -> bool:
    return bool(given.real or given.processes or given.random)


def _check_only_server(given: argparse.Namespace) -> None:
    if given.real or given.processes:
        raise BadScenario("--bootstrap-server is a cluster that runs, --real one of its own")


def _check_world(scenario: Scenario, given: argparse.Namespace) -> None:
    is_real = _is_real(given) or given.bootstrap_server is not None
    if is_real and "real" not in scenario.worlds:
        raise BadScenario(f"{scenario.name} is for the simulator: a real cluster cannot do it all")
    if not is_real and "simulated" not in scenario.worlds:
        raise BadScenario(f"{scenario.name} is for real clusters: give --real or --processes")
    if given.bootstrap_server is None and any(isinstance(s.do, OnRequest) for s in scenario.steps):
        raise BadScenario(
            f"{scenario.name} is about requests of Kafka's clients, and a cluster of its own"
            " has none: name one that runs with --bootstrap-server"
        )


async def _really(
    scenario: Scenario, given: argparse.Namespace, aside: Callable[[str], None]
) -> int:
    def narrate(stage: RealStage) -> Narrator:
        aside(f"{len(stage.brokers)} brokers are up, on ZooKeeper at {stage.zookeeper}")
        return Narrator(stage, aside)

    async with failures_as_sentences("the embedded server", None):
        try:
            verdict = await judge_real(
                scenario, processes=given.processes, announce=aside, narrate=narrate
            )
        except (BadScenario, BadConfig) as error:
            raise Sentence(str(error)) from None
    return conclude(verdict, scenario, given, "seconds")


async def _there(
    scenario: Scenario, given: argparse.Namespace, aside: Callable[[str], None]
) -> int:
    _introduce(scenario, aside)
    verdict = await play_there(scenario, given, aside)
    return conclude(verdict, scenario, given, "seconds")


def _introduce(scenario: Scenario, aside: Callable[[str], None]) -> None:
    about_it = f": {scenario.about}" if scenario.about else ""
    aside(f"{scenario.name}{about_it}")
    steps = many(len(scenario.steps), "step")
    aside(f"seed {scenario.seed}, {many(scenario.brokers, 'broker')}, {steps}")


def conclude(verdict: Verdict, scenario: Scenario, given: argparse.Namespace, unit: str) -> int:
    """Tell the verdict; the exit code."""
    if given.json:
        print_json(verdict)
    else:
        for line in _verdict_lines(verdict, unit):
            say(line)
    if verdict.is_good:
        return _refuse("nothing of it could be done") if _is_void(verdict) else 0
    if given.random:
        path = Path(f"{scenario.name}.toml")
        try:
            path.write_text(scenario_toml(scenario))
        except OSError as error:
            _say_aside(f"{path} cannot be written: {error.strerror}; again: --seed {scenario.seed}")
            return FOUND
        _say_aside(f"what was done is written to {path}; again: bin/inject-fault {path} --real")
    return FOUND


def _verdict_lines(verdict: Verdict, unit: str) -> list[str]:
    account = verdict.account
    deeds = many(account.injected, "fault or deed", "faults and deeds")
    records = many(account.acknowledged, "record")
    lines = [
        f"{verdict.virtual_ms / 1000:.1f} {unit}: {deeds}, "
        f"{account.refused} would have hit nobody; {records} acknowledged, "
        f"{account.failed} given up"
    ]
    if verdict.causes:
        lines += ["the first bad event, and what led to it:", *(f"  {c}" for c in verdict.causes)]
    if verdict.is_good and verdict.expected:
        lines.append(f"verdict: as expected, {verdict.violation}")
    elif verdict.is_good and _is_void(verdict):
        lines.append("verdict: none, since nothing was broken")
    elif verdict.is_good:
        lines.append("verdict: every invariant held, and the cluster is whole")
    else:
        lines.append(f"verdict: violated: {verdict.violation}")
    return lines


def _is_void(verdict: Verdict) -> bool:
    return verdict.account.refused > 0 and verdict.account.injected == 0


def _refuse(sentence: str) -> int:
    sys.stderr.write(f"{NAME}: {sentence}\n")
    return 1


def _say_aside(line: str) -> None:
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()


__all__ = ["main"]
