"""All operations.

Rule: whoever writes one adds it here; the command line and HTTP both read this.
"""

from typing import Final

from actors.operations import cluster, configs, elections, groups, reassignments, records, topics
from actors.operations.operation import Operation

OPERATIONS: Final[tuple[Operation, ...]] = (
    *cluster.OPERATIONS,
    *topics.OPERATIONS,
    *configs.OPERATIONS,
    *reassignments.OPERATIONS,
    *elections.OPERATIONS,
    *records.OPERATIONS,
    *groups.OPERATIONS,
)
