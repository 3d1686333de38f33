"""bin/trace-report on a standalone master with two workers says what DuckDB finds here.

So does Spark on this machine alone, as tests/spark/test_two_engines.py shows: one answer.
"""

import json

from spark.command import BROKEN_PROMISES
from spark.pipeline import JOBS
from tests.support.duck import queried, table_of
from tests.support.processes import Command
from tests.support.standalone import DEFAULTS, LOCAL, standalone
from tests.support.troubled import impossible


def test_a_remote_master_with_two_workers_gives_the_same_answer(tmp_path, monkeypatch):
    trace = impossible().write(tmp_path / "trace", run="impossible", origin="9")
    (tmp_path / "spark-defaults.conf").write_text(DEFAULTS)
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    monkeypatch.setenv("SPARK_LOCAL_IP", LOCAL)
    monkeypatch.setenv("JDK_JAVA_OPTIONS", "-XX:TieredStopAtLevel=1")  # no run here is long

    with standalone(tmp_path, workers=2) as master:
        arguments = (str(trace), "--master", master, "--out", str(tmp_path / "out"), "--json")
        with Command("trace-report", *arguments, tmp=tmp_path) as command:
            code, answer, said = command.end(timeout_s=280)

    assert code == BROKEN_PROMISES, said
    assert json.loads(answer)["tables"] == f"{tmp_path}/out/tables"
    assert len(list((tmp_path / "work").glob("app-*/*"))) == 2  # both workers had an executor
    with queried(trace, JOBS) as engine:
        for name in JOBS:
            path = f"{tmp_path}/out/tables/{name}/*.parquet"
            there = table_of(engine, f"from read_parquet('{path}')")
            assert there == table_of(engine, f"from {name}"), name
