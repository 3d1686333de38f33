"""A cluster for those who do not await."""

import os
import signal
import subprocess
import sys
import threading

import pytest

from actors.testing import (
    BadConfig,
    BlockingCluster,
    ClientClosed,
    FaultRefused,
    NotReached,
    TopicAlreadyExists,
    TopicPartition,
    isr,
    leader,
)
from runtime.blocking import LoopThread, ThreadClosed

LIMIT_S = 60


@pytest.mark.cluster(brokers=2)
def test_what_clients_do_and_raise_comes_through(blocking_cluster):
    cluster = blocking_cluster
    cluster.create_topic("orders", assignments={0: (1, 2)})

    with pytest.raises(TopicAlreadyExists):
        cluster.create_topic("orders", partitions=1)
    assert cluster.admin().list_topics() == ("orders",)

    with cluster.producer(linger_ms=60_000) as producer:
        pending = [producer.enqueue("orders", value) for value in (b"coffee", b"tea")]
        producer.flush()
        assert [each.result().offset for each in pending] == [0, 1]
    with pytest.raises(ClientClosed):
        producer.send("orders", b"cake")

    where = TopicPartition("orders", 0)
    with cluster.consumer(auto_offset_reset="earliest") as consumer:
        consumer.assign([where])
        assert [each.value for each in consumer.poll(10_000)] == [b"coffee", b"tea"]
        assert consumer.assignment == (where,)
    with pytest.raises(AttributeError):
        _ = consumer.no_such_thing


@pytest.mark.cluster(brokers=2)
def test_records_are_read_by_offset_and_number(blocking_cluster):
    cluster = blocking_cluster
    cluster.create_topic("orders", assignments={0: (1, 2)})
    assert cluster.read("orders") == []

    sent = [cluster.send("orders", value, key=b"k") for value in (b"a", b"b", b"c")]

    assert [each.offset for each in sent] == [0, 1, 2]
    assert [each.value for each in cluster.read("orders")] == [b"a", b"b", b"c"]
    assert [each.value for each in cluster.read("orders", offset=1, count=1)] == [b"b"]
    with pytest.raises(NotReached, match=r"orders-0 from offset 1 on: 2 records .* not 5 records"):
        cluster.read("orders", offset=1, count=5, timeout_ms=50)


@pytest.mark.cluster(brokers=2, session_timeout_ms=1_000)
def test_what_is_broken_can_be_waited_for(blocking_cluster, faults):
    cluster = blocking_cluster
    cluster.create_topic("orders", assignments={0: (1, 2)})

    cluster.kill(1)
    cluster.until(leader("orders") == 2)
    with pytest.raises(FaultRefused, match="broker 1 is down"):
        faults.pause(1)
    with pytest.raises(NotReached, match=r"leader\('orders', 0\) is 2"):
        cluster.until(leader("orders") == 1, timeout_ms=50)
    faults.restart(1)

    assert cluster.until(isr("orders") == {1, 2}).controller in {1, 2}
    faults.cut(1, 2)
    assert faults.cuts == ((1, 2),)
    faults.heal()
    assert cluster.view().brokers[1].is_up


def test_a_closed_cluster_says_so_and_can_be_closed_again():
    before = threading.active_count()
    with BlockingCluster(brokers=1) as cluster:
        cluster.close()
        with pytest.raises(ThreadClosed, match="the cluster is closed"):
            cluster.create_topic("orders")

    cluster.close()

    assert threading.active_count() == before


def test_a_setting_that_cannot_be_leaves_no_thread():
    before = threading.active_count()

    with pytest.raises(BadConfig, match=r"min\.insync\.replicas is the nearest"):
        BlockingCluster(overrides={"min.insync.replica": 1})

    assert threading.active_count() == before


INTERRUPTED = """
import sys
from actors.testing import BlockingCluster, topics

with BlockingCluster(brokers=2) as cluster:
    print("up", cluster.cluster.log_folder(1).parent, flush=True)
    cluster.until(topics() == {"never"}, timeout_ms=600_000)
"""


def test_control_c_ends_the_wait_and_the_cluster():
    program = subprocess.Popen(
        [sys.executable, "-c", INTERRUPTED],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        word, folder = program.stdout.readline().split()
        assert word == "up"

        program.send_signal(signal.SIGINT)
        _, errors = program.communicate(timeout=LIMIT_S)
    finally:
        program.kill()
        program.wait()

    assert errors.strip().endswith("KeyboardInterrupt")
    assert "never" not in errors.splitlines()[-1]
    assert not os.path.exists(folder)


def test_a_thread_does_not_wait_for_itself():
    thread = LoopThread("a thread")

    async def ask_oneself():
        thread.call(lambda: None)

    with pytest.raises(RuntimeError, match="a thread would wait for itself"):
        thread.run(ask_oneself())
    thread.close()
