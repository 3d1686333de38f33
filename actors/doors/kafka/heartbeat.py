"""Heartbeat: I am alive; does the generation go on?

Rule: the answer is one code.
"""

from typing import Final

from actors.doors.kafka.call import Api, Call
from wire.groups import Heartbeat


def serve(call: Call) -> None:
    """Pass it on."""
    request = call.request
    wanted = Heartbeat(
        group_id=request.group_id,
        generation_id=request.generation_id,
        member_id=request.member_id,
        group_instance_id=getattr(request, "group_instance_id", None),
    )
    call.ask(wanted, lambda response: call.answer(error_code=response.error_code))


API: Final = Api(key=12, name="Heartbeat", least=0, most=4, serve=serve)
