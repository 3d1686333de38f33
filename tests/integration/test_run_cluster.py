"""bin/run-cluster as a person uses it: real processes, real ZooKeeper, real signals."""

import json
import os
import signal
import socket
import subprocess
from pathlib import Path
from urllib.request import urlopen

import pytest
from kazoo.client import KazooClient

from actors.serve import STOPPING
from tests.support.kcat import ensure_kcat
from tests.support.processes import ROOT, Command, wait_for_end, zookeepers_in


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


def children_of(pid: int) -> list[int]:
    return list(map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split()))


def test_it_prints_a_table_the_page_and_what_to_try_and_stops_all_on_ctrl_c(tmp):
    with run_cluster("--brokers", "2", tmp=tmp) as cluster:
        hosts = cluster.line_with("ZooKeeper is up at").rpartition(" ")[2]
        cluster.line_with("2 brokers are up; Ctrl-C stops them")
        lines = cluster.lines
        client = KazooClient(hosts)
        client.start()
        data, _ = client.get("/brokers/ids/2")
        names = sorted(client.get_children("/brokers/ids"))
        client.stop()
        client.close()
        page = next(line for line in lines if "live page" in line).split()[-1]
        with urlopen(page) as response:
            html = response.read().decode()
        java = java_of(tmp)
        bootstrap = next(line for line in lines if "bootstrap" in line).split()[-1]
        listed = subprocess.run(
            [ensure_kcat(), "-b", bootstrap, "-L"], capture_output=True, check=True
        )

        code, out, err = cluster.interrupt()

    assert names == ["1", "2"]
    registration = json.loads(data)
    address = f"{registration['host']}:{registration['port']}"
    assert registration["version"] == 5
    assert registration["host"] == "127.0.0.1"
    first, second = bootstrap.split(",")
    assert registration["endpoints"] == [f"INTERNAL://{address}", f"KAFKA://{second}"]
    for broker, server in ((1, first), (2, second)):
        assert f"broker {broker} at {server}" in listed.stdout.decode()
    table = [line.split() for line in lines if line.startswith(" ")]
    assert ["2", address] in [row[:2] for row in table]
    assert sum("controller, epoch 1" in line for line in lines) == 1
    commands = [line.strip() for line in lines if line.startswith("    bin/")]
    assert len(commands) == 3
    assert all((ROOT / command.split()[0]).exists() for command in commands)
    assert "<title>Understudy" in html
    assert (code, err) == (0, "")
    assert out.splitlines() == [
        STOPPING,
        "broker 2 has stopped",
        "broker 1 has stopped",
        "ZooKeeper has stopped",
    ]
    wait_for_end(java)
    assert list(tmp.iterdir()) == []


def test_it_is_ready_with_topics_settings_load_and_tells_all_of_it_as_json(tmp):
    config = tmp / "server.properties"
    config.write_text("broker.id=7\nnum.partitions=4\nnum.io.threads=8\n")
    arguments = ["--topic", "orders:2:3", "--config", str(config), "--load", "200"]
    arguments += ["--override", "zookeeper.session.timeout.ms=3000", "--exit-after", "4", "--json"]
    with run_cluster(*arguments, tmp=tmp) as cluster:
        code, out, err = cluster.end(60)

    told = [json.loads(line) for line in out.splitlines()]
    (up,) = [each for each in told if each["type"] == "up"]
    loads = [each["load"] for each in told if each["type"] == "load"]
    texts = [each["event"]["text"] for each in told if each["type"] == "event"]
    assert code == 0
    assert err == (f"run-cluster: {config}: these mean nothing here: broker.id, num.io.threads\n")
    assert [broker["id"] for broker in up["brokers"]] == [1, 2, 3]
    assert up["controller"] in {1, 2, 3}
    assert any(report["acknowledged"] > 0 and report["p50_ms"] > 0 for report in loads)
    assert any(report["consumed"] > 0 for report in loads)
    assert any(text.startswith("orders-") and "leads" in text for text in texts)
    assert [each["text"] for each in told if each["type"] == "step"][-1] == "ZooKeeper has stopped"


