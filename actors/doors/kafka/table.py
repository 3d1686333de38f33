"""What Kafka's clients may ask here.

Rule: one row an API, in its file; this is the list of them. ApiVersions answers from it, and so
does the documentation.
"""

from collections.abc import Mapping
from typing import Final

from actors.doors.kafka import (
    api_versions,
    delete_groups,
    describe_groups,
    fetch,
    find_coordinator,
    heartbeat,
    join_group,
    leave_group,
    list_groups,
    list_offsets,
    metadata,
    offset_commit,
    offset_delete,
    offset_fetch,
    produce,
    sync_group,
)
from actors.doors.kafka.call import Api

APIS: Final[tuple[Api, ...]] = (
    produce.API,
    fetch.API,
    list_offsets.API,
    metadata.API,
    offset_commit.API,
    offset_fetch.API,
    find_coordinator.API,
    join_group.API,
    heartbeat.API,
    leave_group.API,
    sync_group.API,
    describe_groups.API,
    list_groups.API,
    api_versions.API,
    delete_groups.API,
    offset_delete.API,
)
BY_KEY: Final[Mapping[int, Api]] = {each.key: each for each in APIS}
