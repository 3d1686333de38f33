"""The ten lines that a person wants first; the page begins with the same.

Rule: each line is a whole sentence about this run, with its own numbers.
"""

from spark.jobs.audit import CHECKS
from spark.jobs.availability import LEADERLESS, UNDER_REPLICATED
from spark.report.facts import Facts, Row
from spark.report.words import (
    clock,
    date_and_clock,
    duration,
    listed,
    many,
    number,
    percent,
    size,
)

INCIDENTS_SHOWN = 5
REIGNS_SHOWN = 3


def lines(facts: Facts) -> list[str]:
    """At most ten."""
    return [
        _what_it_is(facts),
        _what_went_wrong(facts),
        *_incidents(facts),
        _gaps(facts, LEADERLESS, "without a leader"),
        _gaps(facts, UNDER_REPLICATED, "under-replicated"),
        _controllers(facts),
        _requests(facts),
        _actors(facts),
        _audit(facts),
    ]


def _what_it_is(facts: Facts) -> str:
    first = min(start for start, _ in facts.spans.values())
    last = max(end for _, end in facts.spans.values())
    lasted = sum(end - start for start, end in facts.spans.values())
    return (
        f"{many(len(facts.runs), 'run')} of {duration(lasted)}, from {date_and_clock(first)}"
        f" to {clock(last, exact=False)} UTC:{'' if facts.is_whole else ' the end of'}"
        f" {many(facts.events, 'event')} in {many(facts.parts, 'part')} ({size(facts.bytes)})."
    )


def _what_went_wrong(facts: Facts) -> str:
    count = sum(row["incidents"] for row in facts.totals["incidents"])
    if not count:
        return "Nothing went wrong: no fault, no crash, no lost session."
    shown = facts.tables["failover_budget"][:INCIDENTS_SHOWN]
    said = [f"{incident_name(row)} at {clock(row['time_us'])}" for row in shown]
    more = f" and {number(count - len(shown))} more" if count > len(shown) else ""
    return f"{many(count, 'incident')}: {', '.join(said)}{more}."


def _incidents(facts: Facts) -> list[str]:
    """The worst of them: who was without a leader for longest, and what was never mended."""
    told = [
        row
        for row in facts.tables["failover_budget"]
        if row["reacted_us"] or row["leaderless"] or row["still_under_replicated"]
    ]
    worst = sorted(told, key=lambda row: -(row["leaderless_longest_us"] or 0))
    still = [row for row in worst if row["still_leaderless"] or row["still_under_replicated"]]
    first = worst[:1]
    chosen = first + [row for row in (*still, *worst) if row not in first][:1]
    return [incident(row) for row in sorted(chosen, key=lambda row: (row["run"], row["incident"]))]


def incident_name(row: Row) -> str:
    """#2 kill broker-1."""
    other = f" {row['detail']}" if row["detail"] else ""
    return f"#{row['incident']} {row['what']} {row['target']}{other}".rstrip()


def incident(row: Row) -> str:
    """What came of one, in a sentence."""
    begin = row["time_us"]
    said = []
    if row["reacted_us"] is None:
        said.append("no controller had to react")
    else:
        said.append(f"{row['reaction']} after {duration(row['reacted_us'] - begin)}")
    if row["elections"]:
        until = row["serving_us"] or row["elected_us"]
        said.append(
            f"{many(row['elections'], 'leader')} elected and in place"
            f" after {duration(until - begin)}"
        )
    if row["first_produce_us"]:
        said.append(
            f"first produce to one of them after {duration(row['first_produce_us'] - begin)}"
        )
    said += _out(row, "leaderless", "without a leader")
    said += _out(row, "under_replicated", "under-replicated")
    if row["unclean"]:
        said.append(f"{many(row['unclean'], 'election')} unclean: records may be lost")
    if row["mended_us"]:
        said.append(f"mended after {duration(row['mended_us'] - begin)}")
    return f"{incident_name(row)}: {', '.join(said)}."


