"""DescribeGroups: who is in these groups, and who reads what.

Rule: a group that nobody knows is Dead; since version 6 that is an error.
"""

from typing import Any, Final

from actors.coordinator.group_states import GroupState
from actors.doors.kafka.call import Api, Call
from actors.doors.kafka.metadata import NOT_ASKED
from wire.errors import ErrorCode
from wire.groups import DescribedGroup, DescribeGroups, DescribeGroupsResponse

_UNKNOWN_IS_AN_ERROR: Final = 6  # version


def serve(call: Call) -> None:
    """One answer a group."""
    wanted = DescribeGroups(groups=tuple(call.request.groups))
    call.ask(wanted, lambda response: _answer(call, response))


def _answer(call: Call, response: DescribeGroupsResponse) -> None:
    call.answer(groups=[_group(call.version, each) for each in response.groups])


def _group(version: int, group: DescribedGroup) -> dict[str, Any]:
    code = group.error_code
    if version >= _UNKNOWN_IS_AN_ERROR and group.state == GroupState.DEAD.value:
        code = ErrorCode.GROUP_ID_NOT_FOUND
    return {
        "error_code": code,
        "error_message": None if code is ErrorCode.NONE else code.name,
        "group_id": group.group_id,
        "group_state": group.state,
        "protocol_type": group.protocol_type,
        "protocol_data": group.protocol,
        "members": [
            {
                "member_id": each.member_id,
                "group_instance_id": each.group_instance_id,
                "client_id": each.client_id,
                "client_host": each.client_host,
                "member_metadata": each.metadata,
                "member_assignment": each.assignment,
            }
            for each in group.members
        ],
        "authorized_operations": NOT_ASKED,
    }


API: Final = Api(key=15, name="DescribeGroups", least=0, most=6, serve=serve)
