"""ListGroups: the groups that this broker coordinates.

Rule: all groups here are classic ones; whoever asks for another type finds none.
"""

from typing import Final

from actors.doors.kafka.call import Api, Call
from wire.errors import ErrorCode
from wire.groups import ListGroups, ListGroupsResponse

TYPE: Final = "classic"


def serve(call: Call) -> None:
    """Those in the states asked for."""
    request = call.request
    types = [each.lower() for each in getattr(request, "types_filter", ())]
    if types and TYPE not in types:
        call.answer(error_code=ErrorCode.NONE, groups=())
        return
    wanted = ListGroups(states=tuple(getattr(request, "states_filter", ())))
    call.ask(wanted, lambda response: _answer(call, response))


def _answer(call: Call, response: ListGroupsResponse) -> None:
    call.answer(
        error_code=response.error_code,
        groups=[
            {
                "group_id": each.group_id,
                "protocol_type": each.protocol_type,
                "group_state": each.state,
                "group_type": TYPE,
            }
            for each in response.groups
        ],
    )


API: Final = Api(key=16, name="ListGroups", least=0, most=5, serve=serve)
