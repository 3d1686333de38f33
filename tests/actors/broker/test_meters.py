"""What brokers count, on whole clusters, by Kafka's names."""

import pytest

from actors.broker.meters import Meters
from actors.doors.http.metrics import exposition
from actors.metrics import metrics_of
from tests.support.drive import Drive
from wire.admin import ElectionType, ElectLeaders, ElectLeadersResponse
from wire.data import (
    Fetch,
    FetchPartition,
    FetchResponse,
    Produce,
    ProducePartition,
    ProduceResponse,
)
from wire.errors import ErrorCode, InvalidRecord
from wire.ids import BrokerId, Offset, TopicPartition
from wire.message import PartitionResult
from wire.metadata import ApiVersionsResponse
from wire.observation import Observe, ObserveResponse

CONTROLLER = "kafka.controller:type=KafkaController,name="
STATS = "kafka.controller:type=ControllerStats,name="
EVENTS = "kafka.controller:type=ControllerEventManager,name="
REPLICAS = "kafka.server:type=ReplicaManager,name="
TOPICS = "kafka.server:type=BrokerTopicMetrics,name="
REQUESTS = "kafka.network:type=RequestMetrics,name="
STATE = "kafka.server:type=KafkaServer,name=BrokerState"
LAG = "kafka.server:type=ReplicaFetcherManager,name=MaxLag,clientId=Replica"
SOON = {"replica_socket_timeout_ms": 1_000}  # so a follower that was cut off asks again
PERCENTILES = ("50th", "75th", "95th", "98th", "99th", "999th")


def read(drive, broker):
    """Name → attribute → value."""
    return {each.mbean: dict(each.attributes) for each in metrics_of(drive.node(broker))}


def value(drive, broker, mbean):
    return read(drive, broker)[mbean]["Value"]


def count(drive, broker, mbean):
    return read(drive, broker)[mbean]["Count"]


async def produce(drive, topic, values, **options):
    async with drive.cluster.producer(**options) as producer:
        for each in values:
            await producer.send(topic, each, partition=0)


async def consume(drive, partition, wanted):
    async with drive.cluster.consumer(auto_offset_reset="earliest") as consumer:
        consumer.assign([partition])
        found = []
        while len(found) < wanted:
            found += await consumer.poll(timeout_ms=1_000)


async def test_every_broker_has_all_of_kafkas_names(sim):
    drive = await Drive.start(sim)

    for broker in (1, 2, 3):
        assert read(drive, broker).keys() >= {
            *(
                f"{CONTROLLER}{name}"
                for name in (
                    "ActiveControllerCount",
                    "OfflinePartitionsCount",
                    "GlobalTopicCount",
                    "GlobalPartitionCount",
                    "PreferredReplicaImbalanceCount",
                )
            ),
            *(
                f"{STATS}{name}"
                for name in ("LeaderElectionRateAndTimeMs", "UncleanLeaderElectionsPerSec")
            ),
            *(f"{EVENTS}{name}" for name in ("EventQueueTimeMs", "EventQueueSize")),
            *(
                f"{REPLICAS}{name}"
                for name in (
                    "UnderReplicatedPartitions",
                    "LeaderCount",
                    "PartitionCount",
                    "OfflineReplicaCount",
                    "UnderMinIsrPartitionCount",
                    "IsrShrinksPerSec",
                    "IsrExpandsPerSec",
                )
            ),
            *(
                f"{TOPICS}{name}PerSec"
                for name in (
                    "MessagesIn",
                    "BytesIn",
                    "BytesOut",
                    "ReplicationBytesIn",
                    "ReplicationBytesOut",
                    "TotalProduceRequests",
                    "TotalFetchRequests",
                    "FailedProduceRequests",
                    "FailedFetchRequests",
                )
            ),
            STATE,
            LAG,
        }


async def test_only_the_controller_counts_what_only_it_knows(sim):
    drive = await Drive.start(sim)
    await drive.create("orders", {0: [1, 2], 1: [2, 3]})
    await drive.create("parcels", [3, 1])

    counted = {
        broker: [
            value(drive, broker, f"{CONTROLLER}{name}")
            for name in ("ActiveControllerCount", "GlobalTopicCount", "GlobalPartitionCount")
        ]
        for broker in (1, 2, 3)
    }
    assert counted == {1: [1, 2, 3], 2: [0, 0, 0], 3: [0, 0, 0]}


