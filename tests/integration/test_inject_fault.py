"""bin/inject-fault, and faults over HTTP, on real clusters in both forms and in the simulator."""

import asyncio
import re
import tomllib
from argparse import Namespace

import msgspec
import pytest

from actors.cluster import Cluster
from actors.commands.inject_fault import main
from actors.commands.inject_remotely import play_there
from actors.conditions import isr
from actors.doors.http.client import Page, PageRefused
from actors.doors.http.server import HttpServer
from actors.faults.play import is_whole
from actors.faults.scenario import scenario_of
from actors.faults.vocabulary import INSTANT, KINDS
from actors.process_cluster import ProcessCluster
from actors.source import NodeSource
from actors.view import BrokerState
from runtime.real import RealClock
from tests.support.processes import Command, zookeepers_in

SESSION_MS = 3_000
ON_LINKS = {"source": 2, "message": "Fetch", "topic": "orders", "partition": 0, "times": 2}
HEALED = [  # injected, listed, healed by its number
    {"fault": "pause", "broker": "follower of orders-0"},
    {"fault": "cut", "broker": 1, "other": 2, "one_way": True},
    {"fault": "cut", "broker": "controller", "other": "zookeeper"},
    {"fault": "drop", **ON_LINKS},
    {"fault": "duplicate", **ON_LINKS},
    {"fault": "delay", "ms": 20, **ON_LINKS},
    {"fault": "hold", **ON_LINKS},
    {"fault": "reorder", **ON_LINKS},
    {"fault": "delay-watch", "broker": 1, "ms": 20, "path": "/admin"},
    {"fault": "lose-watch", "broker": 2, "path": "/admin"},
    {"fault": "refuse-zookeeper", "broker": 2, "path": "/nowhere"},
    {"fault": "slow-disk", "broker": 2, "ms": 1},
    {"fault": "fail-disk", "broker": 2, "path": "elsewhere"},
    {"fault": "fill-disk", "broker": 2},
    {"fault": "skew-clock", "broker": 1, "ms": -500},
    {"fault": "kill", "broker": 2},
    {"fault": "stop-zookeeper"},
    {"fault": "refuse-request", "api": "Produce", "error": "NOT_LEADER_OR_FOLLOWER"},
    {"fault": "disconnect-request", "api": "Fetch", "client": "nobody"},
    {"fault": "delay-request", "broker": 1, "ms": 5},
    {"fault": "blackhole-request", "api": "Metadata", "nth": 9},
]
OVER_AT_ONCE = [
    {"fault": "lose-reply", "broker": 2},
    {"fault": "expire-session", "broker": 2},
]
REFUSED = [
    ({"fault": "lose-unsynced", "broker": 2}, "for the simulator"),
    ({"fault": "linger-session", "broker": 2, "ms": 5}, "for the simulator"),
    ({"fault": "flip-bit", "broker": 2, "topic": "orders"}, "no record of orders-0"),
    ({"fault": "resume", "broker": 1}, "not paused"),
    ({"fault": "start-zookeeper"}, "ZooKeeper is up"),
    ({"fault": "kill", "broker": 9}, "there is no broker 9"),
    ({"fault": "heal", "number": 999}, "no fault 999"),
]


@pytest.fixture(params=[Cluster, ProcessCluster], ids=["one process", "processes"])
async def page(request):
    """The live page of a cluster of two brokers on a ZooKeeper of its own, and the cluster."""
    async with request.param(2, session_timeout_ms=SESSION_MS) as cluster:
        await cluster.admin().create_topic("orders", assignments={0: (1, 2)})
        source = NodeSource(cluster) if isinstance(cluster, Cluster) else cluster
        server = HttpServer(source, clock=RealClock())
        await server.start()
        try:
            async with Page(f"127.0.0.1:{server.port}", token=None) as page:
                yield page, cluster
        finally:
            await server.close()


