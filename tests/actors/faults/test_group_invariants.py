"""What members of a group are told: sound when it is, and found when it is not."""

import pytest

from actors.faults.groups import OneAssignmentAGeneration, OneReaderAGeneration
from actors.faults.invariant import Exchange
from wire.consumer_protocol import ConsumerAssignment, encode_assignment
from wire.errors import ErrorCode
from wire.groups import SyncGroup, SyncGroupResponse
from wire.ids import BrokerId, TopicPartition
from wire.trace import GroupForgotten

ORDERS = TopicPartition("orders", 0)
BILLS = TopicPartition("bills", 0)


class Told:
    """An invariant, and what members are told."""

    def __init__(self, kind, voided=()):
        self.invariant = kind(voided)
        self.invariant.findings = []

    def tell(self, member, *partitions, generation=1, code=ErrorCode.NONE, **options):
        request = SyncGroup(group_id="g", generation_id=generation, member_id=member, **options)
        assignment = encode_assignment(ConsumerAssignment(partitions=partitions))
        response = SyncGroupResponse(error_code=code, assignment=assignment)
        self.invariant.on_answered(Exchange(BrokerId(1), request, response, 1, 2), None)

    @property
    def names(self):
        return [each.invariant for each in self.invariant.findings]


@pytest.mark.parametrize("kind", [OneAssignmentAGeneration, OneReaderAGeneration])
def test_a_group_that_shares_well_is_not_blamed(kind):
    told = Told(kind)
    told.tell("a", ORDERS)
    told.tell("b", BILLS)
    told.tell("a", ORDERS)
    told.tell("a", BILLS, code=ErrorCode.REBALANCE_IN_PROGRESS)
    told.tell("a", BILLS, generation=2)
    told.tell("b", ORDERS, generation=2)
    told.invariant.on_event("broker-1", GroupForgotten("g", 2, "expired"))
    told.tell("c", ORDERS)

    assert told.names == []


@pytest.mark.behaviour("I-26")
def test_a_generation_that_is_told_differently_is_found():
    told = Told(OneAssignmentAGeneration)
    told.tell("a", ORDERS)
    told.tell("a", BILLS)

    assert told.names == ["I-26"]


@pytest.mark.behaviour("I-27")
def test_a_partition_with_two_readers_is_found():
    told = Told(OneReaderAGeneration)
    told.tell("a", ORDERS)
    told.tell("b", ORDERS, BILLS)

    assert told.names == ["I-27"]
    assert told.invariant.findings[0].partition == ORDERS


def test_a_static_member_under_another_id_is_who_it_was():
    told = Told(OneReaderAGeneration)
    told.tell("a-1", ORDERS, group_instance_id="a")
    told.tell("a-2", ORDERS, group_instance_id="a")

    assert told.names == []


@pytest.mark.parametrize("kind", [OneAssignmentAGeneration, OneReaderAGeneration])
def test_where_a_groups_log_lost_something_a_generation_may_come_again(kind):
    told = Told(kind, voided={TopicPartition("__consumer_offsets", 3)})
    told.tell("a", ORDERS)
    told.tell("a", BILLS)
    told.tell("b", BILLS)

    assert told.names == []
