"""Every invariant is silent on a sound run, whatever fails in it, and fires when it is broken."""

from collections.abc import Awaitable, Callable

import pytest
from msgspec.structs import replace

from actors.broker import serving
from actors.broker.purgatory import Purgatory
from actors.cluster import SimulatedCluster
from actors.faults.answers import CommittedOffsetsAreNotLost, OneAnswerARequest
from actors.faults.files import IndexesAreTrue
from actors.faults.groups import OneAssignmentAGeneration, OneReaderAGeneration
from actors.faults.invariant import Exchange, Invariant
from actors.faults.invariants import data_plane
from actors.faults.leadership import OneLeaderAppendsPerEpoch, ZombiesCannotCommit
from actors.faults.matching import LogsAreContiguous, LogsMatch
from actors.faults.promises import CommittedIsNeverLost, VisibleIsNeverLost
from actors.faults.violation import Violation
from actors.faults.watched import Watched
from actors.faults.watermarks import HighWatermarksAreSound
from runtime.simulation.simulator import Simulator
from tests.actors.faults.planted import Planted
from tests.simulation.mutations.schedules import enact, leads_a_namesake
from tests.support.data import produce
from tests.support.drive import Drive
from wire.control import StopReplica, StopReplicaPartition, StopReplicaResponse
from wire.data import (
    Fetch,
    FetchPartition,
    FetchResponse,
    Produce,
    ProducePartition,
    ProduceResponse,
    ProduceResult,
)
from wire.errors import ErrorCode
from wire.frame import Frame, FrameKind
from wire.groups import (
    FindCoordinator,
    FindCoordinatorResponse,
    OffsetCommit,
    OffsetCommitPartition,
    OffsetCommitResponse,
    OffsetFetch,
    OffsetFetchResponse,
    OffsetFetchResult,
)
from wire.ids import (
    UNKNOWN_BROKER_EPOCH,
    BrokerId,
    ControllerEpoch,
    LeaderEpoch,
    Offset,
    PartitionEpoch,
    TopicPartition,
)
from wire.message import PartitionResult
from wire.records import Record, assign, encode_batch
from wire.trace import (
    HighWatermarkMoved,
    IsrChanged,
    LeaderElected,
    NodeStopped,
    RecordsAppended,
    ReplicaRoleChanged,
)

ORDERS = TopicPartition("orders", 0)
ALL: tuple[type[Invariant], ...] = (
    CommittedIsNeverLost,
    LogsMatch,
    HighWatermarksAreSound,
    VisibleIsNeverLost,
    OneLeaderAppendsPerEpoch,
    ZombiesCannotCommit,
    LogsAreContiguous,
    IndexesAreTrue,
    OneAnswerARequest,
    CommittedOffsetsAreNotLost,
)


class Scene:
    """Three brokers with three records, watched by one invariant."""

    def __init__(self, drive: Drive, watched: Watched) -> None:
        self.drive = drive
        self.watched = watched

    @classmethod
    async def set(cls, sim: Simulator, invariant: Invariant) -> "Scene":
        overrides = {"min_insync_replicas": 2, "log_index_interval_bytes": 0}
        drive = Drive(sim, SimulatedCluster(sim, brokers=3, overrides=overrides))
        watched = Watched(sim, drive.cluster, (invariant,))
        await drive.keeper.start()
        for broker in drive.cluster.brokers:
            await drive.cluster.start_broker(broker)
            await sim.settle()
        await drive.create("orders", [1, 2, 3])
        scene = cls(drive, watched)
        for value in (b"one", b"two", b"three"):
            await scene.produce(1, value)
        await scene.consume(1)
        await drive.settle()
        watched.raise_if_violated()
        return scene

    async def produce(self, broker: int, value: bytes, *, acks: int = -1) -> None:
        records = (ProducePartition(ORDERS, memoryview(batch_of(value))),)
        request = Produce(acks=acks, timeout_ms=5_000, partitions=records)
        response = await self.drive.ask(broker, request, ProduceResponse)
        assert response.partitions[0].error_code is ErrorCode.NONE

    async def consume(self, broker: int) -> None:
        wanted = FetchPartition(partition=ORDERS, fetch_offset=Offset(0), max_bytes=1 << 20)
        request = Fetch(max_wait_ms=0, min_bytes=1, max_bytes=1 << 20, partitions=(wanted,))
        await self.drive.ask(broker, request, FetchResponse)

    def replica(self, broker: int):
        return self.drive.replica(broker, "orders")

    def check(self) -> None:
        self.watched.invariants.check()
        self.watched.raise_if_violated()


