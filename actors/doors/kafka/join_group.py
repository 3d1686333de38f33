"""JoinGroup: let me into the next generation.

Rule: answered when the generation begins. What a version lacks is what its clients cannot do.
"""

from typing import Any, Final

from actors.doors.kafka.call import Api, Call
from actors.doors.kafka.shapes import milliseconds
from wire.errors import ErrorCode
from wire.groups import JoinGroup, JoinGroupResponse, JoinProtocol

_KNOWS_ITS_ID: Final = 4  # version: a member comes twice (KIP-394)
_NAME_MAY_BE_NULL: Final = 7
_MAY_SKIP: Final = 9  # version: its leader need not assign anew (KIP-814)


def serve(call: Call) -> None:
    """Who joins, and what it wants."""
    request = call.request
    rebalance = getattr(request, "rebalance_timeout", None)  # before version 1: as the session's
    wanted = JoinGroup(
        group_id=request.group_id,
        session_timeout_ms=milliseconds(request.session_timeout),
        rebalance_timeout_ms=-1 if rebalance is None else milliseconds(rebalance),
        member_id=request.member_id,
        group_instance_id=getattr(request, "group_instance_id", None),
        protocol_type=request.protocol_type,
        protocols=tuple(JoinProtocol(each.name, each.metadata) for each in request.protocols),
        reason=getattr(request, "reason", None),
        client_id=call.header.client_id or "",
        client_host=f"/{_host(call.reception.source)}",  # as Java writes an address
        requires_known_member_id=call.version >= _KNOWS_ITS_ID,
        supports_skipping_assignment=call.version >= _MAY_SKIP,
    )
    call.ask(wanted, lambda response: _answer(call, response))


def _host(source: str) -> str:
    return source.rpartition(":")[0] or source


def _answer(call: Call, response: JoinGroupResponse) -> None:
    name = response.protocol_name
    if name is None and call.version < _NAME_MAY_BE_NULL:
        name = ""
    members: list[dict[str, Any]] = [
        {
            "member_id": each.member_id,
            "group_instance_id": each.group_instance_id,
            "metadata": each.metadata,
        }
        for each in response.members
    ]
    call.answer(
        error_code=response.error_code,
        generation_id=response.generation_id,
        protocol_type=response.protocol_type if response.error_code is ErrorCode.NONE else None,
        protocol_name=name,
        leader=response.leader,
        skip_assignment=response.skip_assignment,
        member_id=response.member_id,
        members=members,
    )


API: Final = Api(key=11, name="JoinGroup", least=0, most=9, serve=serve)
