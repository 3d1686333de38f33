"""Judges a history: what clients did and saw, by nothing else.

Rule: a sound cluster is never blamed, whatever its clients' histories leave out. Every kind of
anomaly is a row of KINDS. The time taken grows with the number of events, not with its square.
"""

from collections.abc import Collection, Iterable
from typing import Final

from actors.faults.history.case import Allowed, Anomaly, Case
from actors.faults.history.commits import CommitLost
from actors.faults.history.events import AnyEvent
from actors.faults.history.kinds import (
    Duplicated,
    Gap,
    Kind,
    Lost,
    OffsetsDisagree,
    Phantom,
    ReadAgain,
    Reordered,
    StaleRead,
)
from actors.faults.history.story import Story
from wire.ids import TopicPartition

KINDS: Final[tuple[Kind, ...]] = (
    Lost(),
    Duplicated(),
    Reordered(),
    Phantom(),
    StaleRead(),
    OffsetsDisagree(),
    Gap(),
    ReadAgain(),
    CommitLost(),
)


def check_history(
    events: Iterable[AnyEvent],
    *,
    unclean: Collection[TopicPartition] = (),
    sparse: Collection[TopicPartition] = (),
    are_duplicates_allowed: bool = True,
) -> list[Anomaly]:
    """All that a sound cluster would not have shown; BadHistory if it makes no sense.

    `unclean` partitions may have forgotten anything (an unclean election); `sparse` ones may have
    holes (compaction, transactions). Without `are_duplicates_allowed`, producers that are not
    idempotent must not write twice either: say so if nothing was ever tried again.
    """
    allowed = Allowed(frozenset(unclean), frozenset(sparse), are_duplicates_allowed)
    case = Case(Story(events), allowed)
    return [anomaly for kind in KINDS for anomaly in kind.judge(case)]