def batch_of(value: bytes) -> bytes:
    return encode_batch([Record(offset=Offset(0), timestamp_ms=1, value=value)])


def stored(value: bytes, offset: int, epoch: int = 0) -> bytearray:
    """A batch as a leader stores it."""
    data = bytearray(batch_of(value))
    assign(data, base_offset=Offset(offset), leader_epoch=LeaderEpoch(epoch))
    return data


@pytest.fixture
def scene_of(sim: Simulator) -> Callable[[Invariant], Awaitable[Scene]]:
    return lambda invariant: Scene.set(sim, invariant)


def test_a_topic_and_its_namesake_share_nothing():
    """A broker leads the one that is gone until it hears of that, beside the leader of the other.

    That what is of one topic must agree is shown by what is planted below, and by
    `python -m tests.simulation.mutations --only namesakes`.
    """
    enact(leads_a_namesake)


def test_there_is_one_for_each_number():
    numbers = [int(each.name.removeprefix("I-")) for each in data_plane()]

    assert sorted(numbers) == [7, 8, *range(18, 28)]
    of_groups = (OneAssignmentAGeneration, OneReaderAGeneration)  # test_group_invariants.py
    assert tuple(map(type, data_plane())) == (*ALL, *of_groups)


# --- silence --------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ALL, ids=lambda kind: kind.__name__)
async def test_it_is_silent_while_leaders_die_and_come_back(sim, scene_of, kind):
    scene = await scene_of(kind())

    await scene.drive.kill(1)
    await scene.produce(2, b"four")
    await scene.consume(2)
    await scene.drive.restart(1)
    sim.pause("broker-2")
    await sim.sleep(10_000)
    sim.resume("broker-2")
    await scene.drive.settle()
    await scene.produce(scene.drive.state("orders").leader, b"five")
    await scene.drive.settle()

    scene.watched.invariants.check_in_the_end()
    scene.watched.raise_if_violated()
    assert scene.watched.steps > 100


# --- what was promised ----------------------------------------------------------------------------


@pytest.mark.behaviour("I-7", "I-19")
@pytest.mark.parametrize("kind", [CommittedIsNeverLost, VisibleIsNeverLost])
async def test_a_leader_without_a_promised_record_is_found(scene_of, kind):
    scene = await scene_of(kind())

    scene.replica(1).log.truncate_to(Offset(2))

    with pytest.raises(Violation, match=f"{kind.name} orders-0 on 1, 1 at 2, 2") as found:
        scene.check()
    assert (found.value.partition, found.value.offsets) == (ORDERS, (2, 2))


@pytest.mark.behaviour("I-7", "I-19")
@pytest.mark.parametrize("kind", [CommittedIsNeverLost, VisibleIsNeverLost])
async def test_another_record_at_the_offset_of_a_promised_one_is_found(scene_of, kind):
    scene = await scene_of(kind())

    scene.replica(1).log.truncate_to(Offset(2))
    scene.replica(1).log.append_as_follower(stored(b"another", 2), now_ms=0)

    with pytest.raises(Violation, match=kind.name):
        scene.check()


@pytest.mark.behaviour("I-7")
async def test_an_acknowledgement_before_the_others_have_the_record_is_found(scene_of, monkeypatch):
    scene = await scene_of(CommittedIsNeverLost())

    def answer_at_once(self, waiting):
        waiting.timer.cancel()
        waiting.answer(tuple(waiting.results.values()))

    monkeypatch.setattr(Purgatory, "wait", answer_at_once)
    await scene.produce(1, b"four")

    with pytest.raises(Violation, match="I-7 orders-0 on 1 at 3: acknowledged in epoch 0 beyond"):
        scene.check()


