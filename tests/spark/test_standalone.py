"""bin/trace-report on a standalone master with two workers, and on this machine: one answer."""

import json
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO

import duckdb

from spark.command import BROKEN_PROMISES, parser, report
from spark.pipeline import JOBS
from tests.support.duck import table_of
from tests.support.processes import Command
from tests.support.standalone import DEFAULTS, LOCAL, standalone
from tests.support.troubled import impossible


def test_a_remote_master_with_two_workers_gives_the_same_answer(spark, tmp_path, monkeypatch):
    trace = impossible().write(tmp_path / "trace", run="impossible", origin="9")
    (tmp_path / "spark-defaults.conf").write_text(DEFAULTS)
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    monkeypatch.setenv("SPARK_LOCAL_IP", LOCAL)

    here = StringIO()
    with redirect_stdout(here), redirect_stderr(StringIO()):
        report(spark, parser().parse_args([str(trace), "--out", str(tmp_path / "here"), "--json"]))
    with standalone(tmp_path, workers=2) as master:
        arguments = (str(trace), "--master", master, "--out", str(tmp_path / "there"), "--json")
        with Command("trace-report", *arguments, tmp=tmp_path) as command:
            code, there, said = command.end(timeout_s=300)

    assert code == BROKEN_PROMISES, said
    answers = [json.loads(each) for each in (here.getvalue(), there)]
    for each in answers:
        del each["report"], each["tables"]
    assert answers[0] == answers[1]
    assert len(list((tmp_path / "work").glob("app-*/*"))) == 2  # both workers had an executor
    with duckdb.connect() as engine:
        for name in JOBS:
            paths = (f"{tmp_path}/{each}/tables/{name}/*.parquet" for each in ("here", "there"))
            tables = [table_of(engine, f"from read_parquet('{path}')") for path in paths]
            assert tables[0] == tables[1], name
