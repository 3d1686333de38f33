"""SyncGroup: what is mine in this generation?

Rule: answered when the leader's assignment is in the log.
"""

from typing import Final

from actors.doors.kafka.call import Api, Call
from wire.groups import MemberAssignment, SyncGroup, SyncGroupResponse


def serve(call: Call) -> None:
    """The leader says what everybody gets."""
    request = call.request
    wanted = SyncGroup(
        group_id=request.group_id,
        generation_id=request.generation_id,
        member_id=request.member_id,
        group_instance_id=getattr(request, "group_instance_id", None),
        protocol_type=getattr(request, "protocol_type", None),
        protocol_name=getattr(request, "protocol_name", None),
        assignments=tuple(
            MemberAssignment(each.member_id, each.assignment) for each in request.assignments
        ),
    )
    call.ask(wanted, lambda response: _answer(call, response))


def _answer(call: Call, response: SyncGroupResponse) -> None:
    call.answer(
        error_code=response.error_code,
        protocol_type=response.protocol_type,
        protocol_name=response.protocol_name,
        assignment=response.assignment,
    )


API: Final = Api(key=14, name="SyncGroup", least=0, most=5, serve=serve)
