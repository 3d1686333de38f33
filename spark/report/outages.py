"""The sections about what went wrong: the run at a glance, incidents, availability.

Rule: who reads only these knows what failed, when, for how long and why.
"""

from collections.abc import Sequence
from typing import Final

from spark.jobs.availability import LEADERLESS, UNDER_REPLICATED
from spark.report.charts import Flame, Mark, Series, Span, flames, heat, over_time, time_lanes
from spark.report.facts import LANES, SHOWN, Facts, Row
from spark.report.markup import Markup
from spark.report.section import (
    Column,
    Section,
    count,
    figure,
    hidden,
    left_out,
    paragraph,
    table,
    text,
)
from spark.report.summary import incident, incident_name
from spark.report.words import clock, date_and_clock, duration, listed, many, number

NODES: Final = 30
TOLD: Final = 12  # incidents in sentences that are seen at once
MARKS: Final = 200
SILENT: Final = ("kill", "pause", "cut", "killed")  # after these a session has to time out
HEARD: Final = ("until the controller heard", "wait")
CLASSES: Final = {LEADERLESS: "bad", UNDER_REPLICATED: "warn"}
# What a failover consists of: from the moment before to this one.
STEPS: Final = (
    ("until ZooKeeper tells", "watch_us", "wait"),
    ("in the controller's inbox", "begun_us", "queue"),
    ("reading and deciding", "first_write_us", "decide"),
    ("writing to ZooKeeper", "durable_us", "write"),
    ("until the leaders serve", "serving_us", "tell"),
    ("until the first produce", "first_produce_us", "produce"),
)


def glance(facts: Facts) -> Section:
    """Brokers and controllers over time, with all incidents."""
    nodes = facts.here("nodes")
    away: dict[str, int] = {}
    for row in nodes:
        away[row["node"]] = away.get(row["node"], 0) + (row["state"] != "up")
    names = sorted(sorted(away), key=lambda name: -away[name])[:NODES]
    lanes = sorted(names, key=_in_order)
    spans = [
        Span(
            row["node"],
            row["from_us"],
            row["to_us"],
            {"up": "up", "down": "down", "paused": "paused"}[row["state"]],
            f"{row['node']} {row['state']}: {_when(row)}",
        )
        for row in nodes
    ]
    spans += [
        Span(
            row["node"],
            row["elected_us"],
            row["ended_us"],
            "reign",
            f"controller epoch {row['controller_epoch']}: broker {row['broker']},"
            f" {duration(row['life_us'])}, until {row['ended_by']}",
        )
        for row in facts.here("controller")
    ]
    drawing = time_lanes(
        lanes, spans, _marks(facts), facts.start, facts.end, "Brokers and controllers over time"
    )
    return Section("glance", "At a glance", [*_runs(facts), figure(drawing, _glance_words(facts))])


def _runs(facts: Facts) -> list[Markup]:
    if len(facts.runs) < 2:  # noqa: PLR2004 - one needs no table
        return []
    incidents = {row["run"]: row["incidents"] for row in facts.totals["incidents"]}
    rows: list[Row] = [
        {"run": run, "from": start, "long": end - start, "incidents": incidents.get(run, 0)}
        for run, (start, end) in sorted(facts.spans.items())[:LANES]
    ]
    return [
        paragraph(
            f"There are {len(facts.runs)} runs in this trace. Charts of time are those of"
            f" {facts.run}; summaries and incidents are of all."
        ),
        table(
            rows,
            text("run", "run"),
            Column("from (UTC)", lambda row: date_and_clock(row["from"])),
            count("duration", "long", duration),
            count("incidents", "incidents", number),
        ),
    ]


def _glance_words(facts: Facts) -> str:
    nodes = facts.here("nodes")
    down = [row for row in nodes if row["state"] != "up" and row["from_us"] < facts.ends[facts.run]]
    reigns = facts.here("controller")
    if not down:
        out = "No broker was away."
    else:
        longest = max(down, key=lambda row: row["to_us"] - row["from_us"])
        out = (
            f"Brokers were away {many(len(down), 'time')}, longest {longest['node']}"
            f" ({duration(longest['to_us'] - longest['from_us'])}, {longest['state']})."
        )
    who = listed([f"broker {row['broker']}" for row in reigns[:6]]) or "nobody"
    in_turn = ", in this order" if len(reigns) > 1 else ""
    return (
        f"{out} The blue line is the controller: {who} held the office{in_turn}."
        f" The run lasted {duration(facts.end - facts.start)}; dashed lines are"
        f" {'incidents' if len(facts.here('failover_budget')) <= MARKS else 'the first incidents'}."
    )


def _marks(facts: Facts) -> list[Mark]:
    """More than so many lines would hide what they mark."""
    return [
        Mark(
            row["time_us"], f"#{row['incident']}", f"{incident_name(row)}, {clock(row['time_us'])}"
        )
        for row in facts.here("failover_budget")[:MARKS]
    ]