async def numbers(page: Page) -> list[int]:
    return [each["number"] for each in await page.ask("GET", "/api/faults")]


async def test_faults_are_had_listed_and_healed_over_http(page):
    page, cluster = page
    for fault in HEALED:
        done = await page.ask("POST", "/api/faults", fault)
        assert await numbers(page) == [done["number"]], fault
        healed = await page.ask("DELETE", f"/api/faults/{done['number']}")
        assert healed["number"] == done["number"]
        assert await numbers(page) == [], fault
    for fault in OVER_AT_ONCE:
        assert (await page.ask("POST", "/api/faults", fault))["number"] > 0
        assert await numbers(page) == []
    for fault, sentence in REFUSED:
        with pytest.raises(PageRefused, match=sentence):
            await page.ask("POST", "/api/faults", fault)

    await cluster.until(isr("orders", 0) == {1, 2}, timeout_ms=60_000)
    await cluster.until(is_whole, timeout_ms=60_000)
    await page.ask("POST", "/api/faults", {"fault": "pause", "broker": 2, "for_ms": 60_000})
    await page.ask("POST", "/api/faults", {"fault": "heal"})
    assert await numbers(page) == []


def test_all_faults_but_those_of_a_mended_cluster_are_tried_over_http():
    tried = {each["fault"] for each in (*HEALED, *OVER_AT_ONCE, *(fault for fault, _ in REFUSED))}

    # The rest is made of these: a restart heals a kill, a zombie is a pause.
    assert set(KINDS) - tried == {"restart", "shut-down", "zombie-controller"}
    assert {each["fault"] for each in HEALED}.isdisjoint(kind.__name__ for kind in INSTANT)


async def test_a_broker_that_is_started_twice_at_once_starts_once(page):
    page, cluster = page
    await page.ask("POST", "/api/faults", {"fault": "kill", "broker": 2})
    restart = {"fault": "restart", "broker": 2}

    answers = await asyncio.gather(
        *(page.ask("POST", "/api/faults", restart) for _ in range(3)), return_exceptions=True
    )

    assert [type(each) for each in answers].count(dict) == 1, answers
    await cluster.until(is_whole, timeout_ms=60_000)


async def test_a_broker_that_leaves_still_hears_that_its_link_is_healed(page):
    page, cluster = page
    await page.ask("POST", "/api/faults", {"fault": "cut", "broker": 2, "other": "zookeeper"})

    async with asyncio.TaskGroup() as both:
        both.create_task(page.ask("POST", "/api/faults", {"fault": "shut-down", "broker": 2}))
        await cluster.until(lambda view: view.brokers[2].state is not BrokerState.UP)
        both.create_task(page.ask("POST", "/api/faults", {"fault": "heal"}))

    if isinstance(cluster, ProcessCluster):
        assert await cluster.lives[2].child.ended() == 0, "it left in its own time"
    assert not cluster.is_up(2)


# --- the command ----------------------------------------------------------------------------------

SCENARIO = """
name = "leader-dies"
about = "The leader dies under load."
controller = 3
[load]
records = 40
over_ms = 1500
[[topics]]
replicas = [[1, 2, 3]]
[[steps]]
name = "death"
at_ms = 300
do = { fault = "kill", broker = "leader of orders-0" }
[[steps]]
on = { event = "LeaderElected", where = { topic = "orders" } }
do = { action = "mend", step = "death" }
[expect]
acknowledged = 40
"""

GUEST = """
name = "guest"
brokers = 2
[load]
records = 20
over_ms = 300
[[topics]]
name = "guests"
replicas = [[1, 2]]
[[steps]]
name = "goodbye"
at_ms = 100
do = { fault = "shut-down", broker = "leader of guests-0" }
is_awaited = false
[[steps]]
on = { event = "LeaderElected", where = { topic = "guests" } }
[[steps]]
when = { partition = "guests-0", leader = 2 }
do = { action = "mend", step = "goodbye" }
"""


