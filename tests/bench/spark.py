"""Reports over large traces, against smaller ones and against Spark as one would write it at first.

Traces are grown from real ones, of clusters that lose a broker: one is all failover, again and
again (nine thousand in the large trace), the other mostly what producing and replicating leaves. A
report runs in a process of its own, so that its memory is its own. What the trace costs the cluster
is measured on the cluster.
"""

import asyncio
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import duckdb

from actors.client.producer import Producer
from actors.cluster import Cluster
from actors.conditions import brokers_up, isr
from runtime.growing import grow
from tests.bench import foundation, log
from tests.bench.harness import Row, at_least, at_most, less_than

SMALL, LARGE = 2_000_000, 20_000_000
EVENTS_A_SECOND = 250_000
GB = 1 << 30
TIMES = 3
RECORDS = 10_000  # in as few requests as may be
ONE_BY_ONE = 2_000
PARTITIONS = 12
ROUNDS = 20
COST_US = 2.0


def rows() -> Iterator[Row]:
    """Every bar of traces and reports."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        asyncio.run(failing_trace(folder / "failing"))
        asyncio.run(busy_trace(folder / "busy"))
        for kind in ("failing", "busy"):
            grow(folder / kind, folder / f"large-{kind}", LARGE)
        grow(folder / "failing", folder / "small-failing", SMALL)
        yield from report_rows(folder)
        yield json_row(folder / "large-busy", folder)
    yield cost_row()
    yield asyncio.run(produce_row())


# --- reports -------------------------------------------------------------------------------------


async def failing_trace(folder: Path) -> None:
    """A cluster that loses a broker, which comes back: as good as nothing else happens."""
    async with traced(folder) as (cluster, producer):
        for number in range(RECORDS):
            await producer.enqueue("orders", os.urandom(100))
            await lose_and_regain(cluster, number, RECORDS)


async def busy_trace(folder: Path) -> None:
    """The same, and each record is a request that is waited for."""
    async with traced(folder) as (cluster, producer):
        for number in range(ONE_BY_ONE):
            await producer.send("orders", os.urandom(100), partition=number % PARTITIONS)
            await lose_and_regain(cluster, number, ONE_BY_ONE)


@asynccontextmanager
async def traced(folder: Path) -> AsyncIterator[tuple[Cluster, Producer]]:
    """A cluster with a topic and a producer; whole again in the end."""
    overrides = {"min_insync_replicas": 2}
    async with Cluster(3, trace=folder, session_timeout_ms=2_000, overrides=overrides) as cluster:
        await cluster.admin().create_topic("orders", partitions=PARTITIONS, replication_factor=3)
        async with cluster.producer() as producer:
            yield cluster, producer
            await producer.flush()
        await cluster.until(brokers_up() == {1, 2, 3})
        await cluster.until(isr("orders") == {1, 2, 3})


async def lose_and_regain(cluster: Cluster, number: int, of: int) -> None:
    """A broker dies after a third, and is back after another."""
    if number == of // 3:
        cluster.kill(1)
    if number == of * 2 // 3:
        await cluster.start_broker(1)


def report_rows(folder: Path) -> Iterator[Row]:
    """From the small one to the large ones."""
    small, failing, busy = (
        done("report", folder / each) for each in ("small-failing", "large-failing", "large-busy")
    )
    small_s, failing_s, busy_s = (min(each["took_s"]) for each in (small, failing, busy))
    for kind, found, took_s in (("failing", failing, failing_s), ("busy", busy, busy_s)):
        events = found["found"]
        measure = f"full report, a {kind} cluster, events a second"
        detail = f"{events:,} in {took_s:.0f} s"
        yield at_least(measure, events / took_s, EVENTS_A_SECOND, "", detail)
    peak = max(each["peak_bytes"] for each in (failing, busy))
    yield less_than("  memory of Java and Python", peak / GB, 4, " GB")
    detail = f"{small_s:.1f} s, then {failing_s:.1f} s"
    yield at_most(f"  growth from {SMALL:,} events", failing_s / small_s, 12, " ×", detail)


def json_row(parts: Path, folder: Path) -> Row:
    """One aggregate, from our parts and from JSON whose schema is inferred."""
    text = folder / "json"
    text.mkdir()
    with duckdb.connect() as engine:
        engine.execute(
            f"copy (select * from read_parquet('{parts}/MessageHandled/**/*.parquet',"
            f" hive_partitioning = true)) to '{text}' (format json, per_thread_output, overwrite)"
        )
    ours = min(done("job", parts, TIMES)["took_s"])
    theirs = min(done("by-hand", text, TIMES)["took_s"])
    detail = f"{theirs:.1f} s against {ours:.1f} s"
    return at_least("one job against JSON with a guessed schema", theirs / ours, 4, " ×", detail)


def done(what: str, folder: Path, times: int = 1) -> dict[str, Any]:
    """It runs elsewhere."""
    command = [sys.executable, "-m", "tests.support.spark_report", what, str(folder), str(times)]
    said = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    found: dict[str, Any] = json.loads(said)
    return found


# --- what the trace costs ------------------------------------------------------------------------


def cost_row() -> Row:
    """Between two clocks: so many messages told with a trace and without."""
    with tempfile.TemporaryDirectory() as folder:
        plain, traced = foundation.both_ways(Path(folder))
    cost_us = (traced - plain) / foundation.TELLS * 1e6
    return at_most("cost of tracing, an event", cost_us, COST_US, " µs")


async def produce_row() -> Row:
    """The same requests to two clusters, in turn; one of them is traced."""
    batch = log.batch_of(log.SMALL)
    async with AsyncExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        sides = []
        for trace in (None, Path(folder)):
            it = await stack.enter_async_context(log.bench(trace))
            leaders = await it.create(log.SPREAD, log.PARTITIONS)
            sides.append((it, log.requests_to(leaders, batch, log.SMALL_ROUND)))
        times = [[await it.produce(requests) for it, requests in sides] for _ in range(ROUNDS + 1)]
    # All rounds but the first, in which files are made: the best would be one without a part.
    plain, traced = (sum(column[1:]) for column in zip(*times, strict=True))
    size = log.SMALL_ROUND / 1e6 * ROUNDS
    detail = f"{size / traced:,.0f} against {size / plain:,.0f} MB/s"
    return at_least("produce with tracing on, of that without", plain / traced, 0.85, " ×", detail)
