"""Every fault of the vocabulary, done to a simulated cluster and undone: one row a fault."""

from collections.abc import Awaitable, Callable

import pytest

from actors.broker.log.names import LOG
from actors.cluster import SimulatedCluster
from actors.conditions import isr, leader
from actors.faults.hand import FaultRefused
from actors.faults.injector import Injector
from actors.faults.node_hand import NodeHand
from actors.faults.vocabulary import (
    INSTANT,
    KINDS,
    BlackholeRequest,
    Cut,
    Delay,
    DelayRequest,
    DelayWatch,
    DisconnectRequest,
    Drop,
    Duplicate,
    ExpireSession,
    FailDisk,
    Fault,
    FillDisk,
    FlipBit,
    Heal,
    Hold,
    Kill,
    LingerSession,
    LoseReply,
    LoseUnsynced,
    LoseWatch,
    OnLink,
    Pause,
    RefuseRequest,
    RefuseZooKeeper,
    Reorder,
    Restart,
    Resume,
    ShutDown,
    SkewClock,
    SlowDisk,
    StartZooKeeper,
    StopZooKeeper,
    ZombieController,
    as_table,
    fault_of,
)
from actors.names import node_name
from actors.node import NodeState
from actors.view import ClusterView
from runtime.files import DiskError, File
from runtime.simulation.simulator import Simulator, run
from tests.support.kafka_caller import KafkaCaller
from wire.errors import ErrorCode
from wire.frame import Frame
from wire.trace import FaultHealed, FaultInjected

OVERRIDES = {"replica.lag.time.max.ms": 1_000, "auto.leader.rebalance.enable": False}
ALL = [1, 2, 3]


class Desk:
    """A cluster of three, one partition on all of them that broker 1 leads, and an injector."""

    def __init__(self, sim: Simulator) -> None:
        self.sim = sim
        self.cluster = SimulatedCluster(sim, brokers=3, overrides=OVERRIDES)
        self.injector = Injector(NodeHand(self.cluster))
        self.injected: list[FaultInjected] = []
        self.healed: list[FaultHealed] = []
        self.sent: list[Frame] = []
        self.arrived: list[tuple[float, Frame]] = []
        self.admin = self.cluster.admin()

    async def start(self) -> None:
        for broker in self.cluster.brokers:
            await self.cluster.start_broker(broker)
            await self.cluster.until(lambda view: view.controller == 1)
        await self.admin.create_topic("orders", assignments={0: (1, 2, 3)})
        await self.until(isr("orders", 0) == ALL)
        self.sim.trace.watch([FaultInjected], lambda _, event: self.injected.append(event))
        self.sim.trace.watch([FaultHealed], lambda _, event: self.healed.append(event))
        self.sim.tamper.onlookers.append(self.sent.append)
        self.sim.network.onlookers.append(self)

    def on_arrival(self, _: object) -> None: ...

    def on_delivery(self, frame: Frame) -> None:
        self.arrived.append((self.sim.now_ms, frame))

    async def until(self, condition: object) -> ClusterView:
        return await self.cluster.until(condition, timeout_ms=60_000)

    async def inject(self, fault: Fault) -> int:
        """Do it: it is an event with the number that was answered."""
        done = await self.injector.inject(fault)
        if not isinstance(fault, Resume | StartZooKeeper | Heal):
            assert self.injected[-1].number == done.number > 0
        assert (done.number in self.injector.active) is not isinstance(fault, INSTANT)
        return done.number

    async def heal(self, number: int) -> None:
        """Undo it: that is an event, too, and it is done once."""
        before = len(self.healed)
        await self.injector.inject(Heal(number=number))
        assert [each.number for each in self.healed[before:]].count(number) == 1
        assert number not in self.injector.active
        with pytest.raises(FaultRefused, match="there is no fault"):
            await self.injector.inject(Heal(number=number))

    def fetches(self, frames: list[Frame], source: int = 2) -> list[Frame]:
        """From one broker to the leader."""
        link = (node_name(source), node_name(1))
        return [each for each in frames if (each.source, each.destination) == link]

    async def write(self, acks: int = 1) -> None:
        """Only who lacks something can fall behind."""
        async with self.cluster.producer(acks=acks) as producer:
            await producer.send("orders", b"coffee", partition=0)

    def is_up(self, broker: int) -> bool:
        return self.cluster.is_up(broker)

    def disk(self, broker: int):
        return self.cluster.nodes[broker].world.disk


