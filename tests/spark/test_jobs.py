"""Each job's steps on frames that fit a screen."""

import pytest

from spark.jobs import (
    actors,
    availability,
    budget,
    controller,
    incidents,
    keeper,
    replication,
    states,
)
from spark.jobs import requests as calls
from spark.jobs.shared import from_down_to_up, goodbye_of, in_states, merged, with_replicas_known
from spark.report.facts import LANES, heat_of
from spark.transforms import counted, kind_of, nearest, ordered, rounded, spread

SECOND = 1_000_000
PARTITION = "run string, topic string, partition long"
EVENT = "run string, id long, time_us long, node string, cause long"


def rows(frame, *columns):
    """A frame's rows as tuples, of some columns."""
    return [tuple(row) for row in frame.select(*columns).collect()]


# --- durations ------------------------------------------------------------------------------------


def test_short_durations_are_exact_and_long_ones_to_a_part_in_512(spark):
    values = [0, 1, 999, 1_023, 1_024, 1_025, 123_456_789]
    frame = spark.createDataFrame([(each,) for each in values], "us long")

    found = [row[0] for row in frame.select(rounded("us")).collect()]

    assert found[:5] == [0, 1, 999, 1_023, 1_024]
    for exact, near in zip(values, found, strict=True):
        assert 0 <= exact - near <= exact / 512


def test_percentiles_are_those_of_all_values(spark):
    frame = spark.createDataFrame([("a", each) for each in range(1, 101)], "key string, us long")

    (row,) = (
        frame.transform(counted(["key"], ["us"])).transform(spread(["key"], ["us"], "n")).collect()
    )

    assert (row.n, row.us_p50_us, row.us_p95_us, row.us_p99_us) == (100, 50, 95, 99)
    assert (row.us_max_us, row.us_total_us) == (100, 5_050)


def test_actors_are_told_by_what_they_are(spark):
    messages = spark.createDataFrame(
        [
            ("r", f"broker-{each}", f"broker-{each}/controller/channel-{each}", "Send", each, 5)
            for each in (1, 2, 3)
        ],
        "run string, node string, actor string, message string, queue_us long, handle_us long",
    )

    counts = messages.transform(counted(actors.KEYS, actors.MEASURES))

    kinds = counts.transform(actors.by_kind)
    assert rows(kinds, "kind", "message", "messages", "queue_p50_us", "handle_total_us") == [
        ("controller/channel-N", "Send", 3, 2, 15)
    ]
    assert counts.transform(actors.by_actor).count() == 3


def test_an_inboxs_depth_is_the_waiting_over_the_time(spark):
    frame = spark.createDataFrame(
        [("r", "a", 0, 500, 10), ("r", "a", 0, 1_500, 10), ("r", "a", 1_000, 0, 10)],
        "run string, actor string, bin_us long, queue_us long, handle_us long",
    )

    depths = frame.transform(actors.depths(1_000))

    assert rows(depths, "bin_us", "mean_depth", "longest_wait_us") == [
        (0, 2.0, 1_500),
        (1_000, 0, 0),
    ]


# --- the nearest in time --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("how", "found"),
    [
        ({}, [(5, None), (10, 2), (15, 2), (30, 3)]),
        ({"inclusive": False}, [(5, None), (10, None), (15, 2), (30, 2)]),
        ({"later": True}, [(5, 2), (10, 2), (15, 3), (30, 3)]),
        ({"later": True, "inclusive": False}, [(5, 2), (10, 3), (15, 3), (30, None)]),
    ],
)
def test_a_row_learns_what_the_nearest_mark_says(spark, how, found):
    schema = "run string, time_us long"
    marks = spark.createDataFrame(
        [("r", 10, 2), ("r", 30, 3), ("other", 7, 9)], f"{schema}, said long"
    )
    frame = spark.createDataFrame([("r", at) for at in (5, 10, 15, 30)], schema)

    told = frame.transform(nearest(marks, ["run"], "time_us", "mark", **how)).orderBy("time_us")

    assert rows(told, "time_us", "mark.said") == found
    assert told.columns == ["run", "time_us", "mark"]


def test_a_table_is_one_part_in_order(spark):
    frame = spark.createDataFrame([(each % 7,) for each in range(50)], "us long").repartition(3)

    told = frame.transform(ordered("us"))

    assert told.rdd.getNumPartitions() == 1
    assert [row[0] for row in told.collect()] == sorted(each % 7 for each in range(50))


