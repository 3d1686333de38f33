"""Spark and the recorder agree on every column, without either knowing the other."""

import pyarrow as pa
import pytest

from runtime import tables
from spark.schema import PARTITIONS, SPARK_TYPES, schema_of
from wire.trace import EVENTS

SPARK_NAMES = {pa.int64(): "bigint", pa.string(): "string", pa.bool_(): "boolean"}


@pytest.mark.parametrize("event", EVENTS)
def test_sparks_columns_are_the_recorders_and_then_those_of_the_folders(event):
    recorded = [(each.name, SPARK_NAMES[each.type]) for each in tables.schema_of(event)]

    declared = [(each.name, each.dataType.simpleString()) for each in schema_of(event)]

    assert declared == recorded + [(name, "string") for name in PARTITIONS]


def test_every_kind_of_field_has_a_type_on_both_sides():
    assert set(SPARK_TYPES) == set(tables.ARROW_TYPES)
