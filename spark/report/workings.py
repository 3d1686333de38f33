"""The sections about how it worked: controller, replication, requests, actors.

Rule: a section without events says so, in a sentence, and shows nothing else.
"""

from collections.abc import Sequence
from typing import Final

from spark.report.charts import Range, Series, heat, over_time, ranges
from spark.report.facts import SHOWN, Facts, Row
from spark.report.markup import Markup, tag
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
from spark.report.words import clock, duration, many, number, percent, size

BARS: Final = 24  # rows of a chart of percentiles
COLOURS: Final = ("one", "two", "three", "four")


def drawn_ranges(rows: Sequence[Row], name: str, measure: str, label: str) -> Markup:
    """The first rows as percentiles of a measure."""

    def row_of(row: Row) -> Range:
        p50, p95, p99, most = (
            row[f"{measure}_{each}_us"] or 0 for each in ("p50", "p95", "p99", "max")
        )
        hint = (
            f"{row[name]}: p50 {duration(p50)}, p95 {duration(p95)}, p99 {duration(p99)},"
            f" longest {duration(most)}"
        )
        return Range(str(row[name]), p50, p95, p99, most, hint)

    return ranges([row_of(row) for row in rows[:BARS]], label)


def percentiles(measure: str) -> list[Column]:
    """The columns of a measure."""
    headings = {"p50": "p50", "p95": "p95", "p99": "p99", "max": "longest"}
    return [count(words, f"{measure}_{of}_us", duration) for of, words in headings.items()]


# --- the controller -------------------------------------------------------------------------------


def controller(facts: Facts) -> Section:
    """Reigns, failovers step by step, and the events that took longest."""
    reigns, steps = facts.tables["controller"][:SHOWN], facts.here("failover_steps")
    if not reigns:
        nothing = paragraph("No controller was elected in this trace.")
        return Section("controller", "Controller", [nothing])
    content = [
        table(
            reigns,
            text("epoch", "controller_epoch"),
            text("broker", "broker"),
            Column("elected (UTC)", lambda row: clock(row["elected_us"])),
            count("held it for", "life_us", duration),
            text("until", "ended_by"),
            count("taking office", "failover_us", duration),
            caption="Every controller epoch",
        ),
        *left_out(
            len(reigns), facts.totals["reigns"][0]["reigns"], "controller epoch", "controller"
        ),
    ]
    if steps:
        content.append(figure(_steps(steps), _steps_words(steps)))
    events = facts.tables["controller_events"]
    if events:
        content.append(
            hidden(
                "The events that took the controller longest",
                table(
                    events,
                    Column("at (UTC)", lambda row: clock(row["time_us"])),
                    text("event", "message"),
                    Column("epoch", lambda row: row["controller_epoch"] or "-"),
                    count("waited", "queue_us", duration),
                    count("took", "handle_us", duration),
                    count("leaders elected", "elections", number),
                    count("left an ISR", "left_isr", number),
                ),
            )
        )
    return Section("controller", "Controller", content)


def _steps(steps: Sequence[Row]) -> Markup:
    names = list(dict.fromkeys(row["step"] for row in steps))
    epochs = sorted({row["controller_epoch"] for row in steps})
    took = {(row["step"], row["controller_epoch"]): row for row in steps}
    most = max(row["took_us"] for row in steps) or 1
    head = tag("tr", tag("th", "step"), [tag("th", f"epoch {each}") for each in epochs[:12]])
    body = []
    for name in names:
        cells = []
        for epoch in epochs[:12]:
            row = took.get((name, epoch))
            if row is None:
                cells.append(tag("td", "-", class_="number"))
                continue
            share = f"--share: {row['took_us'] / most:.3f}"
            hint = f"{name}: {number(row['count'])} things"
            words = duration(row["took_us"])
            cells.append(tag("td", words, class_="number cell", style=share, title=hint))
        body.append(tag("tr", tag("th", name, scope="row"), cells))
    inner = tag("table", tag("thead", head), tag("tbody", body), class_="grid")
    return tag("div", inner, class_="scroll")


def _steps_words(steps: Sequence[Row]) -> str:
    slowest = max(steps, key=lambda row: row["took_us"])
    whole = sum(
        row["took_us"] for row in steps if row["controller_epoch"] == slowest["controller_epoch"]
    )
    return (
        f"Taking office step by step. The slowest step was “{slowest['step']}” of epoch"
        f" {slowest['controller_epoch']}: {duration(slowest['took_us'])} for"
        f" {number(slowest['count'])} things, of {duration(whole)} in all."
    )