Try = Callable[[Desk], Awaitable[None]]


async def kill(desk: Desk) -> None:
    number = await desk.inject(Kill(broker="leader of orders-0"))
    assert not desk.is_up(1)
    await desk.heal(number)
    assert desk.is_up(1)


async def restart(desk: Desk) -> None:
    killed = await desk.inject(Kill(broker=2))
    await desk.inject(Restart(broker=2))
    assert desk.is_up(2)
    assert killed not in desk.injector.active
    assert desk.healed[-1] == FaultHealed("kill", "broker-2", killed)


async def pause(desk: Desk) -> None:
    number = await desk.inject(Pause(broker=3))
    await desk.until(isr("orders", 0) == [1, 2])
    await desk.heal(number)
    await desk.until(isr("orders", 0) == ALL)


async def resume(desk: Desk) -> None:
    number = await desk.inject(Pause(broker="follower of orders-0"))
    assert await desk.inject(Resume(broker=2)) == number
    assert desk.healed[-1].number == number
    with pytest.raises(FaultRefused, match="not paused"):
        await desk.inject(Resume(broker=2))


async def shut_down(desk: Desk) -> None:
    number = await desk.inject(ShutDown(broker=3))
    assert desk.cluster.nodes[3].state is NodeState.STOPPED
    await desk.heal(number)
    assert desk.is_up(3)


async def expire_session(desk: Desk) -> None:
    before = desk.cluster.nodes[2].world.keeper.session_id
    await desk.inject(ExpireSession(broker=2))
    await desk.sim.settle()
    assert desk.cluster.nodes[2].world.keeper.session_id != before


async def zombie_controller(desk: Desk) -> None:
    number = await desk.inject(ZombieController())
    assert desk.cluster.nodes[1].system.is_paused
    await desk.until(lambda view: view.controller in {2, 3})
    assert desk.cluster.nodes[1].system.is_paused, "it sleeps past its session's end"
    await desk.sim.sleep(desk.cluster.session_timeout_ms)
    assert not desk.cluster.nodes[1].system.is_paused
    assert number not in desk.injector.active


async def cut(desk: Desk) -> None:
    number = await desk.inject(Cut(broker=3, other=1))
    await desk.write()
    await desk.until(isr("orders", 0) == [1, 2])
    await desk.heal(number)
    await desk.until(isr("orders", 0) == ALL)


async def drop(desk: Desk) -> None:
    number = await desk.inject(Drop(message="Fetch", source=2, to="leader of orders-0"))
    await desk.write()
    await desk.until(isr("orders", 0) == [1, 3])
    await desk.heal(number)
    await desk.until(isr("orders", 0) == ALL)


async def duplicate(desk: Desk) -> None:
    number = await desk.inject(Duplicate(message="Fetch", source=2, times=3))
    await came(desk, lambda: twins(desk) == 3)
    await desk.heal(number)


async def delay(desk: Desk) -> None:
    number = await desk.inject(Delay(message="Fetch", source=2, ms=700, nth=1))
    began, count = desk.sim.now_ms, len(desk.fetches(desk.sent))
    await came(desk, lambda: len(desk.fetches(desk.sent)) > count)
    wanted = desk.fetches(desk.sent)[count]
    await came(desk, lambda: any(frame is wanted for _, frame in desk.arrived))
    assert desk.sim.now_ms - began >= 700
    await desk.heal(number)