async def test_the_death_of_a_leader_is_in_the_numbers(sim):
    drive = await Drive.start(sim)
    await drive.create("orders", {0: [3, 2], 1: [1, 3], 2: [3]})
    before = count(drive, 1, f"{STATS}LeaderElectionRateAndTimeMs")

    await drive.kill(3)

    assert value(drive, 1, f"{CONTROLLER}OfflinePartitionsCount") == 1
    assert value(drive, 1, f"{CONTROLLER}PreferredReplicaImbalanceCount") == 2  # 0, and 2 has none
    assert value(drive, 1, f"{REPLICAS}UnderReplicatedPartitions") == 1
    assert value(drive, 2, f"{REPLICAS}UnderReplicatedPartitions") == 1
    assert value(drive, 2, f"{REPLICAS}LeaderCount") == 1
    elections = read(drive, 1)[f"{STATS}LeaderElectionRateAndTimeMs"]
    assert elections["Count"] > before
    assert elections["999thPercentile"] > 0
    assert set(elections) == {"Count", *(f"{each}Percentile" for each in PERCENTILES)}


async def test_an_unclean_election_is_counted_also_after_the_reign(sim):
    drive = await Drive.start(sim)
    await drive.create("orders", [2, 3])
    await drive.configure("topics", "orders", unclean_leader_election_enable="true")
    drive.shrink(3, TopicPartition("orders", 0))
    await drive.settle()

    await drive.kill(2)
    assert count(drive, 1, f"{STATS}UncleanLeaderElectionsPerSec") == 1

    await drive.depose()
    assert count(drive, 1, f"{STATS}UncleanLeaderElectionsPerSec") == 1


async def test_records_and_bytes_are_counted_where_they_come_in_and_go_out(sim):
    drive = await Drive.start(sim)
    orders = await drive.create("orders", [1, 2])

    await produce(drive, "orders", [b"x" * 100] * 5, acks=-1)
    await drive.settle()
    await consume(drive, orders, 5)

    leader = {
        name: count(drive, 1, f"{TOPICS}{name}PerSec")
        for name in ("MessagesIn", "BytesIn", "BytesOut", "ReplicationBytesOut")
    }
    assert leader["MessagesIn"] == 5
    assert leader["BytesIn"] > 500
    assert leader["BytesOut"] == leader["BytesIn"]
    assert leader["ReplicationBytesOut"] == leader["BytesIn"]
    assert count(drive, 2, f"{TOPICS}ReplicationBytesInPerSec") == leader["BytesIn"]
    assert count(drive, 2, f"{TOPICS}MessagesInPerSec") == 0
    assert count(drive, 1, f"{TOPICS}TotalProduceRequestsPerSec") == 5
    assert count(drive, 1, f"{TOPICS}TotalFetchRequestsPerSec") > 5


async def test_a_follower_that_is_behind_says_how_far(sim):
    fetches = {"replica_fetch_max_bytes": 1_000, "replica_lag_time_max_ms": 2_000}
    drive = await Drive.start(sim, overrides=fetches | SOON)
    await drive.create("orders", [1, 2])
    sim.cut("broker-1", "broker-2")
    await produce(drive, "orders", [b"x" * 900] * 20, acks=1)
    await drive.settle()  # it is out of sync by then, and all of it committed
    lags = []
    meters = drive.node(2).replica_manager.meters
    followed = type(meters).followed

    def follow(self, partition, size, behind):
        followed(self, partition, size, behind)
        lags.append(value(drive, 2, LAG))

    type(meters).followed = follow
    try:
        sim.heal()
        await drive.settle()
    finally:
        type(meters).followed = followed

    assert max(lags) == 19
    assert lags[-1] == 0
    assert value(drive, 1, LAG) == 0


