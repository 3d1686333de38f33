"""DescribeCluster: who is in the cluster.

Rule: brokers only. Controllers are brokers here, so nobody has an endpoint for them alone.
"""

from typing import Any, Final

from actors.doors.kafka.call import Api, Call
from wire.errors import ErrorCode
from wire.ids import Node
from wire.metadata import DescribeCluster, DescribeClusterResponse

BROKERS: Final = 1  # the type of endpoint
NOT_ASKED: Final = -(2**31)


def serve(call: Call) -> None:
    """What this broker was told."""
    wanted = getattr(call.request, "endpoint_type", BROKERS)
    if wanted != BROKERS:
        call.answer(
            error_code=ErrorCode.UNSUPPORTED_ENDPOINT_TYPE,
            error_message=f"There are no endpoints of type {wanted}.",
            endpoint_type=wanted,
            cluster_id="",
            brokers=(),
        )
        return
    call.ask(DescribeCluster(listener=call.hall.listener), lambda response: _answer(call, response))


def _answer(call: Call, response: DescribeClusterResponse) -> None:
    call.answer(
        error_code=response.error_code,
        error_message=response.error_message,
        endpoint_type=BROKERS,
        cluster_id=response.cluster_id,
        controller_id=response.controller_id,
        brokers=map(_broker, response.brokers),
        cluster_authorized_operations=NOT_ASKED,
    )


def _broker(node: Node) -> dict[str, Any]:
    return {
        "broker_id": node.id,
        "host": node.host,
        "port": node.port,
        "rack": node.rack,
        "is_fenced": False,
    }


API: Final = Api(key=60, name="DescribeCluster", least=0, most=2, serve=serve)
