"""SaslHandshake: by which mechanism somebody wants to log in.

Rule: where no credentials are demanded there is nobody to log in.
"""

from typing import Final

from actors.doors.kafka.call import Api, Call
from actors.doors.kafka.credentials import MECHANISMS

_WITH_BARE_TOKENS: Final = 0  # version


def serve(call: Call) -> None:
    """Begin."""
    bare = call.version == _WITH_BARE_TOKENS
    error = call.reception.login.choose(call.request.mechanism, bare_tokens=bare)
    call.answer(error_code=error, mechanisms=MECHANISMS)


API: Final = Api(key=17, name="SaslHandshake", least=0, most=1, serve=serve, before_login=True)
