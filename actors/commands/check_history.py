"""bin/check-history: whether what clients saw could come from a sound cluster.

Rule: it knows only the files. Exit code 0 is sound, 2 is not, 1 is a history that cannot be judged;
every anomaly is one sentence.
"""

import argparse
import os
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from actors.commands.common import many, print_json, say
from actors.commands.parser import Parser, whole
from actors.faults.history.case import Anomaly
from actors.faults.history.checker import check_history
from actors.faults.history.events import AnyEvent
from actors.faults.history.files import BadHistory, read_history
from runtime.main import INTERRUPTED
from wire.ids import TopicPartition

SOUND: Final = 0
UNSOUND: Final = 2
MOST_SHOWN: Final = 100
EPILOG: Final = """\
example: bin/check-history history.jsonl --unclean orders-0

A history has one JSON object a line, from any client of any cluster, such as:
  {"event":"sent","at_ms":1,"client":"p","id":"p-1","topic":"orders","partition":0,"value":"a"}
  {"event":"acknowledged","at_ms":4,"id":"p-1","offset":0}
  {"event":"polled","at_ms":9,"client":"c","topic":"orders","partition":0,"offset":0,"value":"a"}
  {"event":"end_seen","at_ms":9,"client":"c","topic":"orders","partition":0,"offset":1}
All events and fields are in actors/faults/history/files.py and events.py.

exit code: 0 sound, 2 anomalies, 1 a file that cannot be judged"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command."""
    given = _parser().parse_args(arguments)
    try:
        events = [event for path in given.files for event in read_history(path)]
        anomalies = check_history(
            events,
            unclean=given.unclean,
            sparse=given.sparse,
            are_duplicates_allowed=not given.no_duplicates,
        )
        _tell(events, anomalies, given)
        sys.stdout.flush()
    except BadHistory as error:
        sys.stderr.write(f"check-history: {error}\n")
        return 1
    except BrokenPipeError:  # whoever read it has enough, and still wants the verdict
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except KeyboardInterrupt:
        return INTERRUPTED
    return UNSOUND if anomalies else SOUND


def _parser() -> Parser:
    parser = Parser(
        prog="check-history",
        description="Judge what clients did and saw: lost, duplicated, reordered, phantom and stale"
        " records, offsets\nthat disagree, gaps, and commits that were forgotten.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "files", nargs="+", type=Path, metavar="FILE", help="JSON Lines; several are one history"
    )
    parser.add_argument(
        "--unclean",
        action="append",
        default=[],
        type=_partition,
        metavar="TOPIC-PARTITION",
        help="it had an unclean election, and may have lost anything; may be repeated",
    )
    parser.add_argument(
        "--sparse",
        action="append",
        default=[],
        type=_partition,
        metavar="TOPIC-PARTITION",
        help="compaction or transactions leave holes in it; may be repeated",
    )
    parser.add_argument(
        "--no-duplicates",
        action="store_true",
        help="nothing was tried again: no record may be there twice",
    )
    parser.add_argument(
        "--most",
        type=lambda text: whole(text, 0, 2**31 - 1),
        default=MOST_SHOWN,
        metavar="N",
        help=f"so many anomalies are shown; default: {MOST_SHOWN}",
    )
    parser.add_argument("--json", action="store_true", help="all of it as JSON, with the events")
    return parser


def _partition(text: str) -> TopicPartition:
    topic, _, number = text.rpartition("-")
    if not topic:
        raise argparse.ArgumentTypeError(f"{text!r} is no TOPIC-PARTITION such as orders-0")
    return TopicPartition(topic, whole(number, 0, 2**31 - 1))


def _tell(
    events: Sequence[AnyEvent], anomalies: Sequence[Anomaly], given: argparse.Namespace
) -> None:
    if given.json:
        print_json({"events": len(events), "is_sound": not anomalies, "anomalies": list(anomalies)})
        return
    say(many(len(events), "event"))
    for each in anomalies[: given.most]:
        say(f"{each.kind}: {each.sentence}")
    if len(anomalies) > given.most:
        say(f"and {len(anomalies) - given.most} more, which --most or --json show")
    if anomalies:
        counts = Counter(each.kind for each in anomalies)
        say("not sound: " + ", ".join(f"{count} {kind}" for kind, count in counts.items()))
    else:
        say("sound")


if __name__ == "__main__":
    sys.exit(main())