def test_brokers_may_be_processes_and_none_is_left_behind(tmp):
    with run_cluster("--processes", "--brokers", "2", tmp=tmp) as cluster:
        cluster.line_with("2 brokers are up")
        children = children_of(cluster.pid)
        code, out, err = cluster.interrupt()

    assert len(children) == 3  # the brokers, and ZooKeeper
    assert (code, err) == (0, "")
    assert out.splitlines() == [
        STOPPING,
        "broker 2 has stopped",
        "broker 1 has stopped",
        "ZooKeeper has stopped",
    ]
    for child in children:
        wait_for_end(child)
    assert list(tmp.iterdir()) == []


def test_a_killed_supervisor_takes_its_processes_along(tmp):
    with run_cluster("--processes", "--brokers", "2", tmp=tmp) as cluster:
        cluster.line_with("2 brokers are up")
        children = children_of(cluster.pid)

        cluster.kill()

    assert len(children) == 3
    for child in children:
        wait_for_end(child)


def test_a_second_ctrl_c_ends_it_at_once(tmp):
    with run_cluster("--brokers", "3", "--load", "100", tmp=tmp) as cluster:
        cluster.line_with("3 brokers are up")
        java = java_of(tmp)
        os.kill(java, signal.SIGSTOP)  # so that nobody can leave in peace
        cluster.send(signal.SIGINT)
        cluster.line_with(STOPPING)
        cluster.send(signal.SIGINT)
        code, _, _ = cluster.end()

    assert code == 130
    wait_for_end(java)


def test_a_taken_port_is_a_sentence(tmp):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with run_cluster("--brokers", "1", "--http-port", str(port), tmp=tmp) as cluster:
            code, _, err = cluster.end()

    assert code == 1
    assert err == (f"run-cluster: port {port} of 127.0.0.1 is taken: choose another --http-port\n")
    assert zookeepers_in(tmp) == []


def test_help_shows_an_example_and_the_exit_codes(tmp):
    for name in ("run-cluster", "run-broker"):
        with Command(name, "--help", tmp=tmp) as command:
            code, out, _ = command.end()

        assert code == 0
        assert f"example: bin/{name}" in out


@pytest.mark.parametrize("moment", ["start", "ZooKeeper is up", "live page", "2 brokers are up"])
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
    assert out.splitlines()[-3:] == [
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
        (("--http-port", "70000"), "'70000' is not a number from 0 to 65535"),
        (("--topic", "a/b:1:1"), "a/b"),
        (("--topic", "orders:0:1"), "'0' is not a number from 1"),
        (("--topic", "orders:1:1:1"), "is not NAME:PARTITIONS:REPLICAS"),
        (("--override", "min.insync.replica=2"), "min.insync.replicas is the nearest"),
        (("--override", "num.partitions=x"), "it must be a whole number"),
        (("--override", "num.partitions=0"), "num.partitions is 0; it must be 1 or more"),
        (("--config", "/nowhere.properties"), "/nowhere.properties cannot be read"),
        (("--load", "-1"), "'-1'"),
        (("--load", "0"), "'0' is not a number above 0"),
        (("--exit-after", "soon"), "'soon' is not a number above 0"),
        (("--kafka-port", "65535"), "--kafka-port is 65535: there is no port 65536"),
        (("--sasl-file", "/etc/nothing"), "the file of users /etc/nothing cannot be read"),
        (("--host", "0.0.0.0"), "0.0.0.0 is not loopback: a --token-file is needed"),
        (("--token-file", "/etc/nothing"), "the token file /etc/nothing cannot be read"),
        (("--nonsense",), "unrecognized arguments: --nonsense"),
    ],
)
def test_bad_input_is_one_sentence_and_a_bad_exit_code(tmp, arguments, sentence):
    with run_cluster(*arguments, tmp=tmp) as cluster:
        code, out, err = cluster.end()

    assert code == 1
    assert sentence in err
    assert len(err.splitlines()) == 1
    assert "Traceback" not in err
    assert out == ""
