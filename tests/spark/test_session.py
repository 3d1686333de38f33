"""The session keeps to itself; that its Java is gone afterwards, the fixture asserts."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from pyspark import SparkContext

from spark.session import spark_session

ROOT = Path(__file__).parents[2]
LISTENING = "0A"
LOOPBACK = {"0100007F", "0000000000000000FFFF00000100007F"}


def listening_addresses(process: int) -> set[str]:
    """Where a process listens, as the kernel writes it."""
    links = (os.readlink(each) for each in Path(f"/proc/{process}/fd").iterdir())
    sockets = {link[len("socket:[") : -1] for link in links if link.startswith("socket:[")}
    tables = (Path(f"/proc/{process}/net/{name}").read_text() for name in ("tcp", "tcp6"))
    entries = (line.split() for table in tables for line in table.splitlines()[1:])
    return {
        entry[1].split(":")[0] for entry in entries if entry[3] == LISTENING and entry[9] in sockets
    }


def test_spark_listens_on_this_machine_alone(spark):
    addresses = listening_addresses(SparkContext._gateway.proc.pid)

    assert addresses
    assert addresses <= LOOPBACK


def test_there_is_no_page_and_time_is_universal(spark):
    assert spark.sparkContext.uiWebUrl is None
    assert spark.conf.get("spark.sql.session.timeZone") == "UTC"


def test_the_environment_is_as_before(spark):
    assert "SPARK_LOCAL_IP" not in os.environ


def test_a_second_session_is_refused_and_the_first_goes_on(spark):
    with pytest.raises(RuntimeError, match="there is only one"), spark_session():
        pass

    assert spark.range(3).count() == 3


INTERRUPTED = """
import os, signal
from pyspark import java_gateway
from runtime.java import ensure_java
from spark import session

def launch(*arguments):
    gateway = java_gateway.launch_gateway(*arguments)
    print(gateway.proc.pid, flush=True)
    os.kill(os.getpid(), signal.SIGINT)
    return gateway

session.launch_gateway = launch
try:
    with session.spark_session(java_home=ensure_java().home):
        print("it began")
except KeyboardInterrupt:
    print("interrupted")
"""


def test_ctrl_c_while_java_starts_leaves_no_java_behind():
    told = subprocess.run(
        [sys.executable, "-c", INTERRUPTED], capture_output=True, text=True, check=True
    ).stdout

    java, word = told.split()
    assert word == "interrupted"
    assert not Path(f"/proc/{java}").exists()


def test_a_master_that_is_none_is_a_sentence(tmp_path):
    ended = subprocess.run(
        [ROOT / "bin" / "trace-report", tmp_path, "--master", "nonsense"],
        capture_output=True,
        text=True,
        check=False,
    )

    assert ended.returncode == 1
    assert ended.stdout == ""
    assert "trace-report: Spark does not start with --master nonsense: " in ended.stderr
    assert "Traceback" not in ended.stderr