@pytest.mark.behaviour("I-19")
async def test_a_consumer_that_is_shown_what_is_not_committed_is_found(scene_of, monkeypatch):
    scene = await scene_of(VisibleIsNeverLost())
    read = serving._records

    def read_all(replica, offset, limit, bound, *, is_first):
        return read(replica, offset, limit, None, is_first=is_first)

    for broker in (2, 3):
        scene.drive.sim.cut("broker-1", f"broker-{broker}")
    await scene.produce(1, b"four", acks=1)
    await scene.consume(1)
    scene.check()
    monkeypatch.setattr(serving, "_records", read_all)
    await scene.consume(1)

    with pytest.raises(Violation, match="I-19 orders-0 on 1 at 3: shown in epoch 0 beyond"):
        scene.check()


async def test_a_follower_may_lack_what_was_acknowledged_until_it_leads(scene_of):
    scene = await scene_of(CommittedIsNeverLost())

    scene.replica(2).log.truncate_to(Offset(0))
    scene.check()
    scene.drive.cluster.kill(1)

    await scene.drive.settle()
    with pytest.raises(Violation, match="leader 2 of epoch"):
        scene.check()


async def test_nothing_is_promised_after_an_unclean_election(scene_of):
    scene = await scene_of(CommittedIsNeverLost())

    unclean = LeaderElected("orders", 0, 1, 1, "1", 1, "by hand", is_unclean=True)
    scene.watched.invariants.on_event("broker-1", unclean)
    scene.replica(1).log.truncate_to(Offset(0))

    scene.check()


@pytest.mark.parametrize("kind", [CommittedIsNeverLost, VisibleIsNeverLost])
async def test_a_leader_that_does_not_know_that_all_is_lost_promises_nothing(scene_of, kind):
    scene = await scene_of(kind())
    for broker in (1, 2, 3):
        scene.watched.invariants.on_event(f"broker-{broker}", NodeStopped("killed"))

    await scene.produce(1, b"four")
    await scene.consume(1)
    scene.replica(1).log.truncate_to(Offset(0))

    scene.check()


# --- logs -----------------------------------------------------------------------------------------


@pytest.mark.behaviour("I-8")
async def test_logs_that_differ_below_both_high_watermarks_are_found(scene_of):
    scene = await scene_of(LogsMatch())

    log = scene.replica(2).log
    log.truncate_to(Offset(2))
    log.append_as_follower(stored(b"another", 2), now_ms=0)

    with pytest.raises(Violation, match=r"I-8 orders-0 on 1, 2 at 2: .*below both high watermarks"):
        scene.check()


@pytest.mark.behaviour("I-8")
async def test_logs_that_differ_before_a_common_record_are_found(scene_of):
    scene = await scene_of(LogsMatch())

    log = scene.replica(2).log
    log.truncate_to(Offset(1))
    scene.replica(2).high_watermark = Offset(1)
    log.append_as_follower(stored(b"another", 1), now_ms=0)
    log.append_as_follower(stored(b"three", 2), now_ms=0)

    with pytest.raises(Violation, match="both have offset 1 of epoch 0"):
        scene.check()


async def test_what_is_not_committed_may_differ_between_epochs(scene_of):
    scene = await scene_of(LogsMatch())

    for broker, epoch in ((1, 0), (2, 1)):
        scene.replica(broker).log.append_as_follower(stored(b"%d" % epoch, 3, epoch), now_ms=0)

    scene.check()


@pytest.mark.behaviour("I-22")
async def test_a_gap_in_a_log_is_found(scene_of):
    scene = await scene_of(LogsAreContiguous())
    (seen, *_) = scene.watched.invariants.sight.of(ORDERS)

    del seen.batches[1]

    with pytest.raises(Violation, match="I-22 orders-0 on 1 at 2"):
        scene.watched.invariants.all[0].check([seen], scene.watched.invariants.sight)


