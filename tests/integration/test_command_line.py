"""The commands of bin/ as a person types them: real processes, a real cluster, real exit codes."""

import asyncio
import json
import sys
from collections.abc import AsyncIterator

import pytest

from actors.cluster import Cluster
from actors.doors.http.server import HttpServer
from actors.source import NodeSource
from tests.support.processes import ROOT
from tests.support.zookeeper import SharedZooKeeper

LIMIT_S = 60


class Shell:
    """Runs commands against one cluster."""

    def __init__(self, cluster: Cluster, page: str) -> None:
        self.cluster = cluster
        self.page = page
        self.broker = next(iter(cluster.addresses().values()))

    async def run(
        self, name: str, *arguments: str, stdin: bytes = b"", server: str | None = None
    ) -> tuple[int, str, str]:
        extra = [] if name == "dump-log" else ["--bootstrap-server", server or self.broker]
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            str(ROOT / "bin" / name),
            *extra,
            *arguments,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        async with asyncio.timeout(LIMIT_S):
            out, err = await process.communicate(stdin)
        assert process.returncode is not None
        return process.returncode, out.decode(), err.decode()

    async def ok(self, name: str, *arguments: str, **options) -> str:
        code, out, err = await self.run(name, *arguments, **options)
        assert (code, err) == (0, "")
        return out

    async def refused(self, name: str, *arguments: str, **options) -> str:
        """One sentence on standard error, exit code 1, and nothing else."""
        code, out, err = await self.run(name, *arguments, **options)
        assert (code, out) == (1, "")
        assert len(err.splitlines()) == 1
        assert err.startswith(f"{name}: ")
        return err


@pytest.fixture
async def shell(zookeeper: SharedZooKeeper, tmp_path) -> AsyncIterator[Shell]:
    hosts = zookeeper.hosts + zookeeper.chroot()
    overrides = {"offsets.topic.num.partitions": 3}
    cluster = Cluster(3, zookeeper=hosts, data=tmp_path / "data", overrides=overrides)
    async with cluster:
        server = HttpServer(NodeSource(cluster), clock=cluster.clock)
        await server.start()
        yield Shell(cluster, server.url)
        await server.close()


async def test_topics_are_made_described_grown_and_deleted(shell: Shell):
    made = await shell.ok(
        "topics", "--create", "--topic", "orders", "--replica-assignment", "1:2:3,2:3:1"
    )
    again = await shell.refused("topics", "--create", "--topic", "orders")
    kept = await shell.ok("topics", "--create", "--topic", "orders", "--if-not-exists")
    described = await shell.ok("topics", "--describe", "--topic", "orders", server=shell.page)
    grown = await shell.ok("topics", "--alter", "--topic", "orders", "--partitions", "3")
    listed = json.loads(await shell.ok("topics", "--list", "--json"))
    gone = await shell.ok("topics", "--delete", "--topic", "orders")

    assert made == "Created topic orders.\n"
    assert "exists already" in again
    assert kept == "Topic orders was there already.\n"
    head, *partitions = described.splitlines()
    assert head.startswith("Topic: orders\tTopicId: ")
    assert head.endswith("\tPartitionCount: 2\tReplicationFactor: 3\tConfigs: ")
    assert partitions == [
        "\tTopic: orders\tPartition: 0\tLeader: 1\tReplicas: 1,2,3\tIsr: 1,2,3",
        "\tTopic: orders\tPartition: 1\tLeader: 2\tReplicas: 2,3,1\tIsr: 2,3,1",
    ]
    assert grown == "Topic orders has 3 partitions.\n"
    assert listed == {"topics": ["orders"]}
    assert gone == "Topic orders is deleted.\n"
    assert await shell.ok("topics", "--list") == ""


async def test_partitions_that_need_care_are_found(shell: Shell):
    await shell.ok("topics", "--create", "--topic", "orders", "--replica-assignment", "1:2:3")
    await shell.ok("topics", "--create", "--topic", "whole", "--replica-assignment", "1:2")
    await shell.ok("topics", "--create", "--topic", "lone", "--replica-assignment", "3")
    await shell.cluster.stop_broker(3)

    under = await shell.ok("topics", "--describe", "--under-replicated-partitions")
    away = await shell.ok("topics", "--describe", "--unavailable-partitions")

    assert [line.split("\t")[1:3] for line in under.splitlines()] == [
        ["Topic: orders", "Partition: 0"],
    ]
    assert away == "\tTopic: lone\tPartition: 0\tLeader: none\tReplicas: 3\tIsr: 3\n"


