"""One cause and all that followed from it, as a sequence diagram in Mermaid's language.

Rule: an arrow is a message, from the actor that sent it to the one that handled it, in the order of
handling; a note is a fact. What goes round for ever, as fetching does, is not followed. What does
not fit is counted, not hidden.
"""

import json
from typing import Final, NamedTuple

from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as f

from spark.exports.facts import facts_of, messages_of
from spark.jobs.audit import NEW_TOPIC
from spark.jobs.shared import run_ends
from spark.trace import Trace
from wire.trace import LeaderElected

MOST_ARROWS: Final = 80
MOST_DEPTH: Final = 24
MOST_WIDTH: Final = 1_000  # causes looked for at once
ROUNDS: Final = ("Fetch", "Fetched", "Advanced", "FetchOver")  # each leads to the next, for ever
PRIVATE: Final = "_"  # how an actor calls what it tells itself
SAID: Final = 120  # characters of a note


class NoSuchCause(LookupError):
    """There is no message of this number in the trace. The text is one sentence for people."""


class Arrow(NamedTuple):
    """Messages of one kind, from one actor to one other, that came of the same."""

    first: Row
    source: str  # the sender, or whoever handled it if nobody here sent it
    ids: list[int]


class Chain(NamedTuple):
    """What followed from one message."""

    arrows: list[Arrow]
    facts: dict[int, list[Row]]  # by the message during which they came about
    left_out: int


def most_consequential(trace: Trace, run: str) -> int | None:
    """The message during which most leaders were elected, if any were.

    Rather not of new topics, nor while the whole cluster stops.
    """
    elected = trace.events(LeaderElected).where(f.col("run") == run)
    is_anew = f.col("reason") != NEW_TOPIC
    is_alive = f.col("time_us") < trace.value(run_ends)[run]
    by_cause = (
        elected.where(f.col("cause") != 0)
        .groupBy("cause")
        .agg(f.count_if(is_anew & is_alive).alias("anew"), f.count("*").alias("all"))
    )
    first = by_cause.orderBy(f.desc("anew"), f.desc("all"), "cause").first()
    return None if first is None else int(first["cause"])


def chain_of(trace: Trace, run: str, cause: int, *, most: int = MOST_ARROWS) -> Chain:
    """The message, all that it led to, and the facts that came about on the way."""
    messages = messages_of(trace, run).cache()
    try:
        found = _effects(messages, cause)
    finally:
        messages.unpersist()
    arrows = _arrows(sorted(found, key=lambda row: (row["time_us"], row["id"])))
    shown = [number for arrow in arrows[:most] for number in arrow.ids][:MOST_WIDTH]
    here = f.col("cause").isin(shown)
    facts: dict[int, list[Row]] = {}
    for fact in facts_of(trace, run).where(here).orderBy("time_us", "id").collect():
        facts.setdefault(fact["cause"], []).append(fact)
    return Chain(arrows[:most], facts, len(arrows[most:]))


def _arrows(messages: list[Row]) -> list[Arrow]:
    """What came of the same arrow, to the same actor, by the same name, is one arrow."""
    arrows: dict[tuple[int, str, str], Arrow] = {}
    arrow_of: dict[int, Arrow] = {}
    for row in messages:
        parent = arrow_of.get(row["cause"])
        key = (parent.ids[0] if parent else 0, row["actor"], row["message"])
        source = parent.first["actor"] if parent else row["actor"]
        arrow = arrows.setdefault(key, Arrow(row, source, []))
        arrow.ids.append(row["id"])
        arrow_of[row["id"]] = arrow
    return list(arrows.values())


def _effects(messages: DataFrame, cause: int) -> list[Row]:
    found = messages.where(f.col("id") == cause).collect()
    if not found:
        raise NoSuchCause(f"there is no message {cause} in this trace")
    edge = [cause]
    for _ in range(MOST_DEPTH):
        effects = messages.where(f.col("cause").isin(edge)).limit(MOST_WIDTH).collect()
        found += effects
        edge = [row["id"] for row in effects if row["message"] not in ROUNDS]
        if not edge:
            break
    return found


# --- the diagram ----------------------------------------------------------------------------------


def mermaid(chain: Chain) -> str:
    """The diagram's text."""
    actors = list(dict.fromkeys(arrow.first["actor"] for arrow in chain.arrows))
    short = {actor: f"a{at}" for at, actor in enumerate(actors)}
    lines = ["sequenceDiagram"]
    lines += [f"    participant {short[actor]} as {_text(actor)}" for actor in actors]
    begun_us = chain.arrows[0].first["time_us"]
    for arrow in chain.arrows:
        row, where = arrow.first, short[arrow.first["actor"]]
        times = f" × {len(arrow.ids)}" if len(arrow.ids) > 1 else ""
        at_ms = (row["time_us"] - begun_us) / 1000
        said = f"{_text(row['message'].removeprefix(PRIVATE))}{times} (+{at_ms:.1f} ms)"
        lines.append(f"    {short[arrow.source]}->>{where}: {said}")
        lines += _notes([fact for each in arrow.ids for fact in chain.facts.get(each, ())], where)
    if chain.left_out:
        lines.append(f"    Note over a0: and {chain.left_out} more")
    return "\n".join(lines) + "\n"


def _notes(facts: list[Row], where: str) -> list[str]:
    """The first of each kind in words, the others counted."""
    kinds: dict[str, list[Row]] = {}
    for fact in facts:
        kinds.setdefault(fact["kind"], []).append(fact)
    notes = []
    for kind, some in kinds.items():
        more = f" and {len(some) - 1} more" if len(some) > 1 else ""
        said = ", ".join(f"{name}={value}" for name, value in json.loads(some[0]["said"]).items())
        notes.append(f"    Note over {where}: {_text(f'{kind} {said}'[:SAID])}{more}")
    return notes


def _text(said: str) -> str:
    """What Mermaid would take for its own signs is written as a number."""
    return "".join(
        f"#{ord(sign)};" if sign in "#;<>" or not sign.isprintable() else sign for sign in said
    )