async def hold(desk: Desk) -> None:
    number = await desk.inject(Hold(message="Fetch", source=2))
    await desk.write()
    await desk.until(isr("orders", 0) == [1, 3])
    count = len(desk.fetches([frame for _, frame in desk.arrived]))
    await desk.sim.sleep(1_000)
    assert len(desk.fetches([frame for _, frame in desk.arrived])) == count
    await desk.heal(number)
    await came(desk, lambda: len(desk.fetches([frame for _, frame in desk.arrived])) > count)
    await desk.until(isr("orders", 0) == ALL)


async def reorder(desk: Desk) -> None:
    number = await desk.inject(Reorder(source=1, to=3, message="UpdateMetadata", nth=1))
    await desk.inject(Kill(broker=2))
    await desk.until(isr("orders", 0) == [1, 3])
    await desk.sim.settle()
    sent = [f.correlation for f in desk.sent if is_between(f, 1, 3)]
    came_in = [f.correlation for _, f in desk.arrived if is_between(f, 1, 3)]
    common = [each for each in sent if each in came_in]
    assert sorted(came_in, key=sent.index) == common
    assert came_in != common
    await desk.heal(number)


async def delay_watch(desk: Desk) -> None:
    late = DelayWatch(broker="controller", path="/brokers/ids", ms=20_000, times=9)
    number = await desk.inject(late)
    await desk.inject(ShutDown(broker=3))
    began = desk.sim.now_ms
    await came(desk, lambda: 3 not in desk.cluster.nodes[1].controller.established.brokers)
    assert desk.sim.now_ms - began >= 19_000
    await desk.heal(number)
    assert desk.sim.watch_tamper("broker-1").rules == []


async def lose_watch(desk: Desk) -> None:
    number = await desk.inject(LoseWatch(broker="controller", path="/brokers/ids", times=9))
    await desk.inject(ShutDown(broker=3))
    await desk.sim.sleep(30_000)
    context = desk.cluster.nodes[1].controller.established
    assert 3 in context.brokers, "nobody has told the controller"
    await desk.heal(number)
    assert desk.sim.watch_tamper("broker-1").rules == []


async def lose_reply(desk: Desk) -> None:
    await desk.inject(LoseReply(broker=1))
    assert desk.sim.zookeeper._lose_reply == {"broker-1"}
    await desk.admin.create_topic("bills", assignments={0: (1, 2, 3)})
    assert desk.sim.zookeeper._lose_reply == set()
    await desk.until(leader("bills", 0) == 1)


async def refuse_zookeeper(desk: Desk) -> None:
    number = await desk.inject(RefuseZooKeeper(broker=1, path="/brokers/topics", times=1_000))
    assert desk.sim.watch_tamper("broker-1").refusals
    await desk.heal(number)
    assert desk.sim.watch_tamper("broker-1").refusals == []


async def linger_session(desk: Desk) -> None:
    number = await desk.inject(LingerSession(broker=2, ms=5_000))
    assert desk.sim.zookeeper._lingering == {"broker-2": 5_000}
    await desk.heal(number)
    assert desk.sim.zookeeper._lingering == {}


async def stop_zookeeper(desk: Desk) -> None:
    number = await desk.inject(StopZooKeeper())
    assert not desk.sim.zookeeper.is_up
    with pytest.raises(FaultRefused, match="down already"):
        await desk.inject(StopZooKeeper())
    await desk.heal(number)
    assert desk.sim.zookeeper.is_up


async def start_zookeeper(desk: Desk) -> None:
    with pytest.raises(FaultRefused, match="ZooKeeper is up"):
        await desk.inject(StartZooKeeper())
    number = await desk.inject(StopZooKeeper())
    assert await desk.inject(StartZooKeeper()) == number
    assert desk.sim.zookeeper.is_up
    assert number not in desk.injector.active


async def fill_disk(desk: Desk) -> None:
    number = await desk.inject(FillDisk(broker=1))
    await touched(desk, 1, is_well=False)
    await desk.heal(number)
    await touched(desk, 1, is_well=True)


async def fail_disk(desk: Desk) -> None:
    number = await desk.inject(FailDisk(broker=1, path="probe"))
    await touched(desk, 1, is_well=False)
    await desk.heal(number)
    await touched(desk, 1, is_well=True)


