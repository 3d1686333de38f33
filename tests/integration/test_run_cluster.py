"""bin/run-cluster as a person uses it: real processes, real ZooKeeper, real signals."""

import json
import os
import signal

import pytest
from kazoo.client import KazooClient

from tests.support.processes import Command, wait_for_end, zookeepers_in


def run_cluster(*arguments, tmp):
    return Command("run-cluster", *arguments, tmp=tmp)


@pytest.fixture
def tmp(tmp_path):
    folder = tmp_path / "with a space"
    folder.mkdir()
    return folder


def java_of(tmp) -> int:
    (pid,) = zookeepers_in(tmp)
    return pid


def test_it_prints_a_line_a_node_registers_them_and_stops_all_on_ctrl_c(tmp):
    with run_cluster("--brokers", "2", tmp=tmp) as cluster:
        hosts = cluster.line_with("ZooKeeper is up at").rpartition(" ")[2]
        cluster.line_with("2 brokers are up")
        brokers = [line for line in cluster.lines if line.startswith("broker")]
        client = KazooClient(hosts)
        client.start()
        data, stat = client.get("/brokers/ids/2")
        names = sorted(client.get_children("/brokers/ids"))
        client.stop()
        client.close()
        java = java_of(tmp)

        code, out, err = cluster.interrupt()

    assert [line.split(" is up")[0] for line in brokers] == ["broker 1", "broker 2"]
    assert names == ["1", "2"]
    registration = json.loads(data)
    endpoint = f"INTERNAL://{registration['host']}:{registration['port']}"
    assert registration["version"] == 5
    assert registration["host"] == "127.0.0.1"
    assert registration["endpoints"] == [endpoint]
    assert endpoint in brokers[1]
    assert f"epoch {stat.czxid}" in brokers[1]
    assert (code, err) == (0, "")
    assert out.splitlines() == [
        "broker 2 has stopped",
        "broker 1 has stopped",
        "ZooKeeper has stopped",
    ]
    wait_for_end(java)
    assert list(tmp.iterdir()) == []


@pytest.mark.parametrize(
    "moment", ["start", "ZooKeeper is up", "broker 1 is up", "2 brokers are up"]
)
def test_a_killed_cluster_leaves_no_process_behind(tmp, moment):
    with run_cluster("--brokers", "2", tmp=tmp) as cluster:
        if moment != "start":
            cluster.line_with(moment)
        else:
            while not zookeepers_in(tmp):  # from the moment there is a Java
                pass
        javas = zookeepers_in(tmp)

        cluster.kill()

    assert javas
    for java in javas:
        wait_for_end(java)
    with run_cluster("--brokers", "1", tmp=tmp) as another:  # sweeps what the killed one left
        another.line_with("1 broker is up")
        another.interrupt()
    assert list(tmp.iterdir()) == []


@pytest.mark.parametrize("moment", ["start", "ZooKeeper is up"])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_in_the_middle_of_the_start_stops_everything(tmp, moment, number):
    with run_cluster("--brokers", "3", tmp=tmp) as cluster:
        if moment == "start":
            while not zookeepers_in(tmp):
                pass
        else:
            cluster.line_with(moment)
        javas = zookeepers_in(tmp)

        cluster.send(number)
        code, _, err = cluster.end()

    assert (code, err) == (0, "")
    for java in javas:
        wait_for_end(java)
    assert list(tmp.iterdir()) == []


def test_a_killed_cluster_starts_again_with_its_data(tmp):
    data = tmp / "data"
    with run_cluster("--brokers", "2", "--data", str(data), tmp=tmp) as cluster:
        cluster.line_with("2 brokers are up")
        java = java_of(tmp)
        cluster.kill()
    wait_for_end(java)

    with run_cluster("--brokers", "2", "--data", str(data), tmp=tmp) as cluster:
        cluster.line_with("2 brokers are up")  # once the sessions of the killed ones have ended
        code, _, _ = cluster.interrupt()

    assert code == 0
    assert (data / "zookeeper").is_dir()


