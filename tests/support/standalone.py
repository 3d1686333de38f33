"""Spark's own standalone cluster: a master and its workers, processes on this machine alone."""

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pyspark

from runtime.java import ensure_java

SPARK_CLASS = Path(pyspark.__file__).parent / "bin/spark-class"
DEPLOY = "org.apache.spark.deploy"
LOCAL = "127.0.0.1"
END_TIMEOUT_S = 30
# As whoever runs such a cluster would set it, here for few cores and few events.
DEFAULTS = """\
spark.cores.max 2
spark.executor.extraJavaOptions -XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:-UsePerfData
spark.executor.memory 512m
spark.sql.adaptive.enabled false
spark.sql.codegen.factoryMode NO_CODEGEN
spark.sql.codegen.wholeStage false
spark.sql.shuffle.partitions 1
"""


@contextmanager
def standalone(folder: Path, workers: int) -> Iterator[str]:
    """The address of a master that has its workers; all are gone afterwards."""
    with ExitStack() as stack:
        master = stack.enter_context(daemon(folder, "master", "master.Master"))
        address = until(master, "Starting Spark master at ").split()[-1]
        started = [
            stack.enter_context(
                daemon(
                    folder,
                    f"worker-{number}",
                    "worker.Worker",
                    *("--cores", "1", "--memory", "600m", "--work-dir", str(folder / "work")),
                    address,
                )
            )
            for number in range(workers)
        ]
        for worker in started:
            until(worker, "Successfully registered with master")
        yield address


@contextmanager
def daemon(folder: Path, name: str, kind: str, *arguments: str) -> Iterator[tuple]:
    """One process, in a group of its own with all that it starts."""
    environment = os.environ | {
        "JAVA_HOME": str(ensure_java().home),
        "SPARK_DAEMON_JAVA_OPTS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:-UsePerfData",
        "SPARK_DAEMON_MEMORY": "128m",
        "SPARK_LOCAL_DIRS": str(folder / "local"),
        "SPARK_LOCAL_IP": LOCAL,
    }
    listen = ("--host", LOCAL, "--port", "0", "--webui-port", "0")
    command = [str(SPARK_CLASS), f"{DEPLOY}.{kind}", *listen, *arguments]
    process = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=environment,
        cwd=folder,
        start_new_session=True,
    )
    try:
        yield process, name
    finally:
        process.terminate()
        process.communicate(timeout=END_TIMEOUT_S)
        left = group_of(process.pid)
        for each in left:
            os.kill(each, signal.SIGKILL)
        assert not left, f"{name} leaves processes behind"


def until(process: tuple, text: str) -> str:
    """The line of a process that has a text."""
    said = []
    for line in process[0].stdout:
        said.append(line)
        if text in line:
            return line
    raise AssertionError(f"{process[1]} ended: {''.join(said)}")


def group_of(leader: int) -> list[int]:
    """The processes of a group."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):
            continue
        if int(fields[2]) == leader and fields[0] != "Z":
            found.append(int(stat.parent.name))
    return found