async def test_who_does_not_follow_is_not_behind(sim):
    drive = await Drive.start(sim)
    orders = await drive.create("orders", [1, 2])
    drive.node(2).replica_manager.meters.followed(orders, 0, behind=5)
    assert value(drive, 2, LAG) == 5

    await drive.kill(1)  # and broker 2 leads

    assert value(drive, 2, LAG) == 0


async def test_who_leaves_and_joins_the_isr_is_counted(sim):
    drive = await Drive.start(sim, brokers=2, overrides={"min_insync_replicas": 2} | SOON)
    orders = await drive.create("orders", [1, 2])
    before = count(drive, 1, f"{REPLICAS}IsrExpandsPerSec")
    sim.cut("broker-1", "broker-2")
    drive.shrink(2, orders)
    await drive.settle()

    assert count(drive, 1, f"{REPLICAS}IsrShrinksPerSec") == 1
    assert value(drive, 1, f"{REPLICAS}UnderMinIsrPartitionCount") == 1
    assert count(drive, 1, f"{REPLICAS}IsrExpandsPerSec") == before

    sim.heal()
    await drive.settle()
    assert count(drive, 1, f"{REPLICAS}IsrExpandsPerSec") == before + 1
    assert value(drive, 1, f"{REPLICAS}UnderMinIsrPartitionCount") == 0


async def test_what_was_refused_is_counted_and_a_failure_only_if_nobody_had_to_expect_it(sim):
    drive = await Drive.start(sim, brokers=2, overrides={"min_insync_replicas": 2} | SOON)
    orders = await drive.create("orders", [1, 2])
    sim.cut("broker-1", "broker-2")
    drive.shrink(2, orders)
    await drive.settle()

    def sending(partition):
        part = ProducePartition(partition=partition, records=memoryview(b""))
        return Produce(acks=-1, timeout_ms=1_000, partitions=(part,))

    await drive.ask(1, sending(orders), ProduceResponse)  # NOT_ENOUGH_REPLICAS
    await drive.ask(1, sending(TopicPartition("nothing", 0)), ProduceResponse)

    assert count(drive, 1, f"{TOPICS}FailedProduceRequestsPerSec") == 1
    assert count(drive, 1, f"{TOPICS}TotalProduceRequestsPerSec") == 2
    errors = f"{REQUESTS}ErrorsPerSec,request=Produce,error="
    assert count(drive, 1, f"{errors}NOT_ENOUGH_REPLICAS") == 1
    assert count(drive, 1, f"{errors}UNKNOWN_TOPIC_OR_PARTITION") == 1


async def test_a_read_that_fails_is_counted_unless_it_was_to_be_expected(sim):
    drive = await Drive.start(sim)
    orders = await drive.create("orders", [1])
    await produce(drive, "orders", [b"value"], acks=1)

    async def fetch(offset):
        part = FetchPartition(partition=orders, fetch_offset=Offset(offset), max_bytes=1_000)
        request = Fetch(
            replica_id=BrokerId(-1), max_wait_ms=0, min_bytes=1, max_bytes=1_000, partitions=(part,)
        )
        return (await drive.ask(1, request, FetchResponse)).partitions[0].error_code

    assert await fetch(99) is ErrorCode.OFFSET_OUT_OF_RANGE
    assert count(drive, 1, f"{TOPICS}FailedFetchRequestsPerSec") == 0

    def rotten(*_, **__):
        raise InvalidRecord("a bug wrote this")

    drive.node(1).replica_manager.leading.serving._read = rotten
    assert await fetch(0) is ErrorCode.INVALID_RECORD
    assert count(drive, 1, f"{TOPICS}FailedFetchRequestsPerSec") == 1