async def slow_disk(desk: Desk) -> None:
    number = await desk.inject(SlowDisk(broker=3, ms=900))
    other = await desk.inject(FailDisk(broker=3, path="elsewhere"))
    assert await sync_ms(desk, 3) >= 900
    await desk.heal(other)
    assert await sync_ms(desk, 3) >= 900, "the other fault of this disk stays"
    await desk.heal(number)
    assert await sync_ms(desk, 3) < 900


async def lose_unsynced(desk: Desk) -> None:
    number = await desk.inject(LoseUnsynced(broker=3))
    assert desk.disk(3).is_forgetful
    await desk.heal(number)
    assert not desk.disk(3).is_forgetful


async def flip_bit(desk: Desk) -> None:
    with pytest.raises(FaultRefused, match="no record of orders-0"):
        await desk.inject(FlipBit(broker=2, topic="orders"))
    await desk.write(acks=-1)
    before = segment(desk, 2)
    await desk.inject(FlipBit(broker=2, topic="orders", bit=3))
    after = segment(desk, 2)
    assert [a ^ b for a, b in zip(before, after, strict=True) if a != b] == [1 << 3]


async def skew_clock(desk: Desk) -> None:
    number = await desk.inject(SkewClock(broker=2, ms=-5_000))
    assert desk.cluster.nodes[2].world.clock.now_ms() == desk.cluster.clock.now_ms() - 5_000
    await desk.heal(number)
    assert desk.cluster.nodes[2].world.clock.now_ms() == desk.cluster.clock.now_ms()


async def refuse_request(desk: Desk) -> None:
    caller = KafkaCaller(desk.sim)
    number = await desk.inject(RefuseRequest(broker=1, api="ApiVersions", error="NOT_CONTROLLER"))
    answer = await caller.ask("ApiVersions", 0)
    assert answer.error_code == ErrorCode.NOT_CONTROLLER
    await desk.heal(number)
    assert (await caller.ask("ApiVersions", 0)).error_code == 0


async def disconnect_request(desk: Desk) -> None:
    caller, other = KafkaCaller(desk.sim), KafkaCaller(desk.sim)
    number = await desk.inject(DisconnectRequest(api="ApiVersions"))
    caller.say("ApiVersions", 0)
    await came(desk, lambda: not caller.line.is_open)
    await desk.heal(number)
    assert (await other.ask("ApiVersions", 0)).error_code == 0


async def delay_request(desk: Desk) -> None:
    caller = KafkaCaller(desk.sim)
    number = await desk.inject(DelayRequest(api="ApiVersions", ms=300))
    began_ms = desk.sim.now_ms
    await caller.ask("ApiVersions", 0)
    assert desk.sim.now_ms - began_ms >= 300
    await desk.heal(number)
    began_ms = desk.sim.now_ms
    await caller.ask("ApiVersions", 0)
    assert desk.sim.now_ms - began_ms < 300


async def blackhole_request(desk: Desk) -> None:
    caller, other = KafkaCaller(desk.sim), KafkaCaller(desk.sim)
    number = await desk.inject(BlackholeRequest(api="ApiVersions"))
    caller.say("ApiVersions", 0)
    await desk.sim.sleep(1_000)
    assert caller.line.heard == []
    assert caller.line.is_open
    await desk.heal(number)
    assert (await other.ask("ApiVersions", 0)).error_code == 0


async def heal(desk: Desk) -> None:
    faults = (Pause(broker=2), Cut(broker=1, other=3), Drop(), SkewClock(broker=1, ms=9))
    numbers = [await desk.inject(each) for each in (*faults, StopZooKeeper(), Kill(broker=3))]
    await desk.injector.inject(Heal())
    assert {each.number for each in desk.healed} == {0, *numbers[:-1]}
    assert list(desk.injector.active) == numbers[-1:], "whoever is down stays down"
    await desk.heal(numbers[-1])
    await desk.until(isr("orders", 0) == ALL)


