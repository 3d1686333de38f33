"""DeleteGroups: forget these, which nobody is a member of.

Rule: one answer a group, when its tombstones are in the log.
"""

from typing import Final

from actors.doors.kafka.call import Api, Call
from wire.groups import DeleteGroups, DeleteGroupsResponse


def serve(call: Call) -> None:
    """All of them at once."""
    wanted = DeleteGroups(groups=tuple(call.request.groups_names))
    call.ask(wanted, lambda response: _answer(call, response))


def _answer(call: Call, response: DeleteGroupsResponse) -> None:
    call.answer(
        results=[
            {"group_id": each.group_id, "error_code": each.error_code} for each in response.groups
        ]
    )


API: Final = Api(key=42, name="DeleteGroups", least=0, most=2, serve=serve)
