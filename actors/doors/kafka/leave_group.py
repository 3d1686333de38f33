"""LeaveGroup: go on without me.

Rule: since version 3 several may leave at once; before that the one member's error is the answer's.
"""

from typing import Final

from actors.doors.kafka.call import Api, Call
from wire.errors import ErrorCode
from wire.groups import LeaveGroup, LeaveGroupResponse, LeavingMember

_SEVERAL: Final = 3  # version


def serve(call: Call) -> None:
    """Members, by their ids or their instances."""
    request = call.request
    if call.version >= _SEVERAL:
        members = tuple(
            LeavingMember(
                member_id=each.member_id,
                group_instance_id=each.group_instance_id,
                reason=getattr(each, "reason", None),
            )
            for each in request.members
        )
    else:
        members = (LeavingMember(member_id=request.member_id),)
    wanted = LeaveGroup(group_id=request.group_id, members=members)
    call.ask(wanted, lambda response: _answer(call, response))


def _answer(call: Call, response: LeaveGroupResponse) -> None:
    code = response.error_code
    if call.version < _SEVERAL and code is ErrorCode.NONE:
        code = response.members[0].error_code
    call.answer(
        error_code=code,
        members=[
            {
                "member_id": each.member_id,
                "group_instance_id": each.group_instance_id,
                "error_code": each.error_code,
            }
            for each in response.members
        ],
    )


API: Final = Api(key=13, name="LeaveGroup", least=0, most=5, serve=serve)