@pytest.fixture
def scenario(tmp_path):
    path = tmp_path / "leader-dies.toml"
    path.write_text(SCENARIO)
    return path


def test_a_scenario_is_told_step_by_step_and_judged_in_the_simulator(scenario, capsys):
    code = main([str(scenario)])

    out = capsys.readouterr().out
    assert code == 0
    assert out.startswith("leader-dies: The leader dies under load.")
    assert re.search(r"\d s » #1: broker \d is killed", out)
    assert re.search(r"\d s   orders-0: broker \d leads, epoch 1", out)
    assert out.rstrip().endswith("verdict: every invariant held, and the cluster is whole")


def test_a_violation_is_exit_code_2_and_json_is_for_programs(scenario, capsys):
    scenario.write_text(SCENARIO.replace("acknowledged = 40", "acknowledged = 41"))

    assert main([str(scenario), "--json"]) == 2

    captured = capsys.readouterr()
    verdict = msgspec.json.decode(captured.out)
    assert verdict["invariant"] == "expect"
    assert verdict["account"]["acknowledged"] == 40
    assert "is killed" in captured.err


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ([], "must be given"),
        (["nonsense"], "neither a file nor a fault"),
        (["explode", "--broker", "1"], "'explode' is neither .*: the nearest are .*see .*--list"),
        (["--seed", "3", "explode", "--broker", "1"], "'explode' is neither a file nor a fault"),
        (["kil", "--broker", "1"], "'kil' is neither a file nor a fault: the nearest are kill, "),
        (["nowhere.toml", "--broker", "1"], "unrecognized arguments: --broker 1"),
        (["nowhere.toml"], "cannot be read"),
        (["--random"], "--random needs --for"),
        (["--random", "--for", "0"], "seconds"),
        (["--for", "9", "--list"], "must be given|nothing else does"),
        (["--active"], "--bootstrap-server"),
        (["kill"], "--broker"),
        (
            ["refuse-request", "--error", "STALE_CONTROLLER_EPOCH"],
            "Kafka's clients, and .* has none",
        ),
        (["kill", "--broker", "1", "--real", "--bootstrap-server", "127.0.0.1:1"], "of its own"),
        (["kill", "--broker", "-1"], "broker"),
        (["drop", "--message", "Fetches"], "there is FetchResponse|there is Fetch"),
        (["drop", "--probability", "2"], "probability"),
        (["delay"], "--ms"),
        (["kill", "--broker", "1", "--bootstrap-server", "x"], "no HOST:PORT"),
        (["kill", "--broker", "1", "--bootstrap-server", "127.0.0.1:1"], "nobody answers"),
    ],
)
def test_wrong_input_is_one_sentence_and_exit_code_1(arguments, sentence, capsys):
    try:
        code = main(arguments)
    except SystemExit as end:  # argparse's own
        code = end.code

    assert code == 1
    error = capsys.readouterr().err
    assert re.search(sentence, error)
    assert error.count("\n") == 1


def test_a_single_fault_is_a_scenario_of_its_own_in_the_simulator(capsys):
    assert main(["kill", "--broker", "leader of orders-0", "--seed", "5"]) == 0

    out = capsys.readouterr().out
    assert out.startswith("kill: End a broker as a power cut would")
    assert "seed 5, 3 brokers, 2 steps" in out
    assert re.search(r"\d s » #1: broker 1 is killed", out)
    assert re.search(r"\d s   orders-0: broker 2 leads, epoch", out)
    assert "1 fault or deed, 0 would have hit nobody; 100 records acknowledged" in out
    assert out.endswith("verdict: every invariant held, and the cluster is whole\n")


def test_a_fault_that_hits_nobody_is_exit_code_1(capsys):
    assert main(["resume", "--broker", "1"]) == 1

    captured = capsys.readouterr()
    assert "not done: broker 1 is not paused" in captured.out
    assert captured.out.endswith("verdict: none, since nothing was broken\n")
    assert captured.err == "inject-fault: nothing of it could be done\n"


