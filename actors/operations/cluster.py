"""Who is in the cluster.

Rule: as any broker was told by the controller.
"""

from typing import Final

from msgspec import Struct

from actors.clients import Clients
from actors.operations.given import Nothing
from actors.operations.operation import Operation


class BrokerDescribed(Struct):
    """One broker that is alive."""

    id: int
    address: str
    rack: str | None


class ClusterDescribed(Struct):
    """All that are alive, and who is the controller."""

    controller: int
    brokers: list[BrokerDescribed]


async def describe_cluster(clients: Clients, _: Nothing) -> ClusterDescribed:
    """Who is there."""
    described = await clients.admin().describe_cluster()
    return ClusterDescribed(
        described.controller_id,
        [
            BrokerDescribed(each.id, f"{each.host}:{each.port}", each.rack)
            for each in described.brokers
        ],
    )


OPERATIONS: Final = (
    Operation(
        "describeCluster",
        "GET",
        "/api/cluster",
        "The brokers that are alive, and the controller.",
        Nothing,
        ClusterDescribed,
        describe_cluster,
    ),
)