@pytest.mark.behaviour("I-22")
async def test_an_epoch_that_falls_is_found(scene_of):
    scene = await scene_of(LogsAreContiguous())
    (seen, *_) = scene.watched.invariants.sight.of(ORDERS)

    seen.batches[0] = seen.batches[0]._replace(epoch=LeaderEpoch(3))

    with pytest.raises(Violation, match="I-22 orders-0 on 1 at 1"):
        scene.watched.invariants.all[0].check([seen], scene.watched.invariants.sight)


@pytest.mark.behaviour("I-22")
async def test_an_epoch_cache_that_says_something_else_than_the_log_is_found(scene_of):
    scene = await scene_of(LogsAreContiguous())

    scene.replica(3).log.epochs.assign(LeaderEpoch(4), Offset(1))
    scene.replica(3).high_watermark = Offset(2)  # so that somebody looks

    with pytest.raises(Violation, match=r"I-22 orders-0 on 3 .*the epoch cache is"):
        scene.check()


# --- high watermarks ------------------------------------------------------------------------------


@pytest.mark.behaviour("I-18")
async def test_a_leaders_high_watermark_that_falls_is_found(scene_of):
    scene = await scene_of(HighWatermarksAreSound())

    scene.replica(1).high_watermark = Offset(1)

    with pytest.raises(Violation, match=r"I-18 orders-0 on 1 at 1: .*fell from 3"):
        scene.check()


@pytest.mark.behaviour("I-18")
async def test_a_high_watermark_that_moves_while_too_few_are_in_sync_is_found(scene_of):
    scene = await scene_of(HighWatermarksAreSound())
    leader = scene.replica(1)
    moved = HighWatermarkMoved("orders", 0, "leader", 0, 3)

    leader.hosted = leader.hosted.with_isr((BrokerId(1), BrokerId(2)), PartitionEpoch(0))
    scene.watched.invariants.on_event("broker-1", moved)
    scene.check()
    leader.hosted = leader.hosted.with_isr((BrokerId(1),), PartitionEpoch(0))
    scene.watched.invariants.on_event("broker-1", moved)

    with pytest.raises(Violation, match=r"I-18 orders-0 on 1 at 3: .* while \(1,\) were in sync"):
        scene.check()


@pytest.mark.behaviour("I-18")
async def test_a_high_watermark_beyond_the_log_is_found(scene_of):
    scene = await scene_of(HighWatermarksAreSound())

    scene.replica(2).high_watermark = Offset(4)

    with pytest.raises(Violation, match="the log is from 0 to 3"):
        scene.check()


@pytest.mark.behaviour("I-18")
async def test_a_follower_that_believes_more_than_its_leader_is_found(scene_of):
    scene = await scene_of(HighWatermarksAreSound())

    scene.replica(2).log.append_as_follower(stored(b"four", 3), now_ms=0)
    scene.replica(2).high_watermark = Offset(4)

    with pytest.raises(Violation, match=r"I-18 orders-0 on 2 at 4: .*beyond the leader's 3"):
        scene.check()


@pytest.mark.behaviour("I-18")
async def test_a_member_of_the_isr_that_lacks_committed_records_is_found(scene_of):
    scene = await scene_of(HighWatermarksAreSound())

    scene.replica(3).log.truncate_to(Offset(1))
    scene.replica(3).high_watermark = Offset(1)

    with pytest.raises(Violation, match=r"3 is in the ISR \(1, 2, 3\) and ends at 1"):
        scene.check()


async def test_a_member_that_has_heard_of_a_later_epoch_is_no_follower_of_this_leader(scene_of):
    scene = await scene_of(HighWatermarksAreSound())
    third = scene.replica(3)

    third.become_follower(replace(third.hosted, leader=2, leader_epoch=LeaderEpoch(1)))
    third.log.truncate_to(Offset(1))
    third.high_watermark = Offset(1)

    scene.check()