def _out(row: Row, kind: str, words: str) -> list[str]:
    """The partitions that were out because of it."""
    if not row[kind]:
        return []
    still = ", some of them to the end" if row[f"still_{kind}"] else ""
    longest = duration(row[f"{kind}_longest_us"])
    return [f"{many(row[kind], 'partition')} {words}, at most for {longest}{still}"]


def _gaps(facts: Facts, kind: str, words: str) -> str:
    total = facts.total(kind)
    if not total["windows"]:
        return f"No partition was {words}, of {many(facts.partitions, 'partition')}."
    still = f"; {number(total['open'])} still were in the end" if total["open"] else ""
    return (
        f"{number(total['partitions'])} of {many(facts.partitions, 'partition')} were {words},"
        f" {duration(total['total_us'])} in all, at most {duration(total['longest_us'])}"
        f" ({total['where']}){still}."
    )


def _controllers(facts: Facts) -> str:
    reigns = facts.tables["controller"]
    if not reigns:
        return "No controller was elected in this trace."
    said = [
        f"broker {row['broker']} for {duration(row['life_us'])} ({row['ended_by']})"
        for row in reigns[:REIGNS_SHOWN]
    ]
    (all_of_them,) = facts.totals["reigns"]
    count = all_of_them["reigns"]
    more = f" and {number(count - len(said))} more" if count > len(said) else ""
    said_of_them = ", ".join(said) if more else listed(said)
    return (
        f"{many(count, 'controller epoch')}: {said_of_them}{more};"
        f" taking office took at most {duration(all_of_them['failover_us'] or 0)}."
    )


def _requests(facts: Facts) -> str:
    kinds = facts.tables["request_kinds"]
    (all_of_them,) = facts.totals["calls"]
    calls, errors = all_of_them["calls"], all_of_them["errors"]
    if not calls:
        return "No call between nodes was recorded."
    said = [
        f"{row['request']} p99 {duration(row['latency_p99_us'])}"
        for row in kinds
        if row["request"] in ("Produce", "LeaderAndIsr")
    ]
    return (
        f"{many(calls, 'request')}, {number(errors)} of them failed ({percent(errors, calls)})"
        f"{_refused(facts)}{'; ' + ', '.join(said) + _where(facts) if said else ''}."
    )


def _where(facts: Facts) -> str:
    """Where there are several runs, percentiles are those of one."""
    return f" in run {facts.run}" if len(facts.runs) > 1 else ""


def _refused(facts: Facts) -> str:
    """Answers with an error code."""
    rows = facts.totals["refusals"]
    if not rows:
        return ""
    most = max(rows, key=lambda row: (row["answers"], row["error"]))
    answers = sum(row["answers"] for row in rows)
    return f", {number(answers)} were answered with an error code (mostly {most['error']})"


def _actors(facts: Facts) -> str:
    busiest = facts.tables["actors_busiest"]
    if not busiest:
        return "No handled message was recorded."
    first, span = busiest[0], facts.end - facts.start
    messages = sum(row["messages"] for row in facts.totals["messages"])
    longest = max(busiest, key=lambda row: row["queue_max_us"])
    return (
        f"{many(messages, 'message')} handled; busiest{_where(facts)} was"
        f" {first['actor']}, {percent(first['handle_total_us'], span)} of the time;"
        f" the longest wait in an inbox was {duration(longest['queue_max_us'])}"
        f" ({longest['actor']})."
    )


def _audit(facts: Facts) -> str:
    findings = sum(row["findings"] for row in facts.totals["audit"])
    if not findings:
        return f"Audit: {len(CHECKS)} promises of the control plane checked, none broken."
    said = [f"{row['invariant']} ({number(row['findings'])})" for row in facts.totals["audit"]]
    return f"AUDIT: {many(findings, 'broken promise')}: {', '.join(said)}."
