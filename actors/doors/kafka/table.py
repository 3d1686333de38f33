"""What Kafka's clients may ask here.

Rule: one row an API, in its file; this is the list of them. ApiVersions answers from it, and so
does the documentation.
"""

from collections.abc import Mapping
from typing import Final

from actors.doors.kafka import (
    add_offsets_to_txn,
    add_partitions_to_txn,
    alter_configs,
    alter_partition_reassignments,
    api_versions,
    create_partitions,
    create_topics,
    delete_groups,
    delete_records,
    delete_topics,
    describe_cluster,
    describe_configs,
    describe_groups,
    describe_log_dirs,
    describe_transactions,
    elect_leaders,
    end_txn,
    fetch,
    find_coordinator,
    heartbeat,
    incremental_alter_configs,
    init_producer_id,
    join_group,
    leave_group,
    list_groups,
    list_offsets,
    list_partition_reassignments,
    list_transactions,
    metadata,
    offset_commit,
    offset_delete,
    offset_fetch,
    offset_for_leader_epoch,
    produce,
    sasl_authenticate,
    sasl_handshake,
    sync_group,
    txn_offset_commit,
    write_txn_markers,
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
    sasl_handshake.API,
    api_versions.API,
    create_topics.API,
    delete_topics.API,
    delete_records.API,
    init_producer_id.API,
    offset_for_leader_epoch.API,
    add_partitions_to_txn.API,
    add_offsets_to_txn.API,
    end_txn.API,
    write_txn_markers.API,
    txn_offset_commit.API,
    describe_configs.API,
    alter_configs.API,
    describe_log_dirs.API,
    sasl_authenticate.API,
    create_partitions.API,
    delete_groups.API,
    elect_leaders.API,
    incremental_alter_configs.API,
    alter_partition_reassignments.API,
    list_partition_reassignments.API,
    offset_delete.API,
    describe_cluster.API,
    describe_transactions.API,
    list_transactions.API,
)
BY_KEY: Final[Mapping[int, Api]] = {each.key: each for each in APIS}


def documentation() -> str:
    """What README.md beside this file says: a test compares them."""
    rows = [
        f"| {api.key} | {api.name} | {api.least} to {api.most} |"
        for api in sorted(APIS, key=lambda api: api.key)
    ]
    return "\n".join(
        [
            "# Kafka's protocol: what is spoken",
            "",
            "Made from table.py, as the answer to ApiVersions is.",
            "",
            "| key | API | versions |",
            "|---|---|---|",
            *rows,
            "",
        ]
    )
