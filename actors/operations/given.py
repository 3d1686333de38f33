"""What people may give, with its bounds.

Rule: every name and every list has a limit, so nothing that comes in can be without end.
"""

from typing import Annotated

from msgspec import Meta, Struct

TopicName = Annotated[str, Meta(min_length=1, max_length=249)]
GroupName = Annotated[str, Meta(min_length=1, max_length=249)]
EntityName = Annotated[str, Meta(max_length=249)]
PartitionNumber = Annotated[int, Meta(ge=0, le=2**31 - 1)]
BrokerNumber = Annotated[int, Meta(ge=0, le=2**31 - 1)]
Count = Annotated[int, Meta(ge=1, le=100_000)]
Topics = Annotated[list[TopicName], Meta(max_length=10_000)]
Brokers = Annotated[list[BrokerNumber], Meta(max_length=1_000)]
TimeoutMs = Annotated[int, Meta(ge=0, le=600_000)]
Text = Annotated[str, Meta(max_length=1 << 20)]
Configs = Annotated[dict[str, str], Meta(max_length=200)]
Headers = Annotated[dict[str, str], Meta(max_length=1_000)]
Assignments = Annotated[list[Brokers], Meta(max_length=100_000)]
OffsetNumber = Annotated[int, Meta(ge=0, le=2**63 - 1)]
TimestampMs = Annotated[int, Meta(ge=0, le=2**63 - 1)]


class PartitionGiven(Struct, kw_only=True, forbid_unknown_fields=True, frozen=True):
    """One partition."""

    topic: TopicName
    partition: PartitionNumber


class Nothing(Struct, kw_only=True, forbid_unknown_fields=True):
    """Nothing is needed."""