# --- presences ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("marks", "began"),
    [
        ([(0, "a", "started"), (1, "b", "started")], None),
        ([(0, "a", "started"), (50, "a", "gone")], 50),
        ([(0, "a", "started"), (40, "a", "left"), (50, "a", "gone")], 40),
        ([(0, "a", "started"), (1, "b", "started"), (9, "a", "left"), (10, "a", "gone")], None),
        (
            [
                (0, "a", "started"),
                (1, "b", "started"),
                (5, "a", "gone"),
                (10 * SECOND, "b", "left"),
                (11 * SECOND, "b", "gone"),
            ],
            10 * SECOND,
        ),
    ],
)
def test_a_run_ends_where_the_last_goodbyes_begin(marks, began):
    assert goodbye_of(marks) == began


def presences(spark, *marks):
    schema = "run string, id long, time_us long, node string, state string"
    return spark.createDataFrame(
        [("r", n, at, "broker-1", s) for n, (at, s) in enumerate(marks)], schema
    )


def test_a_kill_that_two_events_tell_is_one_absence(spark):
    marks = presences(spark, (0, "up"), (10, "down"), (10, "down"), (30, "up"), (50, "paused"))

    found = marks.transform(from_down_to_up).orderBy("down_us")

    assert rows(found, "state", "down_us", "up_us") == [("down", 10, 30), ("paused", 50, None)]


def test_a_nodes_states_last_until_the_next(spark):
    ends = spark.createDataFrame([("r", 100)], "run string, last_us long")
    marks = presences(spark, (0, "up"), (10, "down"), (10, "down"), (30, "up"))

    found = marks.transform(in_states(ends))

    assert rows(found, "state", "from_us", "to_us") == [
        ("up", 0, 10),
        ("down", 10, 30),
        ("up", 30, 100),
    ]


# --- availability ---------------------------------------------------------------------------------


def without_leader(spark, leaders, absences, end_us=1_000):
    leaderships = spark.createDataFrame(
        [("r", at, n, "orders", 0, node) for n, (at, node) in enumerate(leaders)],
        "run string, time_us long, id long, topic string, partition long, node string",
    )
    away = spark.createDataFrame(
        [("r", *absence, n) for n, absence in enumerate(absences)],
        "run string, node string, state string, down_us long, up_us long, id long",
    )
    ends = spark.createDataFrame([("r", end_us)], "run string, end_us long")
    found = leaderships.transform(availability.without_leader(away, ends)).orderBy("from_us")
    return rows(found, "from_us", "to_us", "lost", "is_open")


def test_nobody_leads_from_the_leaders_death_until_the_next_leader(spark):
    leaders = [(0, "broker-1"), (300, "broker-2")]

    found = without_leader(spark, leaders, [("broker-1", "down", 100, 200)])

    assert found == [(100, 300, "broker-1", False)], "its return alone does not make it leader"


def test_a_leader_that_stands_still_leads_again_when_it_goes_on(spark):
    found = without_leader(spark, [(0, "broker-1")], [("broker-1", "paused", 100, 200)])

    assert found == [(100, 200, "broker-1", False)]


def test_what_nobody_took_over_is_open_at_the_end_of_the_run(spark):
    found = without_leader(spark, [(0, "broker-1")], [("broker-1", "down", 100, None)])

    assert found == [(100, 1_000, "broker-1", True)]


def test_who_is_killed_while_it_stands_still_does_not_lead_again(spark):
    absences = [("broker-1", "paused", 100, 300), ("broker-1", "down", 200, 300)]
    later = [("broker-2", "down", 100, None)]

    found = without_leader(spark, [(0, "broker-1"), (500, "broker-3")], [*absences, *later])
    elected_when_dead = without_leader(spark, [(250, "broker-1"), (500, "broker-3")], absences)

    assert found == [(100, 500, "broker-1", False)]
    assert elected_when_dead == [(250, 500, "broker-1", False)]


def test_each_time_that_a_leader_stands_still_is_a_window(spark):
    pauses = [("broker-1", "paused", at, at + 10) for at in (50, 150, 250, 350)]

    found = without_leader(spark, [(100, "broker-1"), (300, "broker-2")], pauses)

    assert found == [(150, 160, "broker-1", False), (250, 260, "broker-1", False)]


def test_a_death_and_an_election_of_nobody_are_one_window(spark):
    leaders = [(0, "broker-1"), (200, ""), (300, "broker-2")]

    found = without_leader(spark, leaders, [("broker-1", "down", 100, None)])

    assert found == [(100, 300, "broker-1", False)]


