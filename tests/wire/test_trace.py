"""Events are flat values, and their columns are written down once."""

import msgspec
import pytest

from wire.trace import COLUMNS, EVENTS, MessageHandled, Stamp, TraceEvent, from_json, to_json

STAMP = ["id", "time_us", "node", "cause"]


def test_every_event_has_a_table():
    assert list(COLUMNS) == [event.__name__ for event in EVENTS]
    assert len(set(COLUMNS)) == len(EVENTS)
    assert set(EVENTS) == set(TraceEvent.__subclasses__())


@pytest.mark.parametrize("event", EVENTS)
def test_a_table_begins_with_the_stamp_and_goes_on_with_the_fields(event):
    assert list(COLUMNS[event.__name__]) == [*STAMP, *event.__struct_fields__]
    assert list(Stamp.__struct_fields__) == STAMP


@pytest.mark.parametrize("event", EVENTS)
def test_an_event_is_flat(event):
    assert set(COLUMNS[event.__name__].values()) <= {int, str, bool, float}


@pytest.mark.parametrize("event", EVENTS)
def test_an_event_is_frozen_and_says_what_it_means(event):
    assert event.__struct_config__.frozen
    assert event.__doc__.endswith(".")


def test_columns_keep_their_kinds():
    assert COLUMNS["MessageHandled"] == {
        "id": int,
        "time_us": int,
        "node": str,
        "cause": int,
        "actor": str,
        "message": str,
        "queue_us": int,
        "handle_us": int,
        "outcome": str,
    }


def test_an_event_is_told_from_the_others_by_its_tag():
    event = MessageHandled("broker-1/api", "Fetch", 1, 2, "ok")

    assert msgspec.to_builtins(event) == ["MessageHandled", "broker-1/api", "Fetch", 1, 2, "ok"]


@pytest.mark.parametrize("event", EVENTS)
def test_an_event_comes_back_from_json(event):
    values = {int: 7, str: "seven", bool: True, float: 0.7}
    columns = COLUMNS[event.__name__]
    sample = event(*(values[columns[name]] for name in event.__struct_fields__))

    assert from_json(to_json(sample)) == sample
