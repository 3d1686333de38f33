"""Names and values as a Prometheus that scrapes Kafka's JMX exporter knows them."""

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as open_families
from prometheus_client.parser import text_string_to_metric_families as families

from actors.doors.http.metrics import exposition
from tests.support.fake_source import FakeSource, served
from wire.observation import Metric

OPEN = "application/openmetrics-text; version=1.0.0"


def gauge(mbean, value):
    return Metric(mbean, (("Value", value),))


METRICS = {
    1: (
        gauge("kafka.controller:type=KafkaController,name=ActiveControllerCount", 1.0),
        gauge("kafka.server:type=ReplicaManager,name=UnderReplicatedPartitions", 2.0),
        gauge("kafka.server:type=ReplicaFetcherManager,name=MaxLag,clientId=Replica", 7.0),
        Metric("kafka.server:type=BrokerTopicMetrics,name=MessagesInPerSec", (("Count", 40.0),)),
        Metric(
            "kafka.network:type=RequestMetrics,name=TotalTimeMs,request=Produce",
            (("Count", 3.0), ("50thPercentile", 1.5), ("999thPercentile", 9.5)),
        ),
        Metric(
            "kafka.network:type=RequestMetrics,name=ErrorsPerSec,request=Produce,error=NOT_LEADER",
            (("Count", 2.0),),
        ),
        Metric(
            "kafka.controller:type=ControllerStats,name=LeaderElectionRateAndTimeMs",
            (("Count", 5.0), ("99thPercentile", 12.0)),
        ),
    ),
    2: (gauge("kafka.controller:type=KafkaController,name=ActiveControllerCount", 0.0),),
}
EXPECTED = [
    ("kafka_controller_kafkacontroller_activecontrollercount", {"broker": "1"}, 1.0),
    ("kafka_controller_kafkacontroller_activecontrollercount", {"broker": "2"}, 0.0),
    ("kafka_server_replicamanager_underreplicatedpartitions", {"broker": "1"}, 2.0),
    (
        "kafka_server_replicafetchermanager_maxlag",
        {"broker": "1", "clientid": "Replica"},
        7.0,
    ),
    ("kafka_server_brokertopicmetrics_messagesin_total", {"broker": "1"}, 40.0),
    (
        "kafka_network_requestmetrics_totaltimems",
        {"broker": "1", "request": "Produce", "quantile": "0.50"},
        1.5,
    ),
    (
        "kafka_network_requestmetrics_totaltimems",
        {"broker": "1", "request": "Produce", "quantile": "0.999"},
        9.5,
    ),
    ("kafka_network_requestmetrics_totaltimems_count", {"broker": "1", "request": "Produce"}, 3.0),
    (
        "kafka_network_requestmetrics_errors_total",
        {"broker": "1", "request": "Produce", "error": "NOT_LEADER"},
        2.0,
    ),
    ("kafka_controller_controllerstats_leaderelectionrateandtimems_count", {"broker": "1"}, 5.0),
    (
        "kafka_controller_controllerstats_leaderelectionrateandtimems",
        {"broker": "1", "quantile": "0.99"},
        12.0,
    ),
]


@pytest.mark.parametrize(("accept", "parse"), [("", families), (OPEN, open_families)])
def test_names_are_what_the_rules_of_the_jmx_exporter_make_of_them(accept, parse):
    body, content_type = exposition(METRICS, accept)

    samples = [each for family in parse(body.decode()) for each in family.samples]
    found = [(each.name, dict(each.labels), each.value) for each in samples]
    assert sorted(found, key=str) == sorted(EXPECTED, key=str)
    assert content_type.startswith("application/openmetrics-text" if accept else "text/plain")


async def test_the_address_answers_in_either_form():
    async with served(FakeSource()) as (_, client):
        async with client.get("/metrics") as answer:
            assert answer.status == 200
            assert answer.content_type == "text/plain"
            assert "messagesin_total{" in await answer.text()
        async with client.get("/metrics", headers={"Accept": OPEN}) as answer:
            assert answer.content_type == "application/openmetrics-text"
            assert (await answer.text()).endswith("# EOF\n")


def test_a_topic_that_bites_is_quoted():
    mbean = 'kafka.server:type=BrokerTopicMetrics,name=BytesInPerSec,topic=a"b\\c'
    body, _ = exposition({1: (Metric(mbean, (("Count", 1.0),)),)}, "")

    (sample,) = [each for family in families(body.decode()) for each in family.samples]
    assert sample.labels["topic"] == 'a"b\\c'
