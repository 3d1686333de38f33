"""What a leader knows of its followers, without any world: B158 to B161."""

from random import Random

import pytest

from actors.broker.log.config import LogConfig
from actors.broker.log.log import Log
from actors.broker.partition import HostedPartition
from actors.broker.replica import LONG_AGO_MS, Follower, Line, Replica
from actors.broker.settings import Throttled, TopicSettings
from runtime.simulation.disk import SimulatedDisk
from tests.support.data import batch_of
from tests.support.orders import order
from wire.ids import BrokerId, LeaderEpoch, Offset, PartitionEpoch, TopicPartition

ORDERS = TopicPartition("orders", 0)
LAG_MS = 10_000


class Asking:
    """A follower's line, by a clock moved by hand."""

    def __init__(self, follower: Follower) -> None:
        self.follower, self.line = follower, Line()

    def names(self, offset: int, end: int, now_ms: float) -> None:
        self.line.ask(now_ms)
        self.follower.asked(Offset(offset), Offset(0), Offset(end), self.line)

    def is_idle(self, now_ms: float) -> None:
        self.line.ask(now_ms)


# --- B158: when it last had all ------------------------------------------------------------------


@pytest.mark.behaviour("B158")
def test_who_asks_for_the_end_has_all_at_that_moment():
    follower = Follower.unheard(LONG_AGO_MS)

    Asking(follower).names(5, end=5, now_ms=100)

    assert (follower.log_end_offset, follower.caught_up_ms(Offset(5))) == (5, 100)


@pytest.mark.behaviour("B158")
def test_who_asks_for_what_was_the_end_when_it_last_asked_had_all_then():
    follower = Follower.unheard(LONG_AGO_MS)
    asking = Asking(follower)
    asking.names(0, end=5, now_ms=100)
    assert follower.caught_up_ms(Offset(5)) == LONG_AGO_MS

    asking.names(5, end=9, now_ms=200)  # never at the end, and never long behind it

    assert follower.caught_up_ms(Offset(9)) == 100


@pytest.mark.behaviour("B158")
def test_who_asks_for_less_than_the_end_of_its_last_time_had_all_no_later_than_before():
    follower = Follower.unheard(50)
    asking = Asking(follower)
    asking.names(0, end=5, now_ms=100)

    asking.names(4, end=5, now_ms=200)

    assert follower.caught_up_ms(Offset(5)) == 50


@pytest.mark.behaviour("B158")
def test_a_session_that_says_nothing_new_asks_at_the_end_all_the_same():
    follower = Follower.unheard(LONG_AGO_MS)
    asking = Asking(follower)
    asking.names(5, end=5, now_ms=100)

    asking.is_idle(700)

    assert follower.caught_up_ms(Offset(5)) == 700


@pytest.mark.behaviour("B158")
def test_idle_requests_after_an_append_do_not_say_that_the_follower_has_it():
    follower = Follower.unheard(LONG_AGO_MS)
    asking = Asking(follower)
    asking.names(5, end=5, now_ms=100)
    asking.is_idle(700)
    follower.note(Offset(5))  # the leader appends, to 6

    asking.is_idle(900)
    asking.is_idle(1_100)

    assert follower.caught_up_ms(Offset(6)) == 700


@pytest.mark.behaviour("B158")
def test_another_line_does_not_speak_for_a_follower_that_has_left_it():
    follower = Follower.unheard(LONG_AGO_MS)
    former, present = Asking(follower), Asking(follower)
    former.names(5, end=5, now_ms=100)
    present.names(5, end=5, now_ms=200)

    former.is_idle(900)

    assert follower.caught_up_ms(Offset(5)) == 200


class EagerFollower:
    """Kafka's Replica.updateFetchState, told of each request, named or not."""

    def __init__(self) -> None:
        self.caught_up_ms = LONG_AGO_MS
        self.asked_ms, self.end_when_asked = LONG_AGO_MS, -1

    def asked(self, offset: int, end: int, now_ms: float) -> None:
        if offset >= end:
            self.caught_up_ms = max(self.caught_up_ms, now_ms)
        elif offset >= self.end_when_asked >= 0:
            self.caught_up_ms = max(self.caught_up_ms, self.asked_ms)
        self.asked_ms, self.end_when_asked = now_ms, end


