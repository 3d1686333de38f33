"""The one session.

Rule: who opens it closes it, and then no JVM is left. It speaks with nobody but this machine unless
told otherwise, and says nothing unless something is wrong.
"""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from threading import Thread, current_thread, main_thread
from typing import BinaryIO, Final

from py4j.protocol import Py4JError
from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkException
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

LOCAL: Final = "127.0.0.1"
LOGGING: Final = Path(__file__).with_name("log4j2.properties")
END_TIMEOUT_S: Final = 30
LOCAL_MEMORY: Final = "2g"
INCUBATING: Final = (
    b"WARNING: Using incubator modules:"  # Spark asks for one, and Java tells people
)
# With one compiler Java takes room for 48 MB of code, and a report needs more.
QUICK_JAVA: Final = "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m"
# A report is a hundred queries, each compiled from Spark's own Java: half of its time went into
# compiling well what runs once. Two hundred times as much must happen now before Java's second
# compiler takes a method up; what goes over millions of rows still gets there. Nobody waits for a
# pause of the collector, so the one with the least work does.
PATIENT_JAVA: Final = (
    "-XX:Tier4InvocationThreshold=1000000 -XX:Tier4MinInvocationThreshold=400000"
    " -XX:Tier4CompileThreshold=2000000 -XX:Tier4BackEdgeThreshold=8000000 -XX:+UseParallelGC"
)
# Standard output is for answers; and patterns that Spark looks for in long plans go deep.
STEADY_JAVA: Final = "-Xlog:disable -Xlog:all=warning:stderr -Xss4m"
QUICK: Final = {
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.shuffle.partitions": "1",
}
SHUFFLE_PARTITIONS: Final = 4  # a task costs ten milliseconds, and a small trace has little to do


@contextmanager
def spark_session(
    master: str = "local[*]",
    *,
    java_home: Path | None = None,
    host: str = LOCAL,
    ui: bool = False,
    quick: bool = False,
) -> Iterator[SparkSession]:
    """Spark, for as long as the block lasts; without `java_home` it asks the environment.

    Spark compiles every query, and Java compiles that again: it pays after a million rows. With
    `quick` it does neither, and a small trace is read in half the time.
    """
    if SparkSession.getActiveSession() is not None:
        raise RuntimeError("there is a Spark session already, and there is only one")
    names = {"spark.master": master, "spark.app.name": "understudy"}
    conf = SparkConf().setAll(list((names | _options(master, host, ui=ui, quick=quick)).items()))
    environment = {"SPARK_LOCAL_IP": host}
    if java_home is not None:
        environment["JAVA_HOME"] = str(java_home)
    with _environment(environment):
        session = _started(conf)
    try:
        yield session
    finally:
        session.stop()
        _end_java()


class SparkMissing(Exception):
    """There is no session to be had. The text is one sentence for people."""


def _started(conf: SparkConf) -> SparkSession:
    """A session and its JVM, or neither."""
    try:
        with _undisturbed():
            _start_java(conf)
            return SparkSession.builder.config(conf=conf).getOrCreate()
    except (PySparkException, Py4JError) as error:
        _end_java()
        master = conf.get("spark.master")
        said = str(error).strip().splitlines() or [type(error).__name__]
        raise SparkMissing(f"Spark does not start with --master {master}: {said[0]}") from error
    except BaseException:
        _end_java()
        raise


@contextmanager
def _undisturbed() -> Iterator[None]:
    """Ctrl-C comes when Java has come up: before, nobody could end it."""
    if current_thread() is not main_thread():
        yield
        return
    heard: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, _: heard.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
    if heard:
        raise KeyboardInterrupt


def _options(master: str, host: str, *, ui: bool, quick: bool) -> dict[str, str]:
    # Without UsePerfData, Java leaves no /tmp/hsperfdata_<user> behind.
    java = f"-Dlog4j2.configurationFile={LOGGING.as_uri()} -XX:-UsePerfData {STEADY_JAVA}"
    own = _sizes(master) | (QUICK if quick else {})
    return own | {
        "spark.driver.bindAddress": host,
        "spark.driver.extraJavaOptions": f"{java} {QUICK_JAVA if quick else PATIENT_JAVA}",
        "spark.driver.host": host,
        "spark.sql.session.timeZone": "UTC",
        "spark.ui.enabled": str(ui).lower(),
        "spark.ui.showConsoleProgress": "false",
    }


def _sizes(master: str) -> dict[str, str]:
    """On this machine: its cores, and memory for tens of millions of events, not for all there is.

    Elsewhere whoever runs that cluster has set such things.
    """
    if not master.startswith("local"):
        return {}
    return {
        "spark.driver.memory": LOCAL_MEMORY,
        "spark.sql.shuffle.partitions": str(SHUFFLE_PARTITIONS),
        # A trace is thousands of small files: a task for each would be all that is done.
        "spark.sql.files.openCostInBytes": str(64 << 10),
    }


@contextmanager
def _environment(changes: Mapping[str, str]) -> Iterator[None]:
    """Spark's launcher hears of its Java and its address only from the environment."""
    before = {name: os.environ.get(name) for name in changes}
    os.environ.update(changes)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def _start_java(conf: SparkConf) -> None:
    """Start the JVM as pyspark would, and listen to what it says."""
    gateway = launch_gateway(conf, {"stderr": subprocess.PIPE})  # type: ignore[no-untyped-call]
    process = getattr(gateway, "proc", None)
    if process is not None:
        process.listener = Thread(target=_pass_on, args=(process.stderr,), daemon=True)
        process.listener.start()
    SparkContext._ensure_initialized(gateway=gateway, conf=conf)  # noqa: SLF001 - as it does itself


def _pass_on(said: BinaryIO) -> None:
    """All that Java says but what nobody can act on."""
    for line in said:
        if not line.startswith(INCUBATING):
            sys.stderr.write(line.decode(errors="replace"))
            sys.stderr.flush()
    said.close()


def _end_java() -> None:
    """End the JVM, which pyspark keeps until Python ends: it goes when its stdin does."""
    gateway = SparkContext._gateway  # noqa: SLF001 - pyspark offers no other way
    SparkContext._gateway = SparkContext._jvm = None  # noqa: SLF001 - the next session starts anew
    if gateway is None:
        return
    gateway.shutdown()
    process = getattr(gateway, "proc", None)  # None: somebody else's, as under spark-submit
    if process is not None:
        process.stdin.close()
        process.wait(END_TIMEOUT_S)
        process.listener.join(END_TIMEOUT_S)
