"""SaslAuthenticate: the tokens of a login.

Rule: who fails is told so, and the connection ends.
"""

from typing import Final

from actors.doors.kafka.call import Api, Call
from actors.doors.kafka.credentials import LoginFailed
from wire.errors import ErrorCode


def serve(call: Call) -> None:
    """One token."""
    login = call.reception.login
    if not login.is_begun or login.takes_bare_tokens:
        _refuse(call, ErrorCode.ILLEGAL_SASL_STATE, "No token is due.")
        return
    try:
        answer = login.take(call.request.auth_bytes)
    except LoginFailed as error:
        _refuse(call, ErrorCode.SASL_AUTHENTICATION_FAILED, str(error))
        return
    call.answer(error_code=ErrorCode.NONE, error_message=None, auth_bytes=answer)


def _refuse(call: Call, error: ErrorCode, why: str) -> None:
    call.answer(error_code=error, error_message=why, auth_bytes=b"")
    call.reception.part(why)


API: Final = Api(key=36, name="SaslAuthenticate", least=0, most=2, serve=serve, before_login=True)