async def test_records_are_sent_read_and_a_groups_lag_is_told(shell: Shell):
    await shell.ok("topics", "--create", "--topic", "orders", "--partitions", "1")

    await shell.ok(
        "produce",
        "--topic",
        "orders",
        "--property",
        "parse.key=true",
        "--property",
        "key.separator=:",
        stdin=b"a:coffee\nb:tea\nc:water\n",
    )
    made_up = await shell.ok("produce", "--topic", "orders", "--num-records", "50")
    first = await shell.ok(
        "consume",
        *("--topic", "orders", "--from-beginning", "--group", "billing", "--max-messages", "2"),
        *("--property", "print.key=true", "--property", "print.offset=true"),
    )
    next_one = await shell.ok(
        "consume", "--topic", "orders", "--group", "billing", "--max-messages", "1", "--json"
    )
    third = await shell.ok(
        "consume",
        *("--topic", "orders", "--partition", "0", "--offset", "2", "--max-messages", "1"),
        *("--property", "print.timestamp=true", "--property", "print.partition=true"),
    )
    rest = await shell.ok(
        "consume", "--topic", "orders", "--group", "billing", "--timeout-ms", "500"
    )
    groups = await shell.ok("consumer-groups", "--list")
    lag = json.loads(
        await shell.ok("consumer-groups", "--describe", "--group", "billing", "--json")
    )

    assert made_up.startswith("50 records sent in ")
    assert first == "Offset:0\ta\tcoffee\nOffset:1\tb\ttea\n"
    assert json.loads(next_one)["value"] == "water"
    assert third.startswith("CreateTime:")
    assert third.endswith("\tPartition:0\twater\n")
    assert len(rest.splitlines()) == 50
    assert groups == "billing\n"
    assert await shell.ok("consumer-groups", "--list", "--state") == "billing Empty\n"
    deleted = await shell.ok("consumer-groups", "--delete", "--group", "billing")
    assert deleted == "deleted group billing\n"
    assert await shell.ok("consumer-groups", "--list") == ""
    assert lag["offsets"] == [
        {
            "topic": "orders",
            "partition": 0,
            "current_offset": 53,
            "log_end_offset": 53,
            "lag": 0,
            "metadata": "",
            "member_id": "",
            "host": "",
            "client_id": "",
        }
    ]
    assert (lag["state"], lag["members"]) == ("Empty", [])


async def test_a_group_goes_on_elsewhere_only_if_that_is_meant(shell: Shell):
    await shell.ok("produce", "--topic", "orders", "--num-records", "10")
    read = ["--topic", "orders", "--from-beginning", "--group", "billing", "--max-messages", "10"]
    await shell.ok("consume", *read)

    code, out, err = await shell.run(
        "consumer-groups", "--reset-offsets", "--group", "billing", "--to-earliest"
    )
    before = await shell.ok("consumer-groups", "--describe", "--group", "billing")
    await shell.ok(
        "consumer-groups",
        *("--reset-offsets", "--group", "billing", "--topic", "orders:0", "--to-offset", "4"),
        "--execute",
    )
    after = await shell.ok("consumer-groups", "--describe", "--group", "billing")

    assert code == 0
    assert out.splitlines()[1].split() == ["billing", "orders", "0", "0"]
    assert "nothing was changed" in err
    assert before.splitlines()[1].split()[3:6] == ["10", "10", "0"]
    assert after.splitlines()[0].split()[:6] == [
        "GROUP",
        "TOPIC",
        "PARTITION",
        "CURRENT-OFFSET",
        "LOG-END-OFFSET",
        "LAG",
    ]
    assert after.splitlines()[1].split()[3:6] == ["4", "10", "6"]


async def test_partitions_move_by_a_plan_and_back(shell: Shell, tmp_path):
    await shell.ok("topics", "--create", "--topic", "foo1", "--replica-assignment", "1:2,2:3")
    topics, plan, back = (tmp_path / name for name in ("topics.json", "plan.json", "back.json"))
    topics.write_text('{"topics": [{"topic": "foo1"}],\n "version":1\n}')

    proposed = await shell.ok(
        "reassign-partitions",
        *("--generate", "--topics-to-move-json-file", str(topics), "--broker-list", "1,3"),
    )
    plan.write_text(proposed.splitlines()[-1])
    begun = await shell.ok(
        "reassign-partitions",
        *("--execute", "--reassignment-json-file", str(plan), "--throttle", "1000000", "--wait"),
    )
    back.write_text(begun.splitlines()[2])
    verified = await shell.ok(
        "reassign-partitions", "--verify", "--reassignment-json-file", str(plan)
    )
    moved = json.loads(await shell.ok("topics", "--describe", "--topic", "foo1", "--json"))
    throttled = await shell.ok(
        "configs", "--describe", "--entity-type", "topics", "--entity-name", "foo1"
    )
    await shell.ok(
        "reassign-partitions", "--execute", "--reassignment-json-file", str(back), "--wait"
    )
    returned = json.loads(await shell.ok("topics", "--describe", "--topic", "foo1", "--json"))

    assert proposed.startswith("Current partition replica assignment\n")
    assert "Successfully started partition reassignments for 2 partitions" in begun
    assert "Reassignment of partition foo1-0 is completed." in verified
    assert {tuple(sorted(each["replicas"])) for each in moved[0]["partitions"]} == {(1, 3)}
    assert "throttled" not in throttled
    assert [each["replicas"] for each in returned[0]["partitions"]] == [[1, 2], [2, 3]]
    assert await shell.ok("reassign-partitions", "--list") == "No partition reassignments found.\n"