@pytest.mark.behaviour("B158")
@pytest.mark.parametrize("seed", range(40))
def test_what_is_worked_out_late_is_what_kafka_works_out_at_each_request(seed):
    dice = Random(seed)
    follower, eager = Follower.unheard(LONG_AGO_MS), EagerFollower()
    asking, offset, end, now_ms = Asking(follower), 0, 0, 0.0
    asking.names(offset, end, now_ms)
    eager.asked(offset, end, now_ms)

    for _ in range(300):
        now_ms += dice.choice([1, 10, 500])
        match dice.randrange(5):
            case 0:
                follower.note(Offset(end))
                end += dice.randint(1, 3)
            case 1:
                offset = dice.randint(offset, end)
                asking.names(offset, end, now_ms)
                eager.asked(offset, end, now_ms)
            case 2 | 3:
                asking.is_idle(now_ms)
                eager.asked(offset, end, now_ms)
            case 4:
                assert follower.caught_up_ms(Offset(end)) == eager.caught_up_ms
    assert follower.caught_up_ms(Offset(end)) == eager.caught_up_ms


# --- a replica that leads ------------------------------------------------------------------------


def leader(*isr: int, records: int = 0, min_insync_replicas: int = 1, **fields: object) -> Replica:
    """Broker 1's replica of orders, which it leads since time 0 with brokers 2 and 3."""
    disk = SimulatedDisk(Random(1))
    log = Log.open(disk, "orders-0", LogConfig(), now_ms=0, is_clean=True)
    entry = order(ORDERS, 1, 4, isr=isr, **fields)
    hosted = HostedPartition.of(entry, BrokerId(1))
    replica = Replica(hosted, log, Offset(0), lambda _: log)
    replica.settings = TopicSettings(LogConfig(), min_insync_replicas, Throttled(), Throttled())
    replica.become_leader(hosted, now_ms=0)
    append(replica, records)
    return replica


def append(replica: Replica, records: int) -> None:
    for number in range(records):
        replica.append(batch_of(b"%d" % number), now_ms=0)


def ask(replica: Replica, broker: int, offset: int, now_ms: float) -> Asking:
    asking = Asking(replica.followers[BrokerId(broker)])
    asking.names(offset, replica.log_end_offset, now_ms)
    return asking


@pytest.mark.behaviour("B159")
def test_a_member_that_lacks_records_is_lagging_when_it_has_not_had_all_for_too_long():
    replica = leader(1, 2, 3, records=1)
    ask(replica, 2, 1, now_ms=0)
    ask(replica, 3, 0, now_ms=5_000)

    assert replica.lagging(LAG_MS, LAG_MS) == ()
    assert replica.lagging(LAG_MS + 1, LAG_MS) == (3,)


def test_a_member_that_is_not_assigned_any_more_counts_until_it_is_out():
    """Should the controller die before it has taken it out, the move is undone and it may lead."""
    replica = leader(1, 2, 3, records=1, replicas=(1, 2))
    ask(replica, 2, 1, now_ms=0)

    assert replica.reached(LAG_MS + 1, LAG_MS) < 1
    assert replica.lagging(LAG_MS + 1, LAG_MS) == (3,)
    ask(replica, 3, 1, now_ms=LAG_MS + 1)
    assert replica.reached(LAG_MS + 1, LAG_MS) == 1
    replica.hosted = replica.hosted.with_isr((BrokerId(1), BrokerId(2)), PartitionEpoch(1))
    assert not replica.may_join(BrokerId(3))


@pytest.mark.behaviour("B159")
def test_a_member_with_all_records_does_not_lag_however_long_it_is_silent():
    replica = leader(1, 2, records=1)
    ask(replica, 2, 1, now_ms=0)

    assert replica.lagging(1e9, LAG_MS) == ()


@pytest.mark.behaviour("B159")
def test_a_silent_member_lags_as_soon_as_there_is_a_record_that_it_lacks():
    replica = leader(1, 2, records=1)
    ask(replica, 2, 1, now_ms=0).is_idle(3_000)

    append(replica, 1)

    assert replica.lagging(3_000 + LAG_MS, LAG_MS) == ()
    assert replica.lagging(3_001 + LAG_MS, LAG_MS) == (2,)


@pytest.mark.behaviour("B159")
def test_a_member_that_never_asked_lags_even_behind_an_empty_log():
    replica = leader(1, 2)

    assert replica.lagging(LAG_MS, LAG_MS) == ()
    assert replica.lagging(LAG_MS + 1, LAG_MS) == (2,)