async def test_a_request_is_timed_from_its_coming_to_its_answer(sim):
    drive = await Drive.start(sim)
    orders = await drive.create("orders", [1])
    part = FetchPartition(partition=orders, fetch_offset=Offset(0), max_bytes=1_000)
    waiting = Fetch(
        replica_id=BrokerId(-1), max_wait_ms=700, min_bytes=1, max_bytes=1_000, partitions=(part,)
    )

    await drive.ask(1, waiting, FetchResponse)

    measured = read(drive, 1)
    assert measured[f"{REQUESTS}RequestsPerSec,request=FetchConsumer"]["Count"] == 1
    times = measured[f"{REQUESTS}TotalTimeMs,request=FetchConsumer"]
    assert times["Count"] == 1
    assert times["50thPercentile"] == pytest.approx(700, abs=5)
    followers = measured.get(f"{REQUESTS}RequestsPerSec,request=FetchFollower", {"Count": 0})
    total = measured[f"{REQUESTS}RequestsPerSec,request=Fetch"]["Count"]
    assert total == 1 + followers["Count"]
    assert measured[f"{REQUESTS}TotalTimeMs,request=LeaderAndIsr"]["Count"] >= 1


async def test_a_failed_disk_is_counted(sim):
    drive = await Drive.start(sim)
    orders = await drive.create("orders", [2, 1])

    await drive.fail_disk(2, orders)

    assert value(drive, 2, f"{REPLICAS}OfflineReplicaCount") == 1
    assert value(drive, 2, f"{REPLICAS}PartitionCount") == 0


async def test_a_broker_says_what_it_does_in_kafkas_numbers(sim):
    drive = await Drive.start(sim)
    assert [value(drive, broker, STATE) for broker in (1, 2, 3)] == [3, 3, 3]

    await drive.stop(3)
    assert value(drive, 3, STATE) == 0


async def test_anybody_may_ask_a_broker_for_its_metrics(sim):
    drive = await Drive.start(sim)

    observed = await drive.ask(2, Observe(metrics=True), ObserveResponse)

    assert {each.mbean for each in observed.metrics} >= {STATE, LAG}


async def test_a_look_changes_nothing(sim):
    drive = await Drive.start(sim)
    await drive.create("orders", [1, 2])

    assert metrics_of(drive.node(1)) == metrics_of(drive.node(1))


async def test_the_names_that_dashboards_know_are_there(sim):
    drive = await Drive.start(sim)
    await drive.create("orders", [1, 2])
    await produce(drive, "orders", [b"value"], acks=-1)
    brokers = {each: metrics_of(drive.node(each)) for each in (1, 2, 3)}

    lines = exposition(brokers, "")[0].decode().splitlines()

    for wanted in (
        'kafka_controller_kafkacontroller_activecontrollercount{broker="1"} 1.0',
        'kafka_controller_kafkacontroller_activecontrollercount{broker="2"} 0.0',
        'kafka_server_replicamanager_underreplicatedpartitions{broker="1"} 0.0',
        'kafka_server_brokertopicmetrics_messagesin_total{broker="1"} 1.0',
        'kafka_network_requestmetrics_totaltimems_count{broker="1",request="Produce"} 1.0',
        'kafka_server_replicafetchermanager_maxlag{broker="2",clientid="Replica"} 0.0',
        'kafka_server_kafkaserver_brokerstate{broker="3"} 3.0',
    ):
        assert wanted in lines
    for begun in (
        'kafka_network_requestmetrics_totaltimems{broker="1",quantile="0.99",request="Produce"} ',
        "kafka_controller_controllerstats_leaderelectionrateandtimems_count{",
        "kafka_controller_controllereventmanager_eventqueuetimems{",
    ):
        assert any(line.startswith(begun) for line in lines), begun


def test_errors_are_found_wherever_a_response_has_them():
    meters = Meters()
    request = ElectLeaders(election_type=ElectionType.PREFERRED, partitions=None, timeout_ms=1)
    code = ErrorCode.ELECTION_NOT_NEEDED
    results = (
        PartitionResult(TopicPartition("a", 0), code),
        PartitionResult(TopicPartition("a", 1)),
    )
    found = [
        meters.answered(request, ElectLeadersResponse(partitions=results), 1.0),
        meters.answered(request, ApiVersionsResponse(error_code=ErrorCode.NOT_CONTROLLER), 1.0),
        meters.answered(request, ElectLeadersResponse(partitions=()), 1.0),
    ]

    assert found == [[code], [ErrorCode.NOT_CONTROLLER], []]
    assert meters.requests["ElectLeaders"].errors == {code: 1, ErrorCode.NOT_CONTROLLER: 1}
