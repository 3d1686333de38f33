"""What flush.messages promises: who was told of a record finds it after a power cut."""

import pytest

from actors.broker.log.log import Log
from actors.names import node_name
from tests.support.data import produce, values_on
from tests.support.drive import Drive
from wire.errors import ErrorCode, KafkaStorageError


async def lose_power_after(sim, replicas: list[int], acks: int, **config: str) -> Drive:
    """Replicas lose power, and all that is not synced, as soon as a record is acknowledged."""
    drive = await Drive.start(sim, 3)
    await drive.configure("topics", "orders", **config)
    orders = await drive.create("orders", replicas)
    result = await produce(drive, orders, b"acknowledged", acks=acks)
    assert result.error_code is ErrorCode.NONE
    for broker in replicas:
        sim.lose_unsynced(node_name(broker))
        drive.cluster.kill(broker)
    for broker in replicas:
        await drive.cluster.start_broker(broker)
    await drive.settle()
    return drive


@pytest.mark.parametrize(("replicas", "acks"), [([2], 1), ([2], -1), ([2, 3], -1)])
async def test_a_record_is_durable_before_it_is_acknowledged(sim, replicas, acks):
    drive = await lose_power_after(sim, replicas, acks, flush_messages="1")

    (orders,) = drive.node(2).replica_manager.replicas
    assert [values_on(drive, each, orders) for each in replicas] == [[b"acknowledged"]] * len(
        replicas
    )


async def test_without_it_a_power_cut_of_all_replicas_may_take_records(sim):
    drive = await lose_power_after(sim, [2, 3], -1)

    (orders,) = drive.node(2).replica_manager.replicas
    assert [values_on(drive, each, orders) for each in (2, 3)] == [[], []]


async def test_a_record_that_cannot_be_made_durable_is_not_acknowledged(sim, monkeypatch):
    drive = await Drive.start(sim, 3)
    await drive.configure("topics", "orders", flush_messages="1")
    orders = await drive.create("orders", [2, 3])

    async def refuse(*_: object) -> None:
        raise KafkaStorageError("the disk has failed")

    monkeypatch.setattr(Log, "flush", refuse)
    result = await produce(drive, orders, b"a", acks=1)

    assert result.error_code is ErrorCode.KAFKA_STORAGE_ERROR
