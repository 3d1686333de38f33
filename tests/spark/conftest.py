"""One Spark for all tests of this folder: its start takes seconds."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark import SparkContext

from runtime.java import ensure_java
from spark.session import spark_session
from tests.support.browser import browser

__all__ = ["browser"]


@pytest.fixture(scope="session")
def spark() -> Iterator:
    with spark_session("local[2]", java_home=ensure_java().home, quick=True) as session:
        process = SparkContext._gateway.proc
        yield session
    assert not Path(f"/proc/{process.pid}").exists(), "Java outlives its session"