@pytest.mark.behaviour("I-18")
async def test_a_successor_whom_the_leader_does_not_know_and_that_lacks_records_is_found(scene_of):
    scene = await scene_of(HighWatermarksAreSound())
    leader = scene.replica(1)

    leader.hosted = leader.hosted.with_isr((BrokerId(1), BrokerId(2)), PartitionEpoch(0))
    scene.check()  # ZooKeeper has broker 3 in the ISR, too, and it has everything
    scene.replica(3).log.truncate_to(Offset(1))
    scene.replica(3).high_watermark = Offset(1)

    with pytest.raises(Violation, match=r"3 is in the ISR \(1, 2, 3\) and ends at 1"):
        scene.check()


@pytest.mark.behaviour("I-18")
async def test_one_that_lost_its_log_is_judged_again_when_it_was_out_and_is_let_in(sim):
    planted = await Planted.with_topic(sim, HighWatermarksAreSound())
    await produce(planted.drive, ORDERS, b"a", acks=-1)
    await planted.drive.settle()
    leader, member = (planted.drive.replica(each, "orders") for each in (1, 3))

    planted.leave(3, NodeStopped("by hand"))
    member.log.truncate_to(Offset(0))
    member.high_watermark = Offset(0)
    planted.check()  # it died as a member: nobody has looked yet
    planted.write_state("broker-1", isr=(1, 2))
    planted.write_state("broker-1", isr=(1, 2, 3))
    leader.hosted = leader.hosted.with_isr(leader.hosted.isr, PartitionEpoch(2))

    with pytest.raises(Violation, match=r"3 is in the ISR \(1, 2, 3\) and ends at 0"):
        planted.check()


# --- leaders --------------------------------------------------------------------------------------


@pytest.mark.behaviour("I-20")
async def test_two_brokers_that_append_as_leader_in_one_epoch_are_found(scene_of):
    scene = await scene_of(OneLeaderAppendsPerEpoch())

    appended = RecordsAppended("orders", 0, "leader", 0, 3, 3)
    scene.watched.invariants.on_event("broker-2", appended)

    with pytest.raises(Violation, match=r"I-20 orders-0 .*broker-1 and broker-2 both append"):
        scene.check()


@pytest.mark.behaviour("I-21")
async def test_a_leader_that_commits_after_its_successor_took_office_is_found(scene_of):
    scene = await scene_of(ZombiesCannotCommit())

    successor = ReplicaRoleChanged("orders", 0, "leader", 2, 1)
    scene.watched.invariants.on_event("broker-2", successor)
    await scene.produce(1, b"four")

    with pytest.raises(Violation, match=r"I-21 orders-0 on 1 at 3: .*broker-2 had taken over"):
        scene.check()


@pytest.mark.behaviour("I-21")
async def test_what_a_leader_appended_in_a_later_term_is_its_own_when_it_is_answered_late(scene_of):
    zombies = ZombiesCannotCommit()
    scene = await scene_of(zombies)
    invariants = scene.watched.invariants

    def take_office(broker, epoch):
        leader = ReplicaRoleChanged("orders", 0, "leader", broker, epoch)
        invariants.on_event(f"broker-{broker}", leader)

    def acknowledge():
        request = Produce(
            acks=-1, timeout_ms=1, partitions=(ProducePartition(ORDERS, memoryview(b"")),)
        )
        result = ProduceResult(partition=ORDERS, base_offset=Offset(3))
        answer = Exchange(BrokerId(1), request, ProduceResponse(partitions=(result,)), 1, 2)
        zombies.on_answered(answer, invariants.sight)

    take_office(2, 1)
    invariants.on_event("broker-1", RecordsAppended("orders", 0, "leader", 0, 3, 3))
    take_office(1, 2)
    invariants.on_event("broker-1", RecordsAppended("orders", 0, "leader", 2, 3, 3))
    take_office(2, 3)
    acknowledge()  # another partition of the request has held it up
    scene.check()

    invariants.on_event("broker-1", RecordsAppended("orders", 0, "leader", 2, 3, 3))
    acknowledge()
    with pytest.raises(Violation, match=r"I-21 orders-0 on 1 at 3: .*in epoch 3"):
        scene.check()