# --- replication and requests ---------------------------------------------------------------------


def replication(facts: Facts) -> Section:
    """ISRs, lag, truncations, links."""
    rows, links = facts.tables["replication"], facts.tables["replication_links"]
    if not rows:
        nothing = paragraph("No partition was led or written in this trace.")
        return Section("replication", "Replication", [nothing])
    worst = rows[0]
    shrinks = (
        f"{worst['topic']}-{worst['partition']} had the most ISR changes: it shrank"
        f" {many(worst['shrinks'], 'time')} and grew {many(worst['expands'], 'time')}, down to"
        f" {worst['fewest_in_sync']} of {worst['replicas']} in sync."
        if worst["shrinks"]
        else "No ISR shrank."
    )
    cut = sum(each["cut"] for each in facts.totals["partitions"] if each["run"] == facts.run)
    lost = (
        f" Followers cut off {many(cut, 'record')} that their leaders did not have." if cut else ""
    )
    content = [
        paragraph(shrinks + lost),
        table(
            rows,
            Column("partition", lambda row: f"{row['topic']}-{row['partition']}"),
            count("records", "records", number),
            count("copied", "copied", number),
            count("copies a record", "amplification", number),
            count("ISR shrank", "shrinks", number),
            count("grew", "expands", number),
            count("fewest in sync", "fewest_in_sync", number),
            count("truncated", "truncations", number),
            count("records cut", "records_cut", number),
            count("most lag", "lag_max", number),
            count("lag at the end", "lag_last", number),
            caption="The partitions whose replicas changed most",
        ),
    ]
    if links:
        top = links[0]
        content.append(
            paragraph(
                f"The busiest link was {top['leader']} → {top['follower']}:"
                f" {size(top['response_bytes'])} in {many(top['fetches'], 'fetch', 'fetches')}."
            )
        )
        content.append(
            table(
                links,
                text("leader", "leader"),
                text("follower", "follower"),
                count("fetches", "fetches", number),
                count("bytes", "response_bytes", size),
                *percentiles("latency"),
                caption="Bytes by link; a fetch waits for records: its latency is mostly that",
            )
        )
    return Section("replication", "Replication", content)


def requests(facts: Facts) -> Section:
    """Latency by kind, calls over time, and who had errors."""
    kinds = facts.tables["request_kinds"]
    if not kinds:
        nothing = paragraph("No call between nodes was recorded.")
        return Section("requests", "Requests", [nothing])
    slow = max(kinds, key=lambda row: row["latency_p99_us"] or 0)
    calls, errors = sum(row["calls"] for row in kinds), sum(row["errors"] for row in kinds)
    content = [
        figure(
            drawn_ranges(kinds, "request", "latency", "Latency by request"),
            f"From p50 to p99, p95 as a stroke, the longest as a dot. {slow['request']} has the"
            f" longest p99, {duration(slow['latency_p99_us'])}; of {many(calls, 'call')},"
            f" {number(errors)} ({percent(errors, calls)}) failed.",
        ),
        *_calls_over_time(facts, [row["request"] for row in kinds[: len(COLOURS)]]),
        table(
            kinds,
            text("request", "request"),
            count("calls", "calls", number),
            count("failed", "errors", number),
            count("sent", "request_bytes", size),
            count("answered", "response_bytes", size),
            *percentiles("latency"),
            count("calls a changed partition", "calls_a_changed_partition", number),
        ),
    ]
    failed = [row for row in facts.tables["requests"] if row["errors"]]
    if failed:
        content.append(
            hidden(
                "Who had errors, of whom, and which",
                table(
                    failed,
                    text("from", "source"),
                    text("to", "destination"),
                    text("request", "request"),
                    count("calls", "calls", number),
                    count("failed", "errors", number),
                    text("mostly", "usual_error"),
                    count("tried again", "retries", number),
                ),
            )
        )
    return Section("requests", "Requests", [*content, *_refusals(facts)])