def test_a_deleted_partition_needs_no_leader(spark):
    leaders = [(0, "broker-1"), (50, None)]

    assert without_leader(spark, leaders, [("broker-1", "down", 100, None)]) == []


def replica_sets(spark, *sets):
    schema = f"{PARTITION}, id long, time_us long, isr string, replicas string, is_gone boolean"
    values = [("r", "orders", 0, n, *each) for n, each in enumerate(sets)]
    return spark.createDataFrame(values, schema).transform(with_replicas_known)


def test_under_replicated_is_as_long_as_the_isr_is_smaller_than_the_replicas(spark):
    ends = spark.createDataFrame([("r", 1_000)], "run string, end_us long")
    sets = replica_sets(
        spark,
        (0, "1,2,3", "1,2,3", None),
        (100, "1,2", None, None),
        (200, "1", None, None),
        (300, "1,2,3", None, None),
        (400, "1", None, None),
        (500, None, None, True),
    )

    found = sets.transform(availability.under_replicated(ends)).orderBy("from_us")

    assert rows(found, "from_us", "to_us") == [(100, 300), (400, 500)]


def test_a_trace_that_never_names_replicas_goes_by_the_most_in_sync(spark):
    found = replica_sets(spark, (0, "1,2,3", "", None), (100, "1", "", None))

    assert rows(found.orderBy("time_us"), "in_sync", "factor") == [(3, 3), (1, 3)]


def test_windows_that_touch_become_one(spark):
    frame = spark.createDataFrame(
        [
            ("a", 0, 10, "x"),
            ("a", 10, 20, "y"),
            ("a", 2, 4, "within"),
            ("a", 5, 12, "z"),
            ("a", 30, 40, "w"),
        ],
        "key string, from_us long, to_us long, lost string",
    )

    found = frame.transform(merged(("key",))).orderBy("from_us")

    assert rows(found, "from_us", "to_us", "lost") == [(0, 20, "x"), (30, 40, "w")]


def windows(spark, *values):
    schema = f"{PARTITION}, kind string, from_us long, to_us long, lost string"
    return spark.createDataFrame(
        [("r", "orders", n, *each) for n, each in enumerate(values)], schema
    )


def test_a_window_is_because_of_the_last_incident_of_the_node_that_was_lost(spark):
    known = spark.createDataFrame(
        [("r", 1, 10, "broker-1"), ("r", 2, 20, "broker-2")],
        "run string, incident long, time_us long, target string",
    )
    all_of_it = windows(
        spark,
        ("leaderless", 30, 40, "broker-1"),
        ("leaderless", 20, 40, "broker-2"),
        ("under-replicated", 30, 40, None),
        ("leaderless", 5, 9, "broker-1"),
    )

    found = all_of_it.transform(availability.because_of(known)).orderBy("partition")

    assert rows(found, "partition", "incident") == [(0, 1), (1, 2), (2, 2), (3, None)]


def test_partitions_are_counted_in_slices_of_time(spark):
    all_of_it = windows(spark, ("leaderless", 5, 25, None), ("leaderless", 12, 18, None))

    found = all_of_it.transform(availability.counted_over_time(10))

    assert rows(found, "bin_us", "partitions", "after") == [(0, 1, 1), (10, 2, 1), (20, 1, 0)]


# --- incidents, controllers, budget ---------------------------------------------------------------


def test_what_a_fault_explains_is_no_incident_of_its_own(spark):
    schema = "run string, time_us long, target string"
    faults = spark.createDataFrame([("r", 100, "broker-1")], schema)
    stopped = [("r", 150, "broker-1"), ("r", 150, "broker-2"), ("r", 5 * SECOND, "broker-1")]
    frame = spark.createDataFrame(stopped, schema)

    found = (
        frame.transform(incidents.explained_within(SECOND))
        .transform(incidents.unlike(faults))
        .orderBy("time_us")
    )

    assert rows(found, "time_us", "target") == [(150, "broker-2"), (5 * SECOND, "broker-1")]


def test_a_reign_ends_with_what_comes_first(spark):
    elected = spark.createDataFrame(
        [
            ("r", 1, 0, "broker-1", 0, 1, 1),
            ("r", 2, 100, "broker-2", 0, 2, 2),
            ("r", 3, 200, "broker-1", 0, 1, 3),
        ],
        f"{EVENT}, broker long, controller_epoch long",
    )
    resigned = spark.createDataFrame(
        [("r", 2, 150, "asked to")],
        "run string, controller_epoch long, resigned_us long, reason string",
    )
    away = spark.createDataFrame(
        [("r", "broker-1", "down", 50, 60)],
        "run string, node string, state string, down_us long, up_us long",
    )
    ends = spark.createDataFrame([("r", 500)], "run string, end_us long")

    found = elected.transform(controller.with_ends(resigned, away, ends)).orderBy(
        "controller_epoch"
    )

    assert rows(found, "controller_epoch", "life_us", "ended_by") == [
        (1, 50, "its broker went down"),
        (2, 50, "asked to"),
        (3, 300, "the run ended"),
    ]