@pytest.mark.parametrize(("world", "flags"), [("simulated", ["--real"]), ("real", [])])
def test_a_scenario_for_another_world_is_refused(scenario, world, flags, capsys):
    scenario.write_text(SCENARIO.replace("controller = 3", f'controller = 3\nworlds = ["{world}"]'))

    assert main([str(scenario), *flags]) == 1
    assert "leader-dies is for" in capsys.readouterr().err


def test_every_fault_is_listed_with_its_flags(capsys):
    assert main(["--list"]) == 0

    out = capsys.readouterr().out
    for name, kind in KINDS.items():
        assert re.search(rf"^{name} +\w", out, re.MULTILINE)
        for field in kind.__struct_fields__:
            assert f"--{field.replace('_', '-')}" in out


async def test_a_scenario_is_played_on_a_cluster_that_runs_and_takes_its_topics_away(page):
    page, cluster = page
    scenario = scenario_of(tomllib.loads(GUEST))
    given = Namespace(bootstrap_server=page.address, token_file=None)
    for _ in range(2):
        lines = []

        verdict = await play_there(scenario, given, lines.append)

        assert verdict.is_good, verdict
        assert verdict.account.acknowledged == 20
        assert any("broker 1 has stopped" in line for line in lines)
        assert any("the files of all replicas agree" in line for line in lines)
    assert set(await cluster.admin().list_topics()) <= {"orders", "__consumer_offsets"}
    assert await numbers(page) == []


async def test_what_cannot_be_played_there_is_refused(page):
    page, _ = page
    orders_again = GUEST.replace("guests", "orders")

    with pytest.raises(PageRefused, match="Invalid value"):
        await page.ask("POST", "/api/scenarios", {"toml": "steps ="})
    with pytest.raises(PageRefused, match="there is no scenario 7"):
        await page.ask("GET", "/api/scenarios/7")
    for toml, sentence in (
        (orders_again, "topic orders is there already"),
        (GUEST.replace("brokers = 2", "brokers = 3"), "it needs the brokers 1 to 3"),
    ):
        started = await page.ask("POST", "/api/scenarios", {"toml": toml})
        path = f"/api/scenarios/{started['number']}"
        while not (shown := await page.ask("GET", path))["refusal"]:
            assert shown["verdict"] is None
        assert sentence in shown["refusal"]


async def test_a_scenario_that_is_stopped_is_healed(page):
    page, cluster = page
    waiting = GUEST.replace("shut-down", "pause").replace("LeaderElected", "ReassignmentStep")
    waiting = waiting.replace('broker = "leader of guests-0"', "broker = 2")
    started = await page.ask("POST", "/api/scenarios", {"toml": waiting})
    path = f"/api/scenarios/{started['number']}"
    while not any("stands still" in line for line in (await page.ask("GET", path))["lines"]):
        pass
    with pytest.raises(PageRefused, match="is being played"):
        await page.ask("POST", "/api/scenarios", {"toml": waiting})

    await page.ask("DELETE", path)

    await cluster.until(is_whole, timeout_ms=60_000)
    assert set(await cluster.admin().list_topics()) <= {"orders", "__consumer_offsets"}


def test_random_faults_on_a_real_cluster_end_with_all_invariants_held(tmp_path, capsys):
    code = main(["--random", "--for", "4", "--seed", "12"])

    out = capsys.readouterr().out
    assert code == 0, out
    assert out.rstrip().endswith("verdict: every invariant held, and the cluster is whole")


def test_ctrl_c_heals_stops_and_leaves_nothing_behind(tmp_path):
    with Command("inject-fault", "--random", "--for", "90", "--seed", "3", tmp=tmp_path) as it:
        it.line_with("» #3:")

        code, out, err = it.interrupt()

    assert code == 130, out + err
    assert "verdict" not in out
    assert zookeepers_in(tmp_path) == []