TRIES: dict[str, Try] = {
    name.replace("_", "-"): tried
    for name, tried in list(globals().items())
    if name.replace("_", "-") in KINDS
}


# --- what the rows need ---------------------------------------------------------------------------


async def came(desk: Desk, holds: Callable[[], bool]) -> None:
    for _ in range(10_000):
        if holds():
            return
        await desk.sim.sleep(10)
    raise AssertionError("it never came")


def twins(desk: Desk) -> int:
    numbers = [frame.correlation for frame in desk.fetches([f for _, f in desk.arrived])]
    return len(numbers) - len(set(numbers))


def is_between(frame: Frame, source: int, to: int) -> bool:
    return (frame.source, frame.destination) == (node_name(source), node_name(to))


async def touched(desk: Desk, broker: int, *, is_well: bool) -> None:
    try:
        probe(desk, broker).append(b"x")
    except DiskError:
        assert not is_well
    else:
        assert is_well


def probe(desk: Desk, broker: int) -> File:
    return desk.disk(broker).open("probe", create=True)


async def sync_ms(desk: Desk, broker: int) -> float:
    began = desk.sim.now_ms
    await probe(desk, broker).sync()
    return desk.sim.now_ms - began


def segment(desk: Desk, broker: int) -> bytes:
    paths = desk.sim.files(node_name(broker), "orders-0")
    file = desk.disk(broker).open(next(each for each in paths if each.endswith(LOG)))
    return bytes(file.read_at(0, file.size))


# --- the rows -------------------------------------------------------------------------------------


def test_every_fault_of_the_vocabulary_has_a_row():
    assert set(TRIES) == set(KINDS)


@pytest.mark.parametrize("name", KINDS)
def test_a_fault_is_an_event_with_a_number_and_healing_undoes_it(name):
    async def tried() -> None:
        async with Simulator(seed=3, session_timeout_ms=2_000) as sim:
            desk = Desk(sim)
            await desk.start()
            await TRIES[name](desk)
            await desk.injector.close()
            assert desk.injector.crashes == []

    run(tried)


@pytest.mark.parametrize("name", KINDS)
def test_a_fault_is_read_as_it_is_written(name):
    required = {"broker": 2, "other": "zookeeper", "ms": 20, "topic": "orders", "path": "/a"}
    required |= {"error": "NOT_CONTROLLER"}
    fields = KINDS[name].__struct_fields__
    table = {"fault": name} | {key: value for key, value in required.items() if key in fields}

    assert fault_of(as_table(fault_of(table))) == fault_of(table)


@pytest.mark.parametrize("name", [name for name, kind in KINDS.items() if issubclass(kind, OnLink)])
def test_every_fault_on_messages_can_be_narrowed_in_the_same_ways(name):
    fields = {
        "source": "controller",
        "to": 2,
        "message": "LeaderAndIsr",
        "controller_epoch": 7,
        "leader_epoch": 3,
        "topic": "orders",
        "partition": 0,
        "nth": 2,
        "times": 1,
        "probability": 0.5,
    }
    extra = {"ms": 10} if name == "delay" else {}

    assert as_table(fault_of({"fault": name} | extra | fields)).items() >= fields.items()


@pytest.mark.parametrize(
    ("table", "culprit"),
    [
        ({"fault": "explode"}, "explode"),
        ({"fault": "kill"}, "broker"),
        ({"fault": "kill", "broker": 1, "hard": True}, "hard"),
        ({"fault": "drop", "probability": 2}, "probability"),
        ({"fault": "drop", "nth": 0}, "nth"),
        ({"fault": "drop", "message": "LeaderAndIsrs"}, "LeaderAndIsr"),
        ({"fault": "flip-bit", "broker": 1, "topic": "orders", "bit": 8}, "bit"),
        ({"fault": "pause", "broker": 1, "for_ms": -1}, "for_ms"),
        ({"fault": "heal", "number": "all"}, "number"),
    ],
)
def test_what_is_no_fault_is_refused_with_its_culprit(table, culprit):
    with pytest.raises(FaultRefused, match=culprit):
        fault_of(table)