def test_what_an_event_led_to_is_found_along_causes(spark):
    messages = spark.createDataFrame(
        [("r", 2, 1), ("r", 3, 2), ("r", 4, 3), ("r", 9, 8)], "run string, id long, parent long"
    )
    roots = spark.createDataFrame([("r", 1)], "run string, cause long")

    found = messages.transform(budget.descended(roots, 2)).orderBy("id")

    assert rows(found, "id", "cause") == [(1, 1), (2, 1), (3, 1)]


# --- replication, requests, states, ZooKeeper -----------------------------------------------------


def test_copies_and_lag_are_counted_from_what_replicas_appended(spark):
    appended = spark.createDataFrame(
        [
            ("r", "broker-1", "orders", 0, "leader", 3, 10, 9),
            ("r", "broker-2", "orders", 0, "follower", 2, 10, 9),
            ("r", "broker-3", "orders", 0, "follower", 2, 4, 3),
        ],
        "run string, node string, topic string, partition long, role string, batches long,"
        " records long, last_offset long",
    )

    copies = appended.transform(replication.amplified)
    lag = appended.transform(replication.behind_in_the_end)

    assert rows(copies, "records", "copied", "amplification") == [(10, 14, 1.4)]
    assert rows(lag, "lag_last") == [(6,)]


def test_an_isrs_shrinks_and_expands_are_told_apart(spark):
    sets = replica_sets(
        spark,
        (0, "1,2,3", "1,2,3", None),
        (1, "1,2", None, None),
        (2, "1", None, None),
        (3, "1,2,3", None, None),
        (9, "1", None, None),
    )
    ends = spark.createDataFrame([("r", 5)], "run string, end_us long")

    found = sets.transform(replication.isr_changes(ends, lambda frame: frame))
    late = sets.transform(replication.isr_changes(ends, lambda frame: frame.where("time_us > 1")))

    columns = ("shrinks", "expands", "fewest_in_sync", "replicas")
    assert rows(found, *columns) == [(2, 1, 1, 3)], "what comes after the end is no outage"
    assert rows(late, *columns) == [(1, 1, 1, 3)]


def test_who_is_dead_falls_behind(spark):
    appends = spark.createDataFrame(
        [
            ("r", "broker-1", "t", 0, "leader", 0, 9),
            ("r", "broker-2", "t", 0, "follower", 0, 8),
            ("r", "broker-1", "t", 0, "leader", 100, 49),
            ("r", "broker-2", "t", 0, "follower", 200, 49),
        ],
        "run string, node string, topic string, partition long, role string, bin_us long,"
        " last_offset long",
    )

    assert rows(appends.transform(replication.behind), "lag_max") == [(41,)]


def test_each_life_of_a_node_counts_its_sessions_anew(spark):
    states = ("connected", "suspended", "connected", "connected", "expired", "connected")
    changes = spark.createDataFrame(
        [
            ("r", "broker-1", at, at, state, session)
            for at, (state, session) in enumerate(zip(states, (1, 1, 1, 1, 1, 2), strict=True))
        ],
        "run string, node string, id long, time_us long, state string, session long",
    )

    found = changes.transform(keeper.by_node)

    assert rows(found, "sessions", "connected", "suspended", "expired") == [(3, 4, 1, 1)]


def test_errors_are_counted_and_the_usual_one_is_named(spark):
    made = [("ok", 3), ("ok", 5), ("Disconnected", 1), ("Disconnected", 2), ("CallTimedOut", 9)]
    frame = spark.createDataFrame(
        [("r", "broker-1", "broker-2", "Fetch", outcome, us, 10, 20) for outcome, us in made],
        "run string, source string, destination string, request string, outcome string,"
        " latency_us long, request_bytes long, response_bytes long",
    )

    found = frame.transform(counted(calls.KEYS, calls.LATENCY, calls.BYTES)).transform(
        calls.by_request
    )

    columns = ("calls", "errors", "usual_error", "request_bytes", "latency_max_us")
    assert rows(found, *columns) == [(5, 3, "Disconnected", 50, 9)]


