import pytest

from actors.testing import TopicPartition, isr


@pytest.mark.cluster(brokers=3, config={"min.insync.replicas": 2})
async def test_what_was_acknowledged_outlives_the_leader(sim, faults):
    await sim.admin().create_topic("orders", assignments={0: (1, 2, 3)})
    async with sim.producer(acks="all") as producer:
        await producer.send("orders", b"coffee")
        await faults.kill(1)  # it leads the partition, and is the controller
        await producer.send("orders", b"tea")  # tried again until somebody leads
    await sim.until(isr("orders", 0) == {2, 3})
    async with sim.consumer(auto_offset_reset="earliest") as consumer:
        consumer.assign([TopicPartition("orders", 0)])
        assert [each.value for each in await consumer.poll(5_000)] == [b"coffee", b"tea"]
