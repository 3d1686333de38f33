"""Leaders that were not in sync: who allows them, and when they are tried: B061, B062, B063."""

import pytest

from actors.controller.context import PartitionPhase
from tests.support.drive import Drive
from wire.admin import ElectionType, ElectLeaders, ElectLeadersResponse
from wire.config_znodes import ConfigChangeNotificationZNode, ConfigEntity, ConfigEntityType
from wire.errors import ErrorCode
from wire.ids import TopicPartition
from wire.trace import LeaderElected
from wire.znodes import PartitionState

ORDERS = TopicPartition("orders", 0)
OFFLINE_STRATEGY = "OfflinePartitionLeaderElectionStrategy"
ENABLED = {"unclean_leader_election_enable": "true"}
DISABLED = {"unclean_leader_election_enable": "false"}


async def start(sim, **overrides):
    overrides = {"auto_leader_rebalance_enable": False, **overrides}
    return await Drive.start(sim, brokers=4, overrides=overrides)


@pytest.fixture
async def drive(sim):
    return await start(sim)


def phase(drive):
    return drive.context.partition_phase(ORDERS)


def state(leader, leader_epoch, *isr):
    return PartitionState(controller_epoch=1, leader=leader, leader_epoch=leader_epoch, isr=isr)


async def leave_only_the_lagging(drive):
    """Kill the only replica in sync; 4 and 3, in this order, are alive and lag behind."""
    await drive.create("orders", [2, 4, 3])
    await drive.write_state(ORDERS, state(2, 0, 2))
    await drive.kill(2)


async def without_leader(drive):
    await leave_only_the_lagging(drive)
    assert phase(drive) is PartitionPhase.OFFLINE
    assert drive.state("orders") == state(-1, 1, 2)  # who has the data is not forgotten
    drive.forget()


async def announce(drive, entity_type, name):
    """Tell every broker that a configuration was changed, as a tool would."""
    kind = ConfigChangeNotificationZNode
    entity = ConfigEntity(ConfigEntityType(entity_type), name)
    await drive.keeper.create(kind.prefix_path(), kind.encode(entity), sequential=True)
    await drive.settle()


# --- what it is -----------------------------------------------------------------------------------


@pytest.mark.behaviour("B061", "B062")
async def test_an_unclean_leader_is_the_first_alive_and_alone_in_sync_and_it_is_counted(drive):
    await drive.create("orders", [2, 4, 3])
    await drive.configure("topics", "orders", **ENABLED)
    await drive.write_state(ORDERS, state(2, 0, 2))
    drive.forget()
    assert drive.reign.office.partitions.unclean_elections == 0

    await drive.kill(2)

    assert drive.of(LeaderElected) == [
        LeaderElected("orders", 0, 4, 1, "4", 2, OFFLINE_STRATEGY, True, "2,4,3")
    ]
    assert drive.reign.office.partitions.unclean_elections == 1
    assert drive.state("orders") == state(4, 1, 4, 3)  # 3 has caught up with its new leader
    # KIP-704's leader_recovery_state came with 3.2: Kafka 2.8's znode says nothing of it.
    assert b"recovery" not in drive.tree.get("/brokers/topics/orders/partitions/0/state").data


@pytest.mark.behaviour("B061")
async def test_with_a_live_replica_in_sync_an_election_is_clean_although_it_need_not_be(drive):
    await drive.create("orders", [2, 4, 3])
    await drive.configure("topics", "orders", **ENABLED)
    await drive.write_state(ORDERS, state(2, 0, 2, 3))
    drive.forget()

    await drive.kill(2)

    assert drive.of(LeaderElected) == [
        LeaderElected("orders", 0, 3, 1, "3", 2, OFFLINE_STRATEGY, False, "2,4,3")
    ]
    assert drive.reign.office.partitions.unclean_elections == 0


# --- who allows it --------------------------------------------------------------------------------