# As the document from which the project began has it: Kafka's own topic, nine brokers.
SEED_PLAN = """{
    "version":1,
    "partitions":[
        {"topic":"__consumer_offsets", "partition":19, "replicas":[3, 9, 2]},
        {"topic":"__consumer_offsets", "partition":26, "replicas":[2, 6, 4]},
        {"topic":"__consumer_offsets", "partition":27, "replicas":[5, 3, 8]}
    ]
}
"""


async def test_the_plan_of_the_seed_document_works_as_it_stands(zookeeper, tmp_path):
    plan = tmp_path / "XXX.json"
    plan.write_text(SEED_PLAN)
    async with Cluster(9, zookeeper=zookeeper.hosts + zookeeper.chroot()) as cluster:
        shell = Shell(cluster, "")
        await shell.ok("produce", "--topic", "orders", "--num-records", "1")
        read = ["--from-beginning", "--group", "g", "--max-messages", "1"]
        await shell.ok("consume", "--topic", "orders", *read)

        moved = await shell.ok(
            "reassign-partitions", "--execute", "--reassignment-json-file", str(plan), "--wait"
        )
        described = json.loads(
            await shell.ok("topics", "--describe", "--topic", "__consumer_offsets", "--json")
        )

    assert "Reassignment of partition __consumer_offsets-27 is completed." in moved
    replicas = {each["partition"]: each["replicas"] for each in described[0]["partitions"]}
    assert [replicas[19], replicas[26], replicas[27]] == [[3, 9, 2], [2, 6, 4], [5, 3, 8]]


async def test_settings_are_told_and_changed(shell: Shell):
    entity = ("--entity-type", "topics", "--entity-name", "orders")
    await shell.ok("topics", "--create", "--topic", "orders", "--config", "retention.ms=5000")

    changed = await shell.ok(
        "configs",
        *("--alter", *entity, "--add-config", "cleanup.policy=[compact,delete]"),
        *("--delete-config", "retention.ms"),
    )
    own = await shell.ok("configs", "--describe", *entity)
    broker = await shell.ok(
        "configs", "--describe", "--entity-type", "brokers", "--entity-name", "2", "--all"
    )

    assert changed == "Completed updating config for topic orders.\n"
    assert own.splitlines() == [
        "Dynamic configs for topic orders are:",
        "  cleanup.policy=compact,delete sensitive=false source=TOPIC_CONFIG",
    ]
    assert "  offsets.topic.num.partitions=3 sensitive=false source=STATIC_BROKER_CONFIG" in broker


async def test_leaders_are_elected_on_request(shell: Shell):
    await shell.ok("topics", "--create", "--topic", "orders", "--replica-assignment", "2:1:3")
    await shell.cluster.stop_broker(2)
    await shell.cluster.start_broker(2)
    await shell.cluster.until(lambda view: view.under_replicated == 0)
    one = ("--topic", "orders", "--partition", "0")

    elected = await shell.ok("elect-leaders", "--election-type", "preferred", *one)
    again = await shell.ok("elect-leaders", "--election-type", "preferred", *one)

    assert elected == (
        "Successfully completed leader election (PREFERRED) for partitions orders-0\n"
    )
    assert again.startswith("Valid replica already elected")


async def test_a_logs_files_are_shown_as_kafka_shows_them(shell: Shell, tmp_path):
    await shell.ok("topics", "--create", "--topic", "orders", "--replica-assignment", "1")
    await shell.ok("produce", "--topic", "orders", stdin=b"coffee\n")
    folder = tmp_path / "data" / "broker-1" / "orders-0"
    log = folder / "00000000000000000000.log"
    broken = tmp_path / "00000000000000000000.log"
    broken.write_bytes(log.read_bytes() + b"rubbish")

    shown = await shell.ok("dump-log", "--files", str(log), "--print-data-log")
    code, out, err = await shell.run("dump-log", "--files", str(broken))
    named = await shell.refused("dump-log", "--files", str(tmp_path / "nothing.log"))

    lines = shown.splitlines()
    assert lines[:2] == [f"Dumping {log}", "Starting offset: 0"]
    assert lines[2].startswith("baseOffset: 0 lastOffset: 0 count: 1 baseSequence: -1 ")
    assert lines[2].endswith(" isvalid: true")
    assert lines[3].startswith("| offset: 0 CreateTime: ")
    assert lines[3].endswith("payload: coffee")
    assert code == 1
    assert "baseOffset: 0" in out
    assert "ends in 7 bytes that are no batch" in err
    assert "cannot be read: No such file" in named


