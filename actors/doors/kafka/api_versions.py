"""ApiVersions: what is spoken here.

Rule: always answered, before anybody has logged in and in any version; one that nobody knows is
answered in version 0's form (KIP-511).
"""

from typing import Final

from actors.doors.kafka.call import Api, Call
from wire.errors import ErrorCode

KEY: Final = 18


def serve(call: Call) -> None:
    """The table."""
    error = ErrorCode.NONE if call.refusal is None else call.refusal.code
    call.answer(error_code=error, api_keys=call.hall.spoken)


API: Final = Api(key=KEY, name="ApiVersions", least=0, most=4, serve=serve, before_login=True)