@pytest.mark.behaviour("B062")
@pytest.mark.parametrize(
    ("static", "configs", "leader"),
    [
        (False, {}, -1),  # Kafka's default since 0.11
        (True, {}, 4),
        (False, {"topics/orders": ENABLED}, 4),
        (False, {"topics/returns": ENABLED}, -1),
        (False, {"brokers/<default>": ENABLED}, 4),
        (False, {"brokers/1": ENABLED}, 4),  # the controller's own
        (False, {"brokers/3": ENABLED}, -1),
        (True, {"topics/orders": DISABLED}, -1),
        (True, {"brokers/<default>": DISABLED}, -1),
        (True, {"brokers/1": DISABLED}, -1),
        (False, {"brokers/<default>": ENABLED, "topics/orders": DISABLED}, -1),
        (False, {"brokers/<default>": DISABLED, "topics/orders": ENABLED}, 4),
        (False, {"brokers/<default>": ENABLED, "brokers/1": DISABLED}, -1),
        (False, {"brokers/<default>": DISABLED, "brokers/1": ENABLED}, 4),
        (True, {"topics/orders": {"retention_ms": "1"}}, 4),  # says nothing of it
    ],
)
async def test_the_topic_decides_else_the_controllers_broker_else_all_brokers(
    sim, static, configs, leader
):
    drive = await start(sim, unclean_leader_election_enable=static)
    for entity, config in configs.items():
        await drive.configure(*entity.split("/"), **config)

    await leave_only_the_lagging(drive)

    assert drive.state("orders").leader == leader


@pytest.mark.behaviour("B062")
async def test_elect_leaders_forces_it_where_no_leader_lives_and_only_there(drive):
    await without_leader(drive)
    returns = await drive.create("returns", [3, 4])
    await drive.write_state(returns, state(3, 0, 3))
    drive.forget()

    answer = await drive.ask(
        1,
        ElectLeaders(
            election_type=ElectionType.UNCLEAN, partitions=(ORDERS, returns), timeout_ms=5_000
        ),
        ElectLeadersResponse,
    )
    await drive.settle()

    assert {each.partition: each.error_code for each in answer.partitions} == {
        ORDERS: ErrorCode.NONE,
        returns: ErrorCode.ELECTION_NOT_NEEDED,
    }
    assert [(each.topic, each.leader, each.is_unclean) for each in drive.of(LeaderElected)] == [
        ("orders", 4, True)
    ]
    assert drive.state("returns") == state(3, 0, 3)


# --- when it is enabled later ---------------------------------------------------------------------


@pytest.mark.behaviour("B049", "B063")
@pytest.mark.parametrize(
    ("entity_type", "name"), [("topics", "orders"), ("brokers", "<default>"), ("brokers", "1")]
)
async def test_enabling_it_makes_the_controller_try_what_has_no_leader(drive, entity_type, name):
    await without_leader(drive)
    await drive.configure(entity_type, name, **ENABLED)
    await drive.settle()
    assert phase(drive) is PartitionPhase.OFFLINE

    await announce(drive, entity_type, name)

    assert phase(drive) is PartitionPhase.ONLINE
    assert drive.of(LeaderElected) == [
        LeaderElected("orders", 0, 4, 2, "4", 3, OFFLINE_STRATEGY, True, "2,4,3")
    ]


@pytest.mark.behaviour("B063")
async def test_enabling_it_for_a_topic_tries_no_other_topic(drive):
    await without_leader(drive)
    await drive.create("returns", [2])  # its only broker is dead
    await drive.configure("topics", "orders", **ENABLED)  # not yet announced
    await drive.configure("topics", "returns", **ENABLED)

    await announce(drive, "topics", "returns")

    assert phase(drive) is PartitionPhase.OFFLINE
    assert drive.state("orders") == state(-1, 1, 2)


@pytest.mark.behaviour("B063")
async def test_disabling_it_tries_nothing(drive):
    await without_leader(drive)
    await drive.configure("topics", "orders", **ENABLED)  # whoever tries would succeed
    await drive.configure("brokers", "<default>", **DISABLED)

    await announce(drive, "brokers", "<default>")

    assert phase(drive) is PartitionPhase.OFFLINE
    assert drive.of(LeaderElected) == []