@pytest.mark.behaviour("I-21")
async def test_an_isr_written_over_a_newer_leaders_state_is_found(scene_of):
    scene = await scene_of(ZombiesCannotCommit())
    elected = LeaderElected("orders", 0, 2, 1, "2,3", 4, "by hand", is_unclean=False)

    scene.watched.invariants.on_event("broker-3", elected)
    scene.watched.invariants.on_event("broker-1", IsrChanged("orders", 0, 0, "1", 3))
    scene.check()  # it was written before
    scene.watched.invariants.on_event("broker-1", IsrChanged("orders", 0, 0, "1", 5))

    with pytest.raises(Violation, match="I-21 orders-0: broker-1 of epoch 0 wrote"):
        scene.check()


# --- disks ----------------------------------------------------------------------------------------


@pytest.mark.behaviour("I-23")
async def test_an_index_entry_that_points_elsewhere_is_found(scene_of):
    scene = await scene_of(IndexesAreTrue())
    log = scene.replica(2).log

    log.append_as_follower(stored(b"four", 3), now_ms=0)
    index = log.segments[-1].offsets
    index.entries.truncate(index.entries.count - 1)
    index.extend([3, index.last.position])  # where offset 2 is

    with pytest.raises(Violation, match="I-23 orders-0 on 2"):
        scene.check()


@pytest.mark.behaviour("I-23")
async def test_an_index_entry_that_points_into_a_batch_is_found(scene_of):
    scene = await scene_of(IndexesAreTrue())
    log = scene.replica(2).log

    log.append_as_follower(stored(b"four", 3), now_ms=0)
    index = log.segments[-1].offsets
    index.entries.truncate(index.entries.count - 1)
    index.extend([3, index.last.position + 7])

    with pytest.raises(Violation, match="I-23 orders-0 on 2 at 3"):
        scene.check()


@pytest.mark.behaviour("I-23")
async def test_a_log_that_recovers_less_than_was_durable_is_found(sim, scene_of):
    scene = await scene_of(IndexesAreTrue())
    scene.replica(2).log.recovery_point = Offset(3)  # it says so, and nothing is synced
    scene.check()

    sim._disks["broker-2"].crash(keep_nothing=True)
    scene.drive.cluster.kill(2)
    await scene.drive.restart(2)

    with pytest.raises(Violation, match="the log ends at 0, and was durable to 3"):
        scene.check()


@pytest.mark.behaviour("I-23")
async def test_a_log_that_recovers_something_else_than_was_there_is_found(sim, scene_of):
    scene = await scene_of(IndexesAreTrue())
    seen = scene.watched.invariants.sight.all[2, ORDERS]
    seen.batches[0] = seen.batches[0]._replace(crc=1)

    await scene.drive.kill(2)
    await scene.drive.restart(2)

    with pytest.raises(Violation, match="no prefix of"):
        scene.check()


def told(scene: Scene, broker: int, *codes: ErrorCode, delete: bool) -> None:
    """A broker is told to stop its replica, and answers; without a code it does not."""
    entry = StopReplicaPartition(partition=ORDERS, leader_epoch=LeaderEpoch(0), delete=delete)
    order = StopReplica(
        controller_id=BrokerId(1),
        controller_epoch=ControllerEpoch(1),
        broker_epoch=UNKNOWN_BROKER_EPOCH,
        partitions=(entry,),
    )
    planted = Planted(scene.drive, scene.watched)
    number = planted.send(1, broker, order)
    planted.arrive(1, broker, order, number)
    for code in codes:
        answer = StopReplicaResponse(partitions=(PartitionResult(ORDERS, code),))
        planted.answer(1, broker, number, answer)


async def comes_back_with_nothing(sim: Simulator, scene: Scene, broker: int) -> None:
    sim._disks[f"broker-{broker}"].crash(keep_nothing=True)
    scene.drive.cluster.kill(broker)
    await scene.drive.restart(broker)