def _in_order(name: str) -> tuple[str, int, str]:
    stem, _, number_ = name.rpartition("-")
    return (stem, int(number_), "") if number_.isdecimal() else (name, 0, name)


def _when(row: Row) -> str:
    lasted = duration(row["to_us"] - row["from_us"])
    return f"{clock(row['from_us'])} to {clock(row['to_us'])} ({lasted})"


# --- incidents ------------------------------------------------------------------------------------


def incidents(facts: Facts) -> Section:
    """Each incident, and where the time of its failover went."""
    rows = facts.tables["failover_budget"][:SHOWN]
    if not rows:
        nothing = paragraph("Nothing was broken, crashed, left or lost its session in this trace.")
        return Section("incidents", "Incidents and failover budget", [nothing])
    reacted = [row for row in rows if row["reacted_us"] is not None]
    said = [paragraph(incident(row)) for row in rows]
    content = said[:TOLD]
    if said[TOLD:]:
        content.append(hidden(f"{many(len(said) - TOLD, 'more incident')} in words", *said[TOLD:]))
    if reacted:
        drawing = flames([_flame(row) for row in reacted], "Where the time of each failover went")
        content.append(figure(drawing, _budget_words(reacted)))
        after = [_flame(row, since_detected=True) for row in reacted]
        if any(row.steps for row in after):
            drawing = flames(after, "The same from the moment that ZooKeeper told of it")
            content.append(figure(drawing, _detected_words(reacted)))
    content.append(
        table(rows, *_columns(), caption="Each incident, with its way through the cluster")
    )
    count = sum(row["incidents"] for row in facts.totals["incidents"])
    content += left_out(len(rows), count, "incident", "failover_budget")
    return Section("incidents", "Incidents and failover budget", content)


def _flame(row: Row, *, since_detected: bool = False) -> Flame:
    begin = (
        (row["watch_us"] or row["begun_us"] or row["time_us"]) if since_detected else row["time_us"]
    )
    # What is elected is in ZooKeeper; ISRs that lost a member may still be written after that.
    moments = row | {"durable_us": row["elected_us"] or row["written_us"]}
    steps, at = [], float(begin)
    for what, moment, class_ in STEPS:
        until = moments[moment]
        if until is None or until < at or (since_detected and moment == "first_produce_us"):
            continue
        if until > at:
            # Where nobody waited for ZooKeeper, all of it passed before the controller was told.
            is_untold = moment == "begun_us" and row["watch_us"] is None
            name, look = HEARD if is_untold else (what, class_)
            steps.append((name, at - begin, until - begin, look))
        at = until
    return Flame(f"#{row['incident']} {row['what']} {row['target']}", steps)


def _budget_words(rows: Sequence[Row]) -> str:
    slowest = max(rows, key=lambda row: (row["serving_us"] or row["reacted_us"]) - row["time_us"])
    whole = (slowest["serving_us"] or slowest["reacted_us"]) - slowest["time_us"]
    seen = (slowest["watch_us"] or slowest["reacted_us"]) - slowest["time_us"]
    until = "the controller reacted" if slowest["watch_us"] is None else "ZooKeeper told anybody"
    is_silent = slowest["watch_us"] is not None and slowest["what"] in SILENT
    return (
        f"From each incident to the first produce after it. The slowest failover,"
        f" {incident_name(slowest)}, took {duration(whole)} until its leaders served;"
        f" {duration(seen)} of that passed before {until}"
        f"{': its session had to time out' if is_silent else ''}."
    )


def _detected_words(rows: Sequence[Row]) -> str:
    works = [
        (row["serving_us"] - row["watch_us"], row)
        for row in rows
        if row["serving_us"] and row["watch_us"]
    ]
    if not works:
        return "What the controller did once it knew; it had no leader to elect."
    longest, row = max(works, key=lambda each: each[0])
    return (
        f"The same failovers from the moment of detection, on their own scale. The longest took"
        f" {duration(longest)} for {many(row['elections'], 'election')}"
        f" and {many(row['left_isr'], 'ISR')} that lost a member ({incident_name(row)})."
    )


def _columns() -> list[Column]:
    def since(key: str) -> Column:
        heading = {
            "watch_us": "ZooKeeper told",
            "elected_us": "elected",
            "written_us": "written",
            "serving_us": "leaders served",
            "told_us": "last broker told",
            "first_produce_us": "first produce",
        }[key]

        def value(row: Row) -> str:
            return "-" if row[key] is None else f"+{duration(row[key] - row['time_us'])}"

        return Column(heading, value, is_number=True)

    return [
        Column("incident", incident_name),
        Column("fault", lambda row: row["number"] or "-", is_number=True),
        Column("at (UTC)", lambda row: clock(row["time_us"]), is_number=True),
        Column(
            "mended",
            lambda row: (
                "-"
                if row["mended_us"] is None
                else f"+{duration(row['mended_us'] - row['time_us'])}"
            ),
            is_number=True,
        ),
        *map(
            since,
            (
                "watch_us",
                "elected_us",
                "written_us",
                "serving_us",
                "told_us",
                "first_produce_us",
            ),
        ),
        count("elections", "elections", number),
    ]