@pytest.mark.behaviour("B159")
def test_a_member_that_is_never_quite_at_the_end_does_not_lag():
    replica = leader(1, 2, records=1)
    asking = ask(replica, 2, 0, now_ms=0)

    for step in range(1, 100):
        append(replica, 1)
        asking.names(step, replica.log_end_offset, now_ms=step * 1_000)
        assert replica.lagging(step * 1_000, LAG_MS) == ()


@pytest.mark.behaviour("B160")
@pytest.mark.parametrize(("offset", "may"), [(2, False), (3, True), (4, True)])
def test_a_follower_joins_from_the_high_watermark_on(offset, may):
    replica = leader(1, records=4)
    replica.high_watermark = Offset(3)

    ask(replica, 2, offset, now_ms=0)

    assert replica.may_join(BrokerId(2)) is may


@pytest.mark.behaviour("B160")
@pytest.mark.parametrize(("offset", "may"), [(3, False), (4, True)])
def test_a_follower_joins_from_the_start_of_the_leaders_epoch_on(offset, may):
    replica = leader(1, records=4)
    replica.high_watermark = Offset(2)  # the former leader may have been further
    replica.become_leader(replica.hosted, now_ms=0)

    ask(replica, 2, offset, now_ms=0)

    assert replica.epoch_start_offset == 4
    assert replica.may_join(BrokerId(2)) is may


@pytest.mark.behaviour("B160")
def test_nobody_joins_who_is_a_member_no_replica_or_has_not_asked():
    replica = leader(1, 2)
    ask(replica, 2, 0, now_ms=0)

    assert [replica.may_join(BrokerId(each)) for each in (1, 2, 3, 4)] == [False] * 4


@pytest.mark.behaviour("B161")
def test_the_slowest_member_says_how_far_all_are():
    replica = leader(1, 2, 3, records=5)
    ask(replica, 2, 5, now_ms=0)
    assert replica.reached(0, LAG_MS) == -1  # who has not asked is not known

    ask(replica, 3, 2, now_ms=0)

    assert replica.reached(0, LAG_MS) == 2


@pytest.mark.behaviour("B161")
def test_one_outside_counts_while_it_had_all_not_long_ago():
    replica = leader(1, records=1)
    ask(replica, 2, 1, now_ms=500)
    append(replica, 4)

    assert replica.reached(500 + LAG_MS, LAG_MS) == 1
    assert replica.reached(501 + LAG_MS, LAG_MS) == 5


@pytest.mark.behaviour("B161")
@pytest.mark.parametrize("pending", [(1, 2), (1, 2, 3), (1,)])
def test_while_zookeeper_has_not_answered_the_old_and_the_new_members_count(pending):
    replica = leader(1, 3, records=5)
    ask(replica, 2, 2, now_ms=0)
    ask(replica, 3, 3, now_ms=0)

    replica.pending_isr = tuple(map(BrokerId, pending))

    assert replica.reached(1e9, LAG_MS) == (2 if 2 in pending else 3)


@pytest.mark.behaviour("B161")
@pytest.mark.parametrize(
    ("isr", "needed", "is_under"),
    [((1, 2), 2, False), ((1,), 2, True), ((1, 2), 3, True), ((1, 2, 3), 9, False)],
)
def test_too_few_in_sync_is_fewer_than_asked_for_but_never_more_than_there_are(
    isr, needed, is_under
):
    assert leader(*isr, min_insync_replicas=needed).is_under_min_isr is is_under


@pytest.mark.behaviour("B161")
def test_a_new_reign_knows_nothing_of_what_followers_had_in_the_former():
    replica = leader(1, 2, 3, records=2)
    ask(replica, 2, 2, now_ms=0)
    replica.pending_isr, replica.doubtful = (BrokerId(1),), (BrokerId(3),)

    replica.become_leader(
        HostedPartition.of(order(ORDERS, 1, 5, isr=(1, 2)), BrokerId(1)), now_ms=7_000
    )

    assert (replica.pending_isr, replica.doubtful, replica.leader_epoch) == (None, (), 5)
    assert replica.reached(7_000, LAG_MS) == -1
    assert replica.lagging(7_000 + LAG_MS, LAG_MS) == ()
    assert replica.opened().epochs.latest_epoch == LeaderEpoch(5)
