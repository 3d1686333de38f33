"""Who judges real clusters is silent about a sound one, and fires when something is planted."""

import msgspec
import pytest

from actors.broker.log.names import LOG, file_name
from actors.cluster import SimulatedCluster
from actors.conditions import isr
from actors.faults.nemesis import OVERRIDES
from actors.faults.node_hand import NodeHand
from actors.faults.overseer import Overseer
from actors.faults.play import Play
from actors.faults.real import _Judges
from actors.faults.replica_files import compare_replicas
from actors.faults.scenario import Load, Scenario, Step, Topic
from actors.faults.snapshot import ledger_of, snapshot
from actors.faults.violation import Violation
from actors.faults.vocabulary import Kill
from runtime.simulation.simulator import Simulator, run
from tests.support.fake_source import partition
from wire.admin_znodes import DeleteTopicsZNode
from wire.ids import TopicPartition
from wire.records import Record, encode_batch
from wire.trace import ActorCrashed
from wire.znodes import ControllerZNode, PartitionStateZNode

ORDERS = TopicPartition("orders", 0)
BOTH_DIE = (
    Step(do=Kill(broker=1, process_only=True), after_ms=50, is_awaited=False),
    Step(do=Kill(broker=2, process_only=True), after_ms=0, is_awaited=False),
)


def seen_by_an_overseer(generation: str) -> str:
    """Two replicas die one after the other, under load; the invariant that was violated."""
    scenario = Scenario(
        name="both die",
        brokers=2,
        topics=(Topic(name="orders", replicas=((1, 2),)),),
        load=Load(records=10, over_ms=2_000),
        overrides=OVERRIDES | {"replication.generation": generation, "min.insync.replicas": 1},
        steps=BOTH_DIE,
    )

    async def played() -> str:
        async with Simulator(seed=1, session_timeout_ms=1_000) as sim:
            cluster = SimulatedCluster(sim, brokers=2, overrides=scenario.overrides)
            await cluster.start_nodes()
            overseer = Overseer(cluster)
            play = Play(scenario, cluster, NodeHand(cluster))
            try:
                await play.run()
            except Violation as violation:
                return violation.invariant
            return "" if overseer.violation is None else overseer.violation.invariant

    return run(played)


def test_an_overseer_sees_what_is_lost_and_blames_no_sound_cluster():
    assert seen_by_an_overseer("high-watermark")
    assert seen_by_an_overseer("kip-320") == ""


@pytest.fixture
async def whole(sim):
    """A cluster of two that is whole, its judges, and what ZooKeeper holds."""
    cluster = SimulatedCluster(sim, brokers=2)
    await cluster.start_nodes()
    await cluster.admin().create_topic("orders", assignments={0: (1, 2)})
    await cluster.until(isr("orders", 0) == {1, 2})
    await sim.sleep(20_000)
    return cluster, _Judges(cluster)


async def judged(cluster: SimulatedCluster, judges: _Judges) -> None:
    keeper = cluster.nodes[1].world.keeper
    judges.judge_in_the_end(await cluster.look(), await snapshot(keeper))


async def test_a_whole_cluster_is_not_blamed(whole):
    await judged(*whole)


async def test_a_snapshot_holds_what_zookeeper_holds(whole, sim):
    cluster, _ = whole
    tree = await snapshot(cluster.nodes[1].world.keeper)

    path = PartitionStateZNode.path(ORDERS)
    assert tree.get(path) == sim.zookeeper.tree.get(path)
    assert tree.children("/brokers/ids") == ("1", "2")
    assert tree.stat("/nowhere") is None
    assert ledger_of(tree).states[ORDERS].state.isr == (1, 2)


async def test_a_wish_that_nobody_grants_is_found(whole):
    cluster, judges = whole
    keeper = cluster.nodes[1].world.keeper
    tree = await snapshot(keeper)
    wish = f"{DeleteTopicsZNode.path()}/bills"
    tree._znodes[wish] = tree._znodes[ControllerZNode.path()]
    tree._below.setdefault(DeleteTopicsZNode.path(), []).append("bills")

    with pytest.raises(Violation, match=r"L-4.*bills"):
        judges.judge_in_the_end(await cluster.look(), tree)


async def test_a_broker_that_believes_something_else_is_found(whole):
    cluster, judges = whole
    tree = await snapshot(cluster.nodes[1].world.keeper)
    view = await cluster.look()
    found = view.partitions[ORDERS]
    view.partitions[ORDERS] = msgspec.structs.replace(found, leader_epoch=found.leader_epoch + 1)

    with pytest.raises(Violation, match=r"L-3 orders-0"):
        judges.judge_in_the_end(view, tree)


async def test_a_controller_that_zookeeper_does_not_know_is_found(whole):
    cluster, judges = whole
    tree = await snapshot(cluster.nodes[1].world.keeper)
    del tree._znodes[ControllerZNode.path()]

    with pytest.raises(Violation, match="L-1"):
        judges.judge_in_the_end(await cluster.look(), tree)


async def test_a_cluster_that_is_not_whole_and_a_crash_are_found(whole, sim):
    cluster, judges = whole
    cluster.kill(2)
    with pytest.raises(Violation, match="L-2"):
        await judged(cluster, judges)

    sim.trace.at("broker-2")(ActorCrashed("broker-2/api", "Fetch", "of one that is dead", ""))
    judges.raise_if_violated()
    sim.trace.at("broker-1")(ActorCrashed("broker-1/api", "Fetch", "boom", ""))
    with pytest.raises(Violation, match="crash: broker-1"):
        judges.raise_if_violated()


# --- files ----------------------------------------------------------------------------------------


def write(folder, *values: bytes, epoch: int = 0) -> None:
    log = folder / str(ORDERS)
    log.mkdir(parents=True, exist_ok=True)
    content = b"".join(
        encode_batch(
            [Record(offset=offset, timestamp_ms=1, value=value)], partition_leader_epoch=epoch
        )
        for offset, value in enumerate(values)
    )
    (log / file_name(0, LOG)).write_bytes(content)


def compared(tmp_path) -> int:
    return compare_replicas({ORDERS: partition(0)}, lambda broker: tmp_path / str(broker))


def test_files_that_agree_are_counted(tmp_path):
    write(tmp_path / "1", b"coffee", b"tea")
    write(tmp_path / "2", b"coffee", b"tea")

    assert compared(tmp_path) == 4


@pytest.mark.parametrize("other", [(b"coffee", b"milk"), (b"coffee",)])
def test_files_that_differ_are_found(tmp_path, other):
    write(tmp_path / "1", b"coffee", b"tea")
    write(tmp_path / "2", *other)

    with pytest.raises(Violation, match="I-8 orders-0 on 2, 1"):
        compared(tmp_path)


def test_a_file_that_is_torn_is_found(tmp_path):
    write(tmp_path / "1", b"coffee")
    write(tmp_path / "2", b"coffee")
    with (tmp_path / "2" / str(ORDERS) / file_name(0, LOG)).open("ab") as file:
        file.write(b"torn")

    with pytest.raises(Violation, match="no batch"):
        compared(tmp_path)
