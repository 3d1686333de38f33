"""Every request is answered once, and can be refused in the form of its own response."""

import pytest
from hypothesis import given
from msgspec import Struct

from actors.asked import refusal
from actors.broker.api import ROUTES
from tests.support.drive import Drive
from tests.wire.strategies import fixed, values_of
from wire.admin import AlterPartitionReassignmentsResponse, CreateTopics, ElectionType, NewTopic
from wire.codec import RESPONSE_OF, decode, encode
from wire.configs import (
    AlterConfigOperation,
    ConfigChange,
    ConfigChanges,
    ConfigQuery,
    ConfigResource,
    ConfigResourceType,
    DescribeConfigs,
    IncrementalAlterConfigs,
)
from wire.errors import ApiError, ErrorCode, NotController
from wire.metadata import ApiVersionsResponse, Metadata, MetadataResponse, MetadataTopic

REQUESTS = tuple(RESPONSE_OF)
PARTS = ("topics", "partitions", "resources", "groups")
NO = NotController("ask another one")
SIMPLEST = {
    **dict.fromkeys(("partitions", "topics", "resources", "live_brokers", "groups", "members"), ()),
    **dict.fromkeys(("controller_id", "controller_epoch", "broker_id", "acks"), 1),
    **dict.fromkeys(("max_wait_ms", "min_bytes", "max_bytes", "timeout_ms"), 0),
    **dict.fromkeys(("key", "group_id", "member_id"), "group"),
    **dict.fromkeys(("session_timeout_ms", "generation_id"), 10_000),
    **dict.fromkeys(("producer_id", "producer_epoch"), 7),
    **dict.fromkeys(("markers", "transactional_ids"), ()),
    "transactional_id": "payments",
    "is_committed": True,
    "broker_epoch": -1,
    "election_type": ElectionType.PREFERRED,
}


def simplest(kind: type[Struct]) -> Struct:
    """A request of this kind that asks for nothing."""
    fields = kind.__struct_fields__
    return kind(**{name: value for name, value in SIMPLEST.items() if name in fields})


def errors_in(response: Struct) -> list[ErrorCode]:
    """All that a response says: of the whole, or of each thing in it."""
    if hasattr(response, "error_code"):
        return [response.error_code]
    parts = [each for each in PARTS if hasattr(response, each)]
    return [each.error_code for part in parts for each in getattr(response, part)]


@pytest.mark.parametrize("kind", REQUESTS, ids=lambda kind: kind.__name__)
def test_every_request_has_a_refusal_in_its_own_form(kind: type[Struct]):
    @fixed(25)
    @given(values_of(kind))
    def check(request: Struct) -> None:
        refused = refusal(request, NO)

        assert type(refused) is RESPONSE_OF[kind]
        assert set(errors_in(refused)) <= {ErrorCode.NOT_CONTROLLER}
        assert decode(encode(refused)) == refused
        if not hasattr(refused, "error_code"):  # then each thing asked for is refused
            asked = [each for each in PARTS if hasattr(request, each)]
            wanted = [each for name in asked for each in getattr(request, name) or ()]
            assert len(errors_in(refused)) == len(wanted)

    check()


def test_a_refusal_says_why_where_there_is_room_for_it():
    refused = refusal(CreateTopics(topics=(NewTopic(topic="orders"),), timeout_ms=0), NO)

    (topic,) = refused.topics
    assert (topic.topic, topic.error_code, topic.error_message) == (
        "orders",
        ErrorCode.NOT_CONTROLLER,
        "ask another one",
    )


def test_a_refused_configuration_names_its_resource():
    resource = ConfigResource(ConfigResourceType.TOPIC, "orders")
    change = ConfigChange("retention.ms", AlterConfigOperation.SET, "1")
    requests = (
        DescribeConfigs(resources=(ConfigQuery(resource),)),
        IncrementalAlterConfigs(resources=(ConfigChanges(resource, (change,)),)),
    )

    for request in requests:
        (refused,) = refusal(request, NO).resources
        assert (refused.resource, refused.error_code) == (resource, ErrorCode.NOT_CONTROLLER)


def test_refused_metadata_names_the_topics_that_were_asked_for_and_no_broker():
    refused = refusal(Metadata(topics=("orders",)), NO)

    topic = MetadataTopic(topic="orders", error_code=ErrorCode.NOT_CONTROLLER)
    assert refused == MetadataResponse(brokers=(), topics=(topic,))
    assert refusal(Metadata(topics=None), NO) == MetadataResponse(brokers=())


def test_what_is_no_request_is_refused_as_a_broker_refuses_what_it_does_not_know():
    refused = refusal(AlterPartitionReassignmentsResponse(), ApiError("what?"))

    assert refused == ApiVersionsResponse(error_code=ErrorCode.UNKNOWN_SERVER_ERROR)


@pytest.mark.parametrize("broker", [1, 2], ids=["controller", "other"])
@pytest.mark.parametrize("kind", REQUESTS, ids=lambda kind: kind.__name__)
async def test_every_request_is_answered_exactly_once(sim, kind, broker):
    drive = await Drive.start(sim, brokers=2)
    request = simplest(kind)
    drive.answers.clear()

    response = decode(await drive.call(broker, encode(request)))
    await drive.settle()

    answers = [each for each in drive.answers if (each.by, each.to) == (broker, "client")]
    assert [each.response for each in answers] == [response]
    is_spoken = kind in ROUTES or kind.__name__ == "ApiVersions"
    assert type(response) is (RESPONSE_OF[kind] if is_spoken else ApiVersionsResponse)
    assert drive.node(broker).system.is_up