@pytest.mark.behaviour("I-23")
@pytest.mark.parametrize("codes", [(), (ErrorCode.NONE,)])
async def test_what_was_deleted_or_may_have_been_has_no_past(sim, scene_of, codes):
    scene = await scene_of(IndexesAreTrue())
    scene.replica(2).log.recovery_point = Offset(3)
    scene.check()

    told(scene, 2, *codes, delete=True)
    await comes_back_with_nothing(sim, scene, 2)

    scene.check()


@pytest.mark.behaviour("I-23")
async def test_a_refusal_takes_back_no_deletion_but_its_own(sim, scene_of):
    scene = await scene_of(IndexesAreTrue())
    scene.replica(2).log.recovery_point = Offset(3)
    scene.check()

    told(scene, 2, ErrorCode.NONE, delete=True)
    told(scene, 2, ErrorCode.KAFKA_STORAGE_ERROR, delete=False)
    told(scene, 2, ErrorCode.KAFKA_STORAGE_ERROR, delete=True)
    await comes_back_with_nothing(sim, scene, 2)

    scene.check()


@pytest.mark.behaviour("I-23")
async def test_a_deletion_that_was_refused_excuses_nothing(sim, scene_of):
    scene = await scene_of(IndexesAreTrue())
    scene.replica(2).log.recovery_point = Offset(3)
    scene.check()

    told(scene, 2, ErrorCode.KAFKA_STORAGE_ERROR, delete=True)
    await comes_back_with_nothing(sim, scene, 2)

    with pytest.raises(Violation, match="the log ends at 0, and was durable to 3"):
        scene.check()


@pytest.mark.behaviour("I-23")
async def test_a_deletion_excuses_nothing_that_was_written_after_it(sim, scene_of):
    scene = await scene_of(IndexesAreTrue())
    told(scene, 2, ErrorCode.NONE, delete=True)

    await scene.produce(1, b"after it")
    await scene.drive.settle()
    scene.replica(2).log.recovery_point = Offset(4)
    scene.check()
    await comes_back_with_nothing(sim, scene, 2)

    with pytest.raises(Violation, match="the log ends at 0, and was durable to 4"):
        scene.check()


@pytest.mark.behaviour("I-23")
async def test_a_namesake_of_a_deleted_topic_has_no_past(sim, scene_of):
    """Its broker was away when the replica was moved, and when the topic went."""
    scene = await scene_of(IndexesAreTrue())
    scene.replica(2).log.recovery_point = Offset(3)
    scene.check()

    await scene.drive.kill(2)
    await scene.drive.reassign({ORDERS: [1, 3]})
    await scene.drive.settle()
    await scene.drive.delete("orders")
    await scene.drive.settle()
    await scene.drive.create("orders", [1, 2])
    await scene.drive.restart(2)
    await scene.drive.settle()

    scene.check()
    assert scene.replica(2).log_end_offset == 0


# --- answers --------------------------------------------------------------------------------------


def frame(kind: FrameKind, source: str, destination: str) -> Frame:
    return Frame(kind, 77, source, destination, 0, memoryview(b""))


@pytest.mark.behaviour("I-24")
async def test_a_request_that_is_answered_twice_is_found(scene_of):
    scene = await scene_of(OneAnswerARequest())
    invariants = scene.watched.invariants

    invariants.on_arrival(frame(FrameKind.REQUEST, "somebody", "broker-1"))
    invariants.on_sent(frame(FrameKind.RESPONSE, "broker-1", "somebody"))
    scene.check()
    invariants.on_sent(frame(FrameKind.RESPONSE, "broker-1", "somebody"))

    with pytest.raises(Violation, match="I-24: broker-1 answers request 77 of somebody once more"):
        scene.check()


@pytest.mark.behaviour("I-24")
async def test_a_request_that_is_never_answered_is_found_in_the_end(sim, scene_of):
    scene = await scene_of(OneAnswerARequest())
    scene.watched.invariants.on_arrival(frame(FrameKind.REQUEST, "somebody", "broker-1"))

    await sim.sleep(61_000)

    with pytest.raises(Violation, match="I-24: broker-1 has not answered request 77 of somebody"):
        scene.watched.invariants.check_in_the_end()


