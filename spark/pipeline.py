"""From a trace to tables: source, steps, sink.

Rule: jobs only wire steps; here is which there are, and what is done when one meets a part that
cannot be read to its end: the part is left out, with a sentence, and the job begins again.
"""

import re
from collections.abc import Callable, Mapping
from functools import partial
from typing import Final
from urllib.parse import unquote

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from spark.hadoop import Hadoop, literal, reason_of
from spark.jobs import (
    actors,
    audit,
    availability,
    budget,
    clocks,
    controller,
    incidents,
    keeper,
    replication,
    requests,
    shared,
    states,
)
from spark.trace import Trace

Job = Callable[[Trace], DataFrame]
Progress = Callable[[str, int, int], None]

JOBS: Final[Mapping[str, Job]] = {
    "nodes": shared.nodes,
    "incidents": incidents.incidents,
    "availability_windows": availability.windows,
    "availability": availability.availability,
    "availability_over_time": availability.over_time,
    "failover_budget": budget.budgets,
    "controller": controller.epochs,
    "controller_events": controller.events,
    "failover_steps": controller.failovers,
    "replication": replication.replication,
    "replication_links": replication.links,
    "requests": requests.requests,
    "requests_refused": requests.refusals,
    "request_kinds": requests.kinds,
    "requests_over_time": requests.over_time,
    "states": states.transitions,
    "states_refused": states.refusals,
    "zookeeper": keeper.operations,
    "zookeeper_over_time": keeper.over_time,
    "zookeeper_watches": keeper.watches,
    "zookeeper_sessions": keeper.sessions,
    "audit": audit.audit,
    "clocks": clocks.clocks,
    "actors": actors.actors,
    "actors_busiest": actors.busiest,
    "actors_over_time": actors.mailboxes,
}
# Other jobs begin with what these have found.
KEPT: Final = (incidents.incidents, availability.windows, controller.epochs)
UNREADABLE: Final = re.compile(r"FAILED_READ_FILE\S*\][^\n]*? file (\S+?)\.?(?=\s|$)")
MOST_UNREADABLE: Final = 100


class JobFailed(Exception):
    """Spark could not finish a job. The text is one sentence for people."""


class Tables:
    """What the jobs have written."""

    def __init__(self, session: SparkSession, folder: str) -> None:
        self._session = session
        self._schemas: dict[str, StructType] = {}
        self.folder = folder

    def path(self, name: str) -> str:
        """Where a table is."""
        return f"{self.folder.rstrip('/')}/{name}"

    def table(self, name: str) -> DataFrame:
        """A table."""
        return self._session.read.schema(self._schemas[name]).parquet(literal(self.path(name)))

    def move_to(self, folder: str) -> None:
        """All of them, in place of earlier ones."""
        hadoop = Hadoop(self._session)
        hadoop.remove(folder)
        hadoop.rename(self.folder, folder)
        self.folder = folder

    def write(self, name: str, frame: DataFrame) -> None:
        """A table, in place of an earlier one."""
        self._schemas[name] = frame.schema  # or whoever reads it would have to guess
        frame.write.mode("overwrite").parquet(self.path(name))


def run_jobs(trace: Trace, folder: str, progress: Progress) -> Tables:
    """All jobs, each into a table of its own."""
    tables = Tables(trace.session, folder)
    trace.desk = f"{folder}.desk"
    for number, (name, job) in enumerate(JOBS.items()):
        progress(name, number, len(JOBS))
        insist(trace, partial(_write, trace, job, tables, name))
    progress("", len(JOBS), len(JOBS))
    return tables


def _write(trace: Trace, job: Job, tables: Tables, name: str) -> None:
    tables.write(name, job(trace))
    if job in KEPT:
        trace.keep(job, tables.table(name))


def insist(trace: Trace, work: Callable[[], None]) -> None:
    """Do it, without the parts that turn out to be unreadable."""
    for _ in range(MOST_UNREADABLE):
        try:
            work()
            return
        except (PySparkException, Py4JJavaError) as error:
            text = str(error)
            found = UNREADABLE.search(text)
            if found is None or not trace.leave_out(unquote(found[1]), _reason(text)):
                raise JobFailed(f"Spark gave up: {_said(error)}") from error
    raise JobFailed(f"more than {MOST_UNREADABLE} parts of the trace cannot be read")


def _reason(text: str) -> str:
    if "COLUMN_DATA_TYPE_MISMATCH" in text:
        return "a column has another type than the event declares"
    return "its bytes make no sense to Parquet"


def _said(error: Exception) -> str:
    """What Java says, if it is Java's: py4j's own first line only says that it called Java."""
    return reason_of(error) if isinstance(error, Py4JJavaError) else str(error).splitlines()[0]
