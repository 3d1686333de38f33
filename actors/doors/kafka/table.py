"""What Kafka's clients may ask here.

Rule: one row an API, in its file; this is the list of them. ApiVersions answers from it, and so
does the documentation.
"""

from collections.abc import Mapping
from typing import Final

from actors.doors.kafka import (
    alter_configs,
    alter_partition_reassignments,
    api_versions,
    create_partitions,
    create_topics,
    delete_records,
    delete_topics,
    describe_cluster,
    describe_configs,
    describe_log_dirs,
    elect_leaders,
    fetch,
    incremental_alter_configs,
    list_offsets,
    list_partition_reassignments,
    metadata,
    offset_for_leader_epoch,
    produce,
)
from actors.doors.kafka.call import Api

APIS: Final[tuple[Api, ...]] = (
    produce.API,
    fetch.API,
    list_offsets.API,
    metadata.API,
    api_versions.API,
    create_topics.API,
    delete_topics.API,
    delete_records.API,
    offset_for_leader_epoch.API,
    describe_configs.API,
    alter_configs.API,
    describe_log_dirs.API,
    create_partitions.API,
    elect_leaders.API,
    incremental_alter_configs.API,
    alter_partition_reassignments.API,
    list_partition_reassignments.API,
    describe_cluster.API,
)
BY_KEY: Final[Mapping[int, Api]] = {each.key: each for each in APIS}
