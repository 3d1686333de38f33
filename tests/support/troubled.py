"""A trace in which much went wrong: three runs in one folder, for whoever reads traces.

Rule: the first two are of clusters that lived, in simulated time; the third says what no
cluster would ever do, so that an audit has something to find.
"""

from pathlib import Path

from actors.cluster import SimulatedCluster
from actors.conditions import controller, isr, leader
from runtime.recorder import Recorder
from runtime.simulation.simulator import Simulator, run
from tests.support.planted import SECOND, Planted
from wire.trace import (
    BrokerRegistered,
    BrokerStateChanged,
    ControllerElected,
    ControllerResigned,
    FaultHealed,
    FaultInjected,
    HighWatermarkMoved,
    IsrChanged,
    LeaderElected,
    LogDirWentOffline,
    NodePaused,
    NodeResumed,
    NodeStarted,
    NodeStopped,
    PartitionStateChanged,
    RecordsAppended,
    ReplicaLeftIsr,
    ReplicaRoleChanged,
    ReplicaStateChanged,
    SessionChanged,
    TransitionRefused,
)

HOSTILE = "<script>'\"\x00\u202e"


def troubled(folder: Path) -> Path:
    """All three."""
    run(lambda: killed_and_shut_down(folder))
    run(lambda: stood_still(folder))
    impossible().write(folder, run="impossible", origin="9")
    return folder


async def killed_and_shut_down(folder: Path) -> None:
    """A leader is killed, then the controller; both come back. Another one leaves in order."""
    async with Simulator(seed=5) as sim:
        cluster = SimulatedCluster(sim, brokers=3)
        await cluster.start_nodes()
        assignments = {0: (3, 1, 2), 1: (2, 1, 3), 2: (1, 3, 2), 3: (3, 2, 1)}
        await cluster.admin().create_topic("orders", assignments=assignments)
        async with cluster.producer(retries=100) as producer:
            for number in range(40):
                await producer.send("orders", b"before", partition=number % 4)
            cluster.kill(3)
            await cluster.until(leader("orders") != 3)
            await producer.send("orders", b"meanwhile", partition=0)
            await cluster.start_broker(3)
            await cluster.until(isr("orders") == {1, 2, 3})
            first = cluster.controller.config.broker_id
            cluster.kill(first)
            await cluster.until(controller() != first)
            await cluster.start_broker(first)
            await cluster.until(isr("orders") == {1, 2, 3})
            await cluster.stop_broker(2)
            for number in range(12):
                await producer.send("orders", b"after", partition=number % 4)
            await cluster.admin().create_topic("brief", assignments={0: (1, 3)})
            await cluster.admin().delete_topic("brief")
        await sim.settle()
        Recorder(sim.trace, folder, run="killed").write()


async def stood_still(folder: Path) -> None:
    """The controller stands still until its session is lost, and then goes on; later it loses one.

    A cut link costs a follower its place, and all brokers leave in the end.
    """
    async with Simulator(seed=6) as sim:
        cluster = SimulatedCluster(sim, brokers=3)
        await cluster.start_nodes()
        await cluster.admin().create_topic("quiet", assignments={0: (1, 2, 3), 1: (2, 3, 1)})
        async with cluster.producer(retries=100) as producer:
            first = cluster.controller.config.broker_id
            sim.pause(f"broker-{first}")
            await cluster.until(controller() != first)
            await producer.send("quiet", b"meanwhile", partition=0)
            sim.resume(f"broker-{first}")
            await cluster.until(isr("quiet") == {1, 2, 3})
            now = cluster.controller.config.broker_id
            sim.expire_session(f"broker-{now}")
            await cluster.until(controller() != now)
            await sim.settle()
            sim.cut("broker-2", "broker-3")
            await producer.send("quiet", b"alone", partition=1)
            sim.heal()
            await cluster.until(isr("quiet", 1) == {1, 2, 3})
        await cluster.stop_nodes()
        await sim.settle()
        Recorder(sim.trace, folder, run="still", origin="2").write()