async def test_a_dead_broker_owes_no_answer(sim, scene_of):
    scene = await scene_of(OneAnswerARequest())
    scene.watched.invariants.on_arrival(frame(FrameKind.REQUEST, "somebody", "broker-1"))

    await scene.drive.kill(1)
    await sim.sleep(61_000)

    scene.watched.invariants.check_in_the_end()


async def test_commits_of_a_group_are_not_lost_when_its_coordinator_dies(sim):
    invariant = CommittedOffsetsAreNotLost()
    overrides = {"offsets_topic_num_partitions": 1}
    drive = await Drive.start(sim, 3, overrides=overrides)
    watched = Watched(sim, drive.cluster, (invariant,))
    await drive.ask(1, FindCoordinator(key="g"), FindCoordinatorResponse)
    await drive.settle()
    await drive.create("orders", [1, 2, 3])
    reads = []

    for offset in (5, 7):
        leader = drive.state("__consumer_offsets").leader
        part = OffsetCommitPartition(partition=ORDERS, committed_offset=Offset(offset))
        commit = OffsetCommit(group_id="g", partitions=(part,))
        await drive.ask(leader, commit, OffsetCommitResponse)
        await drive.kill(leader)
        leader = drive.state("__consumer_offsets").leader
        read = OffsetFetch(group_id="g", partitions=(ORDERS,))
        response = await drive.ask(leader, read, OffsetFetchResponse)
        reads.append(response.partitions[0].committed_offset)

    watched.raise_if_violated()
    watched.invariants.check_in_the_end()
    assert reads == [5, 7]
    assert invariant._commits["g", ORDERS][1].ended is not None  # it has seen them


class Group:
    """A group's commits and reads, as its members see them."""

    def __init__(self) -> None:
        self.invariant = CommittedOffsetsAreNotLost()
        self.invariant.findings = []
        self._clock = 0

    def tick(self) -> int:
        self._clock += 1
        return self._clock

    def begin(self, offset: int) -> tuple[OffsetCommit, int]:
        part = OffsetCommitPartition(partition=ORDERS, committed_offset=Offset(offset))
        request, begun = OffsetCommit(group_id="g", partitions=(part,)), self.tick()
        self.invariant.on_asked(request, begun)
        return request, begun

    def end(self, commit: tuple[OffsetCommit, int]) -> None:
        response = OffsetCommitResponse(partitions=(PartitionResult(ORDERS, ErrorCode.NONE),))
        exchange = Exchange(BrokerId(1), commit[0], response, commit[1], self.tick())
        self.invariant.on_answered(exchange, None)

    def read(self, offset: int) -> None:
        begun = self.tick()
        result = OffsetFetchResult(partition=ORDERS, committed_offset=Offset(offset))
        response = OffsetFetchResponse(partitions=(result,))
        request = OffsetFetch(group_id="g", partitions=(ORDERS,))
        exchange = Exchange(BrokerId(1), request, response, begun, self.tick())
        self.invariant.on_answered(exchange, None)
        for violation in self.invariant.findings:
            raise violation


def test_a_group_may_read_its_last_commit_and_any_that_may_be_later():
    group = Group()
    group.read(-1)
    group.end(group.begin(5))
    group.read(5)
    under_way = group.begin(7)
    for offset in (5, 7, 5):  # until it is answered, anything may be seen
        group.read(offset)
    group.end(under_way)
    group.read(7)


@pytest.mark.behaviour("I-25")
@pytest.mark.parametrize("lost", [-1, 5])
def test_a_group_that_reads_what_was_before_its_last_commit_is_found(lost):
    group = Group()
    group.end(group.begin(5))
    group.end(group.begin(7))

    with pytest.raises(Violation, match=f"I-25 orders-0 at {lost}: group g reads {lost}"):
        group.read(lost)
