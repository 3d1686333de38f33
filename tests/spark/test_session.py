"""The session keeps to itself; that its Java is gone afterwards, the fixture asserts."""

import os
from pathlib import Path

import pytest
from pyspark import SparkContext

from spark.session import spark_session

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
