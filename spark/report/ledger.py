"""The sections for those who look closer: state machines, ZooKeeper, the audit, the trace itself.

Rule: a section without events says so, in a sentence, and shows nothing else.
"""

from collections.abc import Sequence

from spark.jobs.audit import CHECKS
from spark.report.facts import Facts, Row
from spark.report.markup import Markup, tag
from spark.report.section import Column, Section, count, figure, hidden, paragraph, table, text
from spark.report.words import clock, duration, many, number
from spark.report.workings import drawn_ranges, percentiles


def states(facts: Facts) -> Section:
    """Both matrices, and what was refused."""
    content: list[Markup] = []
    for machine in ("partition", "replica"):
        rows = [row for row in facts.here("states") if row["machine"] == machine]
        if rows:
            most = max(rows, key=lambda row: row["changes"])
            refused = sum(row["refused"] for row in rows)
            content.append(
                figure(
                    _matrix(rows),
                    f"How often a {machine} went from the state on the left to the one above:"
                    f" {number(sum(row['changes'] for row in rows))} changes, most from"
                    f" {most['before']} to {most['after']} ({number(most['changes'])});"
                    f" {number(refused)} refused.",
                )
            )
    if not content:
        content = [paragraph("No state was changed in this trace.")]
    refusals = facts.tables["states_refused"]
    if refusals:
        content.append(
            table(
                refusals,
                text("machine", "machine"),
                text("from", "before"),
                text("wanted", "wanted"),
                count("times", "times", number),
                Column("while handling", lambda row: row["message"] or "a message not recorded"),
                Column("first of", lambda row: f"{row['topic']}-{row['partition']}"),
                caption="Refused changes, with what the controller was doing",
            )
        )
    return Section("states", "State machines", content)


def _matrix(rows: Sequence[Row]) -> Markup:
    befores = sorted({row["before"] for row in rows})
    afters = sorted({row["after"] for row in rows})
    by_pair = {(row["before"], row["after"]): row for row in rows}
    most = max(row["changes"] for row in rows) or 1
    head = tag("tr", tag("th", "from \\ to"), [tag("th", each) for each in afters])
    body = []
    for before in befores:
        cells = []
        for after in afters:
            row = by_pair.get((before, after))
            if row is None:
                cells.append(tag("td", "·", class_="number"))
                continue
            words = number(row["changes"])
            if row["refused"]:
                words += f" ({number(row['refused'])} refused)"
            share = f"--share: {row['changes'] / most:.3f}"
            cells.append(tag("td", words, class_="number cell", style=share))
        body.append(tag("tr", tag("th", before, scope="row"), cells))
    inner = tag("table", tag("thead", head), tag("tbody", body), class_="grid")
    return tag("div", inner, class_="scroll")


def zookeeper(facts: Facts) -> Section:
    """Operations, batches, watches, sessions."""
    operations = [
        {**row, "name": f"{row['operation']} {row['outcome']}"} for row in facts.tables["zookeeper"]
    ]
    if not operations:
        nothing = paragraph("No operation of ZooKeeper was recorded.")
        return Section("zookeeper", "ZooKeeper", [nothing])
    slow = max(operations, key=lambda row: row["latency_p99_us"])
    lost = sum(row["expired"] for row in facts.tables["zookeeper_sessions"])
    largest = max(operations, key=lambda row: row["batch_max"])
    return Section(
        "zookeeper",
        "ZooKeeper",
        [
            figure(
                drawn_ranges(operations, "name", "latency", "Latency of ZooKeeper's operations"),
                f"{number(sum(row['operations'] for row in operations))} operations;"
                f" “{slow['name']}” has the longest p99, {duration(slow['latency_p99_us'])}."
                f" The largest batch was a {largest['operation']} of {number(largest['batch_max'])}"
                f" znodes. {many(lost, 'session')} expired.",
            ),
            table(
                operations,
                text("operation", "operation"),
                text("outcome", "outcome"),
                count("times", "operations", number),
                count("znodes", "znodes", number),
                count("a batch", "batch_mean", number),
                count("largest", "batch_max", number),
                *percentiles("latency"),
            ),
            hidden(
                "Watches and sessions",
                table(
                    facts.tables["zookeeper_watches"],
                    text("path", "path"),
                    text("change", "change"),
                    count("times", "times", number),
                    count("nodes", "nodes", number),
                    caption="Watches that went off",
                ),
                table(
                    facts.tables["zookeeper_sessions"],
                    text("node", "node"),
                    *(
                        count(each, each, number)
                        for each in ("connected", "suspended", "expired", "closed")
                    ),
                    caption="Sessions",
                ),
            ),
        ],
    )


def audit(facts: Facts) -> Section:
    """What was promised and broken, with the events."""
    findings = facts.tables["audit"]
    if not findings:
        words = f"{len(CHECKS)} promises of the control plane were checked, and none was broken."
        return Section("audit", "Audit", [paragraph(words)])
    return Section(
        "audit",
        "Audit",
        [
            paragraph(
                *(
                    f"“{row['invariant']}” is broken {many(row['findings'], 'time')}. "
                    for row in facts.totals["audit"]
                )
            ),
            table(
                findings,
                text("promise", "invariant"),
                Column("at (UTC)", lambda row: clock(row["time_us"])),
                text("node", "node"),
                Column(
                    "partition",
                    lambda row: (
                        "-" if row["topic"] is None else f"{row['topic']}-{row['partition']}"
                    ),
                ),
                text("what", "detail"),
                count("event", "id", str),
            ),
        ],
    )


def source(facts: Facts) -> Section:
    """Where all of this is from, and what could not be read."""
    counts = sorted(facts.counts.items(), key=lambda each: -each[1])
    rows: list[Row] = [{"event": event, "count": each} for event, each in counts]
    complaints = [paragraph(each) for each in facts.complaints[:20]]
    fine = [paragraph("Every part could be read.")]
    return Section(
        "trace",
        "The trace itself",
        [
            *(complaints or fine),
            hidden(
                f"{many(facts.events, 'event')} of {many(len(rows), 'kind')}",
                table(rows, text("event", "event"), count("count", "count", number)),
            ),
        ],
    )