def test_a_call_is_a_retry_if_a_channel_or_a_fetcher_had_waited_for_it(spark):
    messages = spark.createDataFrame(
        [
            ("r", 1, "broker-1/controller/channel-2", "Send"),
            ("r", 2, "broker-1/controller/channel-2", "_Again"),
            ("r", 3, "broker-3/fetcher-0-1", "_Rested"),
            ("r", 4, "broker-3/fetcher-0-1", "_Again"),  # a partition was left out for a while
            ("other", 1, "broker-1/controller/channel-2", "_Again"),
        ],
        "run string, id long, actor string, message string",
    )
    made = [
        ("r", "broker-1", "broker-2", "StopReplica", 1),
        ("r", "broker-1", "broker-2", "StopReplica", 2),
        ("r", "broker-1", "broker-2", "StopReplica", 2),
        ("r", "broker-3", "broker-1", "Fetch", 3),
        ("r", "broker-3", "broker-1", "Fetch", 4),
        ("r", "client", "broker-1", "Produce", 0),
        ("other", "broker-1", "broker-2", "StopReplica", 1),
    ]
    frame = spark.createDataFrame(
        made, "run string, source string, destination string, request string, cause long"
    )

    found = calls.retries(frame, messages)

    assert sorted(rows(found, "run", "source", "request", "retries")) == [
        ("other", "broker-1", "StopReplica", 1),
        ("r", "broker-1", "StopReplica", 2),
        ("r", "broker-3", "Fetch", 1),
    ]


def test_a_matrix_counts_changes_and_refusals(spark):
    pairs = spark.createDataFrame(
        [("r", "partition", "New", "Online", False)] * 2
        + [("r", "partition", "New", "Online", True)],
        "run string, machine string, before string, after string, is_refused boolean",
    )

    found = pairs.transform(states.matrix)

    assert rows(found, "before", "after", "changes", "refused") == [("New", "Online", 2, 1)]


def test_batches_of_zookeeper_are_told_by_their_size(spark):
    frame = spark.createDataFrame(
        [("r", "write", "ok", 10, 400), ("r", "write", "ok", 30, 600)],
        "run string, operation string, outcome string, count long, latency_us long",
    )

    found = frame.transform(keeper.by_operation)

    columns = ("operations", "znodes", "batch_mean", "batch_max", "latency_max_us")
    assert rows(found, *columns) == [(2, 40, 20.0, 30, 600)]


def test_names_in_paths_do_not_count(spark):
    paths = ["/brokers/ids/7", "/brokers/ids", "/config/topics/a", "/isr/isr_0000000012"]
    frame = spark.createDataFrame([(each,) for each in paths], "path string")

    found = [row[0] for row in frame.select(keeper.path_kind("path")).collect()]

    assert found == ["/brokers/ids/…", "/brokers/ids", "/config/topics/…", "/isr/isr_…"]


def test_a_kind_of_actor_has_no_numbers(spark):
    names = ["broker-1/fetcher-0-4", "broker-12/controller", "alone"]
    frame = spark.createDataFrame([(each,) for each in names], "actor string")

    found = [row[0] for row in frame.select(kind_of("actor")).collect()]

    assert found == ["fetcher-N-N", "controller", "alone"]


# --- a hundred thousand partitions ----------------------------------------------------------------


@pytest.mark.parametrize(("topics", "partitions", "a_row"), [(1, 100_000, 5_000), (3, 2, 1)])
def test_a_heat_map_has_as_many_rows_as_a_page_has_room_for(spark, topics, partitions, a_row):
    out = spark.range(topics * partitions).selectExpr(
        "'r' as run",
        f"concat('topic-', id % {topics}) as topic",
        f"id div {topics} as partition",
        "10 as from_us",
        "25 as to_us",
        "15 as duration_us",
    )

    heat = heat_of(out, availability.LEADERLESS, 10)

    assert heat.partitions_a_row == a_row
    assert len(heat.rows) <= LANES
    assert {at for _, at in heat.cells} == {10.0, 20.0}
    assert sum(heat.cells.values()) == 2 * topics * partitions


def test_with_more_topics_than_rows_the_worst_are_shown(spark):
    out = spark.range(100).selectExpr(
        "'r' as run",
        "concat('topic-', id) as topic",
        "0L as partition",
        "0L as from_us",
        "id as to_us",
        "id as duration_us",
    )

    heat = heat_of(out, availability.LEADERLESS, 1_000)

    assert set(heat.rows) == {f"topic-{number}-0" for number in range(60, 100)}