WRONG = [
    (("topics",), "exactly one of --create, --list"),
    (("topics", "--create"), "--create needs --topic"),
    (("topics", "--create", "--topic", "a/b"), "a/b"),
    (("topics", "--create", "--topic", "x" * 250), "topic: "),
    (("topics", "--create", "--topic", "t", "--partitions", "0"), "partitions: "),
    (("topics", "--create", "--topic", "t", "--partitions", "many"), "invalid int value: 'many'"),
    (
        ("topics", "--create", "--topic", "t", "--replication-factor", "9"),
        "The replication factor is 9",
    ),
    (("topics", "--create", "--topic", "t", "--config", "no.such=1"), "'no.such'"),
    (("topics", "--create", "--topic", "t", "--config", "retention.ms"), "is no KEY=VALUE"),
    (("topics", "--create", "--topic", "t", "--replica-assignment", "1:x"), "1:x"),
    (("topics", "--describe", "--topic", "nowhere"), "There is no topic 'nowhere'"),
    (("topics", "--delete", "--topic", "nowhere"), "nowhere"),
    (("topics", "--alter", "--topic", "nowhere", "--partitions", "2"), "nowhere"),
    (("configs", "--describe", "--entity-type", "users"), "invalid choice: 'users'"),
    (("configs", "--describe", "--entity-type", "topics"), "--entity-name"),
    (("configs", "--alter", "--entity-type", "topics", "--entity-name", "t"), "--add-config"),
    (("reassign-partitions", "--execute"), "--reassignment-json-file"),
    (("elect-leaders", "--election-type", "preferred", "--topic", "t"), "go together"),
    (("produce", "--topic", "t", "--num-records", "0"), "--num-records is 0"),
    (("produce", "--topic", "t", "--file", "/nowhere"), "/nowhere cannot be read"),
    (("produce", "--topic", "t", "--property", "colour=red"), "no property colour"),
    (("produce", "--topic", "t", "--producer-property", "lingre.ms=1"), "linger.ms is the nearest"),
    (("consume", "--topic", "nowhere"), "There is no topic 'nowhere'"),
    (("consume", "--topic", "t", "--offset", "5"), "--offset needs --partition"),
    (("consumer-groups", "--describe"), "--group or --all-groups"),
    (("consumer-groups", "--describe", "--group", "nobody"), "has committed nothing"),
    (("consumer-groups", "--reset-offsets", "--group", "g"), "--to-earliest"),
    (("topics", "--list", "--token-file", "/nowhere"), "cannot be read"),
]


async def test_wrong_input_is_one_sentence_and_changes_nothing(shell: Shell, tmp_path):
    bad = tmp_path / "bad.json"
    bad.write_text('{"version": 1,\n "partitions": [{"topic": "t",}]}')
    wrong = [
        *WRONG,
        (("reassign-partitions", "--execute", "--reassignment-json-file", str(bad)), "line 2"),
    ]

    for (name, *arguments), sentence in wrong:
        assert sentence in await shell.refused(name, *arguments), (name, arguments)

    assert await shell.ok("topics", "--list", "--exclude-internal") == ""


async def test_nobody_there_is_one_sentence(shell: Shell):
    refused = await shell.refused("topics", "--list", server="127.0.0.1:1")
    nonsense = await shell.refused("topics", "--list", server="nonsense")

    assert "no cluster was found: 127.0.0.1:1: Connection refused" in refused
    assert "'nonsense' is no HOST:PORT" in nonsense


@pytest.mark.parametrize(
    "name",
    [
        "topics",
        "configs",
        "reassign-partitions",
        "elect-leaders",
        "produce",
        "consume",
        "consumer-groups",
        "dump-log",
    ],
)
async def test_help_shows_an_example(name):
    process = await asyncio.create_subprocess_exec(
        sys.executable, str(ROOT / "bin" / name), "--help", stdout=asyncio.subprocess.PIPE
    )
    out, _ = await process.communicate()

    assert process.returncode == 0
    assert f"example: bin/{name} " in out.decode()