# --- availability ---------------------------------------------------------------------------------


def availability(facts: Facts) -> Section:
    """How many partitions were out, which, when and why."""
    series = [
        Series(kind, CLASSES[kind], _points(facts, kind)) for kind in (UNDER_REPLICATED, LEADERLESS)
    ]
    if not any(each.points for each in series):
        words = "Every partition had a leader and all of its replicas in sync, all the time."
        return Section("availability", "Availability", [paragraph(words)])
    drawing = over_time(series, facts.start, facts.end, "Partitions that were out, over time")
    content = [figure(drawing, _out_words(facts)), _which(facts)]
    content.append(
        table(
            facts.tables["availability"],
            Column("partition", lambda row: f"{row['topic']}-{row['partition']}"),
            count("windows without leader", "leaderless_windows", number),
            count("in all", "leaderless_us", duration),
            count("longest", "leaderless_longest_us", duration),
            count("windows under-replicated", "under_replicated_windows", number),
            count("in all", "under_replicated_us", duration),
            count("longest", "under_replicated_longest_us", duration),
            caption="The partitions that were out longest",
        )
    )
    return Section("availability", "Availability", content)


def _points(facts: Facts, kind: str) -> list[tuple[float, float]]:
    points: list[tuple[float, float]] = []
    for row in facts.here("availability_over_time"):
        if row["kind"] == kind:
            points += [
                (row["bin_us"], row["partitions"]),
                (row["bin_us"] + facts.bin_us, row["after"]),
            ]
    return points


def _out_words(facts: Facts) -> str:
    said = []
    for kind, words in ((LEADERLESS, "without a leader"), (UNDER_REPLICATED, "under-replicated")):
        points = _points(facts, kind)
        if points:
            at, most = max(points, key=lambda point: point[1])
            said.append(f"at most {many(most, 'partition')} {words} at once ({clock(int(at))})")
    return (
        f"Partitions without a leader (red) and under-replicated (amber), in slices of"
        f" {duration(facts.bin_us)}: {listed(said)}."
    )


def _which(facts: Facts) -> Markup:
    if facts.heat is not None:
        of = facts.heat
        cells, rows = of.cells, of.rows
        (row, at), most = max(cells.items(), key=lambda cell: cell[1])
        drawing = heat(
            rows,
            cells,
            of.width_us,
            facts.start,
            facts.end,
            f"Partitions that were {of.kind}, by time",
            lambda value: many(value, "partition"),
        )
        return figure(
            drawing,
            f"Where and when partitions were {of.kind}, up to {number(of.partitions_a_row)} a row:"
            f" most of one row at {clock(int(at))}, {many(most, 'partition')} of {row}.",
        )
    windows = facts.tables["windows"]
    totals: dict[str, int] = {}
    for row_ in windows:
        where = f"{row_['topic']}-{row_['partition']}"
        totals[where] = totals.get(where, 0) + row_["duration_us"] * (
            1000 if row_["kind"] == LEADERLESS else 1
        )
    lanes = sorted(sorted(totals, key=lambda where: (-totals[where], where))[:LANES], key=_in_order)
    spans = [
        Span(
            f"{row_['topic']}-{row_['partition']}",
            row_["from_us"],
            row_["to_us"],
            CLASSES[row_["kind"]],
            f"{row_['topic']}-{row_['partition']} {row_['kind']}: {_when(row_)}{_why(facts, row_)}",
        )
        for row_ in sorted(windows, key=lambda row_: row_["kind"], reverse=True)
    ]
    drawing = time_lanes(
        lanes, spans, _marks(facts), facts.start, facts.end, "Partitions over time"
    )
    worst = max(windows, key=lambda row_: (row_["kind"] == LEADERLESS, row_["duration_us"]))
    return figure(
        drawing,
        f"Each affected partition: red without a leader, amber under-replicated. The longest red"
        f" one is {worst['topic']}-{worst['partition']}, {_when(worst)}{_why(facts, worst)}."
        if worst["kind"] == LEADERLESS
        else f"Each affected partition, amber while under-replicated; none lost its leader."
        f" Longest was {worst['topic']}-{worst['partition']}, {_when(worst)}{_why(facts, worst)}.",
    )


def _why(facts: Facts, row: Row) -> str:
    for each in facts.here("failover_budget"):
        if each["incident"] == row["incident"]:
            return f", after {incident_name(each)}"
    return ""
