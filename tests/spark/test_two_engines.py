"""Two engines, one answer: each job's table is what DuckDB finds in the same parts by its rule."""

from pathlib import Path

import pytest

from spark.jobs.availability import windows
from spark.pipeline import JOBS, run_jobs
from spark.source import NotATrace
from spark.trace import Trace
from tests.support.duck import QUERIES, queried, table_of
from tests.support.troubled import troubled


class Engines:
    """Both, done."""

    def __init__(self, spark, folder: Path) -> None:
        trace = Trace(spark, [str(troubled(folder / "trace"))])
        self.folder, self.tables = folder, folder / "tables"
        run_jobs(trace, str(self.tables), lambda *_: None)
        trace.close()
        self.duck = queried(folder / "trace", JOBS)

    def found(self, name):
        """By Spark, and by DuckDB."""
        spark = table_of(self.duck, f"from read_parquet('{self.tables}/{name}/*.parquet')")
        return spark, table_of(self.duck, f"from {name}")


@pytest.fixture(scope="module")
def engines(spark, tmp_path_factory) -> Engines:
    return Engines(spark, tmp_path_factory.mktemp("two engines"))


def test_every_job_has_a_query_and_every_query_a_job():
    assert {each.stem for each in QUERIES.glob("*.sql")} - {"shared"} == set(JOBS)


@pytest.mark.parametrize("name", JOBS)
def test_both_engines_find_the_same(engines, name):
    spark, duck = engines.found(name)

    assert duck[1], "nothing is compared with nothing"
    assert spark == duck


def test_a_topic_that_is_deleted_is_no_outage(engines):
    path = engines.tables / "availability/*.parquet"
    out = engines.duck.sql(f"select distinct topic from read_parquet('{path}')").fetchall()

    assert sorted(out) == [("fine",), ("odd",), ("orders",), ("quiet",)]


def test_a_topic_that_was_deleted_before_is_no_outage_of_what_came_since(spark, engines, tmp_path):
    deleted_us = (
        spark.read.parquet(f"{engines.folder}/trace/PartitionStateChanged")
        .where("topic = 'brief' and after = 'NonExistentPartition'")
        .agg({"time_us": "max"})
        .first()[0]
    )
    trace = Trace(spark, [f"{engines.folder}/trace"])
    trace.begin_at(deleted_us + 1)

    assert windows(trace).where("topic = 'brief'").count() == 0
    trace.close()


def test_a_file_beside_a_trace_is_no_trace(spark, engines, tmp_path):
    (tmp_path / "file").write_text("")

    with pytest.raises(NotATrace, match="file: it is not a folder"):
        Trace(spark, [f"{engines.folder}/trace", str(tmp_path / "file")])