def _refusals(facts: Facts) -> list[Markup]:
    rows = facts.tables["requests_refused"]
    if not rows:
        return [paragraph("No answer had an error code.")]
    first = rows[0]
    return [
        paragraph(
            f"Most often {first['node']} answered {first['source']}'s {first['request']} with"
            f" {first['error']}: {many(first['answers'], 'time')}, from {clock(first['first_us'])}"
            f" to {clock(first['last_us'])}. One answer may say so several times, as of partitions."
        ),
        table(
            rows,
            text("asked", "node"),
            text("by", "source"),
            text("request", "request"),
            text("answered with", "error"),
            count("answers", "answers", number),
            count("times", "times", number),
            count("first (UTC)", "first_us", clock),
            count("last (UTC)", "last_us", clock),
            caption="Answers with an error code",
        ),
    ]


def _calls_over_time(facts: Facts, names: Sequence[str]) -> list[Markup]:
    rows = facts.here("requests_over_time")
    shown = [name for name in names if any(row["request"] == name for row in rows)]
    slices = range(facts.start - facts.start % facts.bin_us, facts.end, facts.bin_us)
    if not shown or len(slices) > len(rows) * 4 + 1_000:
        return []
    by_place = {(row["request"], row["bin_us"]): row["calls"] for row in rows}
    series = [
        Series(
            name,
            colour,
            [(at, by_place.get((name, at), 0) * 1e6 / facts.bin_us) for at in slices],
        )
        for name, colour in zip(shown, COLOURS, strict=False)
    ]
    most = max(((value, at, each.name) for each in series for at, value in each.points))
    drawing = over_time(series, facts.start, facts.end, "Calls a second over time", is_filled=False)
    return [
        figure(
            drawing,
            f"Calls a second of the {many(len(shown), 'most frequent kind')}; the peak is"
            f" {number(round(most[0]))} a second of {most[2]}, at {clock(int(most[1]))}.",
        )
    ]


# --- actors ---------------------------------------------------------------------------------------


def actors(facts: Facts) -> Section:
    """Waiting and handling by kind and message, the busiest, and inboxes over time."""
    kinds = [{**row, "name": f"{row['kind']} {row['message']}"} for row in facts.tables["actors"]]
    if not kinds:
        nothing = paragraph("No handled message was recorded.")
        return Section("actors", "Actors", [nothing])
    span = facts.end - facts.start
    slow = max(kinds[:BARS], key=lambda row: row["handle_p99_us"])
    waits = max(kinds[:BARS], key=lambda row: row["queue_p99_us"])
    return Section(
        "actors",
        "Actors",
        [
            figure(
                drawn_ranges(kinds, "name", "handle", "Handling time by actor and message"),
                f"How long handlers took, where most time went first. {slow['name']} has the"
                f" longest p99, {duration(slow['handle_p99_us'])}, over"
                f" {many(slow['messages'], 'message')}.",
            ),
            figure(
                drawn_ranges(kinds, "name", "queue", "Waiting time by actor and message"),
                f"How long messages waited in inboxes before. {waits['name']} waits longest at p99,"
                f" {duration(waits['queue_p99_us'])}; the longest was"
                f" {duration(waits['queue_max_us'])}.",
            ),
            *_inboxes(facts),
            table(
                facts.tables["actors_busiest"][:20],
                text("actor", "actor"),
                count("messages", "messages", number),
                Column("busy", lambda row: percent(row["handle_total_us"], span), is_number=True),
                *percentiles("handle"),
                count("waited at most", "queue_max_us", duration),
                caption="The busiest actors",
            ),
        ],
    )


def _inboxes(facts: Facts) -> list[Markup]:
    fullest = [row["actor"] for row in facts.tables["fullest"]]
    rows = facts.here("depths")
    cells = {
        (row["actor"], float(row["bin_us"])): row["mean_depth"]
        for row in rows
        if row["mean_depth"] >= 0.005  # noqa: PLR2004 - less would be drawn as nothing
    }
    if not cells:
        return []
    (actor, at), most = max(cells.items(), key=lambda cell: cell[1])
    drawing = heat(
        fullest,
        cells,
        facts.bin_us,
        facts.start,
        facts.end,
        "Inboxes over time",
        lambda value: f"{value:.2f} messages waiting",
    )
    return [
        figure(
            drawing,
            f"Messages that waited, on average over {duration(facts.bin_us)}: the fullest inbox was"
            f" {actor}'s at {clock(int(at))}, {most:.1f} of them.",
        )
    ]