def test_two_clusters_do_not_share_a_folder_nor_an_id(tmp):
    data = tmp / "data"
    with run_cluster("--brokers", "1", "--data", str(data), tmp=tmp) as cluster:
        hosts = cluster.line_with("ZooKeeper is up at").rpartition(" ")[2]
        cluster.line_with("1 broker is up")

        with run_cluster("--data", str(data), tmp=tmp) as second:
            assert second.end()[::2] == (1, f"run-cluster: another process works in {data}\n")
        with run_cluster("--zookeeper", hosts, tmp=tmp) as third:
            code, _, err = third.end()

        assert code == 1
        assert "broker 1 is registered by session" in err
        assert "is another cluster running on this ZooKeeper?" in err
        assert cluster.interrupt()[0] == 0


def test_a_cluster_can_use_a_zookeeper_that_runs_already(tmp, zookeeper):
    hosts = f"{zookeeper.hosts}{zookeeper.chroot()}"
    with run_cluster("--brokers", "2", "--zookeeper", hosts, tmp=tmp) as cluster:
        cluster.line_with("2 brokers are up")
        assert zookeepers_in(tmp) == []
        assert cluster.interrupt()[0] == 0


def test_it_tells_that_zookeeper_is_gone_and_still_stops_on_ctrl_c(tmp):
    with run_cluster("--brokers", "2", tmp=tmp) as cluster:
        cluster.line_with("2 brokers are up")

        os.kill(java_of(tmp), signal.SIGKILL)
        cluster.line_with("has lost ZooKeeper, and waits for it")
        cluster.line_with("has lost ZooKeeper, and waits for it")
        code, out, err = cluster.interrupt()

    assert (code, err) == (0, "")
    assert out.splitlines() == [
        "broker 2 is down: it was stopped without ZooKeeper",
        "broker 1 is down: it was stopped without ZooKeeper",
        "ZooKeeper has stopped",
    ]
    assert list(tmp.iterdir()) == []


def test_it_says_where_it_looks_for_zookeeper(tmp):
    with run_cluster("--zookeeper", "127.0.0.1:1", tmp=tmp) as cluster:
        assert cluster.line_with("ZooKeeper") == "looking for ZooKeeper at 127.0.0.1:1"


def test_a_trace_is_written_where_it_was_asked_for(tmp):
    trace = tmp / "trace"
    with run_cluster("--brokers", "1", "--trace", str(trace), tmp=tmp) as cluster:
        cluster.line_with("1 broker is up")
        assert cluster.interrupt()[0] == 0

    assert {"BrokerRegistered", "MessageHandled"} <= {folder.name for folder in trace.iterdir()}


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("--brokers", "0"), "'0' is not a number from 1 to 1000"),
        (("--brokers", "three"), "'three' is not a number"),
        (("--data", "/proc/nothing"), "run-cluster: /proc/nothing: No such file or directory"),
        (("--data", "/etc/passwd"), "run-cluster: /etc/passwd is not a folder"),
        (("--data", ""), "the folder has no name"),
        (("--trace", "/etc/passwd"), "run-cluster: /etc/passwd is not a folder"),
        (("--trace", "/proc"), "run-cluster: /proc"),
        (("--zookeeper", ""), "'' is not HOST:PORT"),
        (("--zookeeper", ":::"), "':::' is not HOST:PORT"),
        (("--zookeeper", "here:2181,"), "'here:2181,' is not HOST:PORT"),
        (("--zookeeper", "here:65536"), "'here:65536' is not HOST:PORT"),
        (("--zookeeper", "here:2181/a//b"), "'here:2181/a//b' is not HOST:PORT"),
    ],
)
def test_bad_input_is_one_sentence_and_a_bad_exit_code(tmp, arguments, sentence):
    with run_cluster(*arguments, tmp=tmp) as cluster:
        code, out, err = cluster.end()

    assert code != 0
    assert sentence in err
    assert "Traceback" not in err
    assert out == ""