def impossible() -> Planted:
    """Promises broken, states refused, clocks set back, and what was never mended."""
    told = Planted(origin=7)
    told.at(1, HOSTILE, NodeStarted(), FaultInjected(HOSTILE, HOSTILE, HOSTILE, 1))
    told.at(2, "broker-1", NodeStarted(), ControllerElected(1, 5, 5), BrokerRegistered(1, 90, 1))
    told.at(3, "broker-2", NodeStarted(), ControllerElected(2, 5, 6), BrokerRegistered(1, 80, 1))
    told.at(4, "broker-2", ControllerElected(2, 4, 6), ControllerResigned(2, 4, "it had enough"))
    told.at(
        5,
        "broker-1",
        LeaderElected("odd", 0, 1, 7, "1,2", 1, "because", False, "1,2"),
        LeaderElected("odd", 0, 1, 6, "1,2,4", 1, "because", True, "1,2"),
        LeaderElected("fine", 0, 1, 7, "1,2", 1, "NewPartition", False, "1,2"),
        ReplicaLeftIsr("fine", 0, 2, 1, 8, "1"),
        LeaderElected("fine", 0, 1, 0, "1,2", 1, "NewPartition", False, "1,2"),
        LeaderElected("fine", 0, 3, 1, "2", 1, "because", False, ""),
    )
    told.at(6, "broker-1", ReplicaRoleChanged("odd", 0, "leader", 1, 3))
    told.at(7, "broker-2", RecordsAppended("odd", 0, "leader", 3, 0, 0))
    told.at(8, "broker-1", HighWatermarkMoved("odd", 0, "leader", 3, 9))
    told.at(9, "broker-1", HighWatermarkMoved("odd", 0, "follower", 3, 2))
    told.at(10, "broker-1", HighWatermarkMoved("odd", 0, "leader", 3, 8))
    told.at(
        11,
        "broker-1",
        PartitionStateChanged("odd", 0, "OnlinePartition", "NewPartition"),
        ReplicaStateChanged("odd", 0, 2, "NewReplica", "NonExistentReplica"),
    )
    cause = told.handled(12, "broker-1/controller", "Startup", queue_us=3_000)
    refused = TransitionRefused("odd", 0, -1, "NewPartition", "NonExistentPartition")
    told.at(13, "broker-1", refused, refused, cause=cause)
    told.at(14, "broker-1", TransitionRefused("odd", 0, 2, "NewReplica", "OnlineReplica"))
    told.at(2 * SECOND, "broker-1", NodePaused(), SessionChanged("expired", 1))
    told.at(3 * SECOND, "broker-1", NodeResumed(), FaultHealed(HOSTILE, HOSTILE, 1))
    told.at(SECOND, "broker-1", IsrChanged("odd", 0, 7, "1", 2))  # its clock was set back
    told.at(4 * SECOND, "broker-2", NodeStopped("crashed"))
    told.at(4_500_000, "universe", FaultInjected("restart", "broker-2", "", 2))
    told.at(4_600_000, "broker-2", NodeStarted())
    told.at(4_900_000, "universe", FaultInjected("shut down", "broker-1", "", 3))
    told.at(5 * SECOND, "broker-1", BrokerStateChanged("PendingControlledShutdown"))
    told.at(6 * SECOND, "universe", FaultInjected("cut", "broker-1", "broker-2", 4))
    told.at(7 * SECOND, "universe", FaultInjected("cut", "broker-1", "broker-3", 5))
    told.at(8 * SECOND, "universe", FaultHealed("cut", "broker-1", 4))
    told.at(9 * SECOND, "universe", FaultInjected("fill-disk", "broker-2", "", 6))
    told.at(9_100_000, "broker-2", LogDirWentOffline(1, "it is full"))
    answer = told.handled(9_200_000, "broker-1/controller", "LeaderAndIsrAnswered")
    moved = LeaderElected("odd", 0, 1, 9, "1", 1, "OfflinePartition", False, "1,2")
    told.at(9_300_000, "broker-1", moved, ReplicaLeftIsr("odd", 0, 2, 1, 10, "1"), cause=answer)
    told.at(500 * SECOND, "broker-1", LogDirWentOffline(1, "nobody did that"))
    told.handled(900 * SECOND, "broker-1/replica-manager", "Fetch")
    return told
