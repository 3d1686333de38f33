"""How commands of bin/ end when somebody stops them, or stops reading them."""

import asyncio
import os
import pty
import signal
import subprocess
import sys

import pytest

from tests.support.processes import ROOT
from tests.support.real_cluster import real_cluster
from wire.ids import TopicPartition

LIMIT_S = 60


class Shell:
    """Starts commands against one cluster; none of them outlives the test."""

    def __init__(self, server):
        self._server = server
        self._started = []

    def start(self, name, *arguments, **streams):
        server = [] if name == "dump-log" else ["--bootstrap-server", self._server]
        process = subprocess.Popen(
            [sys.executable, str(ROOT / "bin" / name), *server, *arguments],
            **{
                "stdin": subprocess.DEVNULL,
                "stdout": subprocess.PIPE,
                "stderr": subprocess.PIPE,
                **streams,
            },
        )
        self._started.append(process)
        return process

    def close(self):
        for process in self._started:
            process.kill()
            process.communicate()


@pytest.fixture
async def drive(zookeeper):
    overrides = {"offsets.topic.num.partitions": 1, "offsets.topic.replication.factor": 1}
    async with real_cluster(zookeeper, brokers=1, overrides=overrides) as drive:
        await drive.admin.create_topic("orders", partitions=1, replication_factor=1)
        async with drive.cluster.producer() as producer:
            for number in range(100):
                await producer.send("orders", f"record {number}".encode())
        yield drive


@pytest.fixture
async def shell(drive):
    shell = Shell(next(iter(drive.cluster.addresses().values())))
    yield shell
    shell.close()


async def in_thread(call, *arguments):
    """The cluster lives in this process: whoever waits for a command must let it run."""
    return await asyncio.wait_for(asyncio.to_thread(call, *arguments), LIMIT_S)


async def ended(process):
    out, err = await in_thread(process.communicate)
    return process.returncode, out, err


async def test_a_consumer_follows_until_ctrl_c_which_is_no_failure(drive, shell):
    process = shell.start("consume", "--topic", "orders", "--from-beginning", "--group", "billing")
    for number in range(100):
        assert await in_thread(process.stdout.readline) == f"record {number}\n".encode()

    async with drive.cluster.producer() as producer:
        await producer.send("orders", b"later")
    assert await in_thread(process.stdout.readline) == b"later\n"
    process.send_signal(signal.SIGINT)

    assert await ended(process) == (0, b"", b"")
    (committed,) = (await drive.admin.group_offsets("billing")).values()
    assert committed.offset == 101


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
async def test_an_interrupted_produce_says_so_by_its_exit_code(drive, shell, number):
    read, write = os.pipe()
    process = shell.start("produce", "--topic", "orders", stdin=read)
    os.close(read)
    os.write(write, b"before\n")
    async with drive.cluster.consumer(auto_offset_reset="earliest") as consumer:
        consumer.assign(await partitions(drive))
        seen = []
        while b"before" not in seen:
            seen += [each.value for each in await consumer.poll()]

    process.send_signal(number)

    assert await ended(process) == (130, b"", b"")
    os.close(write)


async def partitions(drive):
    described = (await drive.admin.describe_topics(["orders"]))["orders"]
    return [TopicPartition("orders", each.partition) for each in described.partitions]


async def test_a_consumer_whose_reader_has_enough_ends_quietly(shell):
    process = shell.start("consume", "--topic", "orders", "--from-beginning")
    await in_thread(process.stdout.readline)
    process.stdout.close()

    # It notices when it writes again, so somebody must give it something to write.
    await ended(shell.start("produce", "--topic", "orders", "--num-records", "1"))
    code, err = await in_thread(process.wait), await in_thread(process.stderr.read)

    assert (code, err) == (0, b"")


async def test_a_dump_whose_reader_has_enough_ends_quietly(drive, shell):
    folder = drive.cluster.folder_of("broker-1") / "orders-0"
    log = folder / "00000000000000000000.log"
    read, write = os.pipe()
    process = shell.start("dump-log", "--files", str(log), "--print-data-log", stdout=write)
    os.close(read)
    os.close(write)

    code, err = await in_thread(process.wait), await in_thread(process.stderr.read)

    assert (code, err) == (0, b"")


async def test_a_list_whose_reader_is_gone_ends_quietly(shell):
    read, write = os.pipe()
    process = shell.start("topics", "--list", stdout=write)
    os.close(read)
    os.close(write)

    code, err = await in_thread(process.wait), await in_thread(process.stderr.read)

    assert (code, err) == (0, b"")


async def test_a_person_types_records_at_a_terminal(drive, shell):
    person, terminal = pty.openpty()
    process = shell.start("produce", "--topic", "orders", stdin=terminal)
    os.close(terminal)

    os.write(person, b"typed\n\x04")  # Ctrl-D ends it

    assert (await ended(process))[0] == 0
    os.close(person)
    async with drive.cluster.consumer(auto_offset_reset="earliest") as consumer:
        consumer.assign(await partitions(drive))
        seen = []
        while len(seen) < 101:
            seen += [each.value for each in await consumer.poll()]
    assert seen[-1] == b"typed"
