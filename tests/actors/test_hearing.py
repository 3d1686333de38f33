"""Other processes are asked once for the events that they do not tell of anyhow."""

from actors.hearing import Hearing
from actors.story import TELLERS
from wire.trace import LeaderElected, RecordsAppended, Stamp

STAMP = Stamp(1, 2, "broker-1", 0)
APPENDED = RecordsAppended("orders", 0, "leader", 1, 0, 4)


def test_a_kind_is_asked_for_once_and_only_if_nobody_tells_of_it_anyhow():
    asked: list[str] = []
    hearing = Hearing(asked.append)

    for _ in range(2):
        hearing.watch([LeaderElected, RecordsAppended], lambda *_: None)

    assert LeaderElected in TELLERS
    assert asked == list(hearing.asked) == ["RecordsAppended"]


def test_who_has_stopped_hears_no_more_and_others_do():
    hearing, heard = Hearing(lambda _: None), []
    stop = hearing.watch([RecordsAppended], lambda *_: heard.append("one"))
    hearing.watch([RecordsAppended], lambda *_: heard.append("other"))

    hearing.hear(STAMP, APPENDED)
    stop()
    hearing.hear(STAMP, APPENDED)

    assert heard == ["one", "other", "other"]
