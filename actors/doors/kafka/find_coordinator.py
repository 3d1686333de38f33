"""FindCoordinator: who looks after a group, or a transactional id.

Rule: since version 4 several may be asked for at once, and each is answered by itself.
"""

from typing import Any, Final

from actors.doors.kafka.call import Api, Call
from actors.doors.kafka.gathering import ask_each
from wire.errors import ErrorCode
from wire.groups import CoordinatorType, FindCoordinator, FindCoordinatorResponse
from wire.ids import NO_BROKER

_SEVERAL: Final = 4  # version
_MOST_BYTES: Final = 1 << 20  # each key becomes a request of our own
_KINDS: Final = {each.value: each for each in CoordinatorType}


def serve(call: Call) -> None:
    """Ask for each key; the addresses are those of the caller's listener."""
    request = call.request
    keys = request.coordinator_keys if call.version >= _SEVERAL else (request.key,)
    kind = _KINDS.get(getattr(request, "key_type", 0))
    if kind is None:
        refused = FindCoordinatorResponse(error_code=ErrorCode.INVALID_REQUEST)
        _answer(call, keys, [refused] * len(keys))
        return
    wanted = [FindCoordinator(key=each, key_type=kind) for each in keys]
    ask_each(call, wanted, lambda found: _answer(call, keys, found))


def _answer(call: Call, keys: Any, found: Any) -> None:
    addresses = {each.id: each for each in call.cluster.nodes(call.hall.listener)}
    results = [_result(key, each, addresses) for key, each in zip(keys, found, strict=True)]
    if call.version >= _SEVERAL:
        call.answer(coordinators=results)
    else:
        call.answer(**results[0])


def _result(key: str, found: FindCoordinatorResponse, addresses: Any) -> dict[str, Any]:
    code, node = found.error_code, None
    if code is ErrorCode.NONE:
        assert found.coordinator is not None, "without an error there is a coordinator"
        node = addresses.get(found.coordinator.id)
        if node is None:  # it has no such listener, or has gone in this moment
            code = ErrorCode.COORDINATOR_NOT_AVAILABLE
    return {
        "key": key,
        "node_id": NO_BROKER if node is None else node.id,
        "host": "" if node is None else node.host,
        "port": -1 if node is None else node.port,
        "error_code": code,
        # As Kafka, which says NONE where nothing is wrong.
        "error_message": found.error_message or code.name,
    }


API: Final = Api(
    key=10, name="FindCoordinator", least=0, most=5, serve=serve, most_bytes=_MOST_BYTES
)
