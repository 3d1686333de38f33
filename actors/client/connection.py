"""How a request finds a broker that answers it.

Rule: a request is tried again as long as there is time and the failure may pass: nobody answers,
there is no controller, or it is another broker's business. Every other answer is the answer.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Final, TypeVar

from actors.client.errors import ClientClosed, failure_of
from runtime.network import NetworkError
from runtime.world import Clock, Network
from wire.codec import RESPONSE_OF, decode, encode
from wire.errors import (
    ApiError,
    BrokerNotAvailable,
    ErrorCode,
    InvalidRequest,
    MalformedMessage,
    RequestTimedOut,
    exception_of,
)
from wire.ids import NO_BROKER, BrokerId
from wire.message import Message, Request
from wire.metadata import ApiVersionsResponse, Metadata
from wire.parted import Parted, pack, unpack

BACKOFF_MS: Final = 100
ATTEMPTS: Final = 3  # that fit into the time if brokers take requests and say nothing
ANSWER_MS: Final = 500  # what an answer may take on its way, after the broker's time is up
METADATA_MS: Final = 2_000  # a broker has it at hand
PASSING: Final = frozenset({ErrorCode.NOT_CONTROLLER, ErrorCode.BROKER_NOT_AVAILABLE})

Response = TypeVar("Response", bound=Message)
Requested = Callable[[int], Request[Response]]  # how many ms the broker may take → the request


class Connection:
    """The brokers, as one client knows them."""

    def __init__(
        self,
        network: Network,
        clock: Clock,
        bootstrap: Sequence[str],
        name_of: Callable[[BrokerId], str],
    ) -> None:
        if not bootstrap:
            raise ValueError("a client needs the name of one broker at least")
        self._network = network
        self._clock = clock
        self._bootstrap = list(bootstrap)  # the first is asked, until it fails
        self._name_of = name_of
        self._controller: str | None = None  # the last that answered as such
        self._is_open = True

    async def ask_controller(self, request: Requested[Response], timeout_ms: int) -> Response:
        """Ask whoever is the controller."""
        return await self._ask(None, request, timeout_ms, is_for_controller=True)

    async def ask_any(self, request: Request[Response], timeout_ms: int) -> Response:
        """Ask the controller's broker, which sees first what was done there, or else any."""
        return await self._ask(None, lambda _: request, timeout_ms, is_for_controller=False)

    async def ask_broker(
        self, broker: BrokerId, request: Request[Response], timeout_ms: int
    ) -> Response:
        """Ask one broker and nobody else."""
        name = self._name_of(broker)
        return await self._ask(name, lambda _: request, timeout_ms, is_for_controller=False)

    # --- one attempt, for clients that try again in their own way --------------------------------

    async def call(
        self, broker: BrokerId, request: Request[Response], within_ms: float
    ) -> Response:
        """Ask one broker once: its answer, an ApiError if there is none, or MalformedMessage."""
        return await self._call_once(self._name_of(broker), request, within_ms)

    async def call_any(self, request: Request[Response], within_ms: float) -> Response:
        """Ask some broker once; if that fails, another one is asked next time."""
        node = self._bootstrap[0]
        try:
            return await self._call_once(node, request, within_ms)
        except (ApiError, MalformedMessage):
            if self._bootstrap[0] == node:
                self.turn()
            raise

    def send(self, broker: BrokerId, request: Request[Response]) -> None:
        """Send a request that has no answer; it may be lost."""
        self._network.send(self._name_of(broker), _encoded(request))

    def turn(self) -> None:
        """Ask another broker next time: this one may know no better than before."""
        self._bootstrap.append(self._bootstrap.pop(0))

    def learn(self, brokers: Iterable[BrokerId]) -> None:
        """These are in the cluster too, and may be asked when those known are gone."""
        known = set(self._bootstrap)
        names = map(self._name_of, brokers)
        self._bootstrap += [name for name in names if name not in known]

    def close(self) -> None:
        """Leave the network; whoever tries again after that is told."""
        self._is_open = False
        self._network.close()

    def check_open(self) -> None:
        """Raises ClientClosed if it was closed."""
        if not self._is_open:
            raise ClientClosed("the client is closed")

    # --------------------------------------------------------------------------------------------

    async def _call_once(self, to: str, request: Request[Response], within_ms: float) -> Response:
        self.check_open()
        try:
            return await self._exchange(to, request, within_ms)
        except NetworkError as error:
            raise failure_of(error) from error

    async def _ask(
        self,
        to: str | None,
        request: Requested[Response],
        timeout_ms: int,
        *,
        is_for_controller: bool,
    ) -> Response:
        deadline_ms = self._clock.elapsed_ms() + timeout_ms
        while True:
            left_ms = max(0, round(deadline_ms - self._clock.elapsed_ms()))
            within_ms = min(timeout_ms // ATTEMPTS, left_ms)
            try:
                node = to or self._controller
                if node is None and is_for_controller:
                    node = await self._find_controller()
                response = await self._call(
                    node or self._bootstrap[0], request(within_ms), within_ms
                )
                if is_for_controller:
                    self._controller = node
                return response
            except NetworkError as error:
                failure: ApiError = RequestTimedOut(str(error))
            except ApiError as error:
                if error.code not in PASSING:
                    raise
                failure = error
            self._controller = None
            self._bootstrap.append(self._bootstrap.pop(0))  # this one may know no better next time
            if self._clock.elapsed_ms() + BACKOFF_MS > deadline_ms:
                raise failure
            await self._clock.sleep(BACKOFF_MS)

    async def _find_controller(self) -> str:
        node = self._bootstrap[0]
        metadata = await self._call(node, Metadata(topics=()), METADATA_MS)
        if metadata.controller_id == NO_BROKER:
            raise BrokerNotAvailable(f"{node} knows of no controller")
        return self._name_of(metadata.controller_id)

    async def _call(self, to: str, request: Request[Response], within_ms: int) -> Response:
        """One attempt; an answer with a code that passes is raised."""
        response = await self._exchange(to, request, within_ms)
        for code in codes_in(response):
            if code in PASSING:
                name = type(request).__name__
                raise exception_of(code)(f"{to} answered {name} with {code.name}")
        return response

    async def _exchange(self, to: str, request: Request[Response], within_ms: float) -> Response:
        """One attempt; the answer is a response to this request, whatever its codes."""
        name = type(request).__name__
        payload = _encoded(request)
        data = await self._network.call(to, payload, timeout_ms=within_ms + ANSWER_MS, label=name)
        response = unpack(data)
        if isinstance(response, ApiVersionsResponse) and response.error_code:
            raise exception_of(response.error_code)(f"{to} does not take {name}{_flaw(request)}")
        if not isinstance(response, RESPONSE_OF[type(request)]):
            raise MalformedMessage(f"{to} answered {name} with {type(response).__name__}")
        return response  # type: ignore[return-value]  # RESPONSE_OF says what Request[…] says


def _encoded(request: Request[Response]) -> bytes | Parted:
    try:
        return pack(request)
    except (OverflowError, TypeError, UnicodeEncodeError) as error:
        raise InvalidRequest(f"{type(request).__name__} cannot be sent: {error}") from error


def _flaw(request: Request[Response]) -> str:
    """What a broker finds wrong with a request that is not one: a value of another type, say."""
    try:
        decode(encode(request))
    except MalformedMessage as error:
        return f": {error.__cause__ or error}"
    return ""


def codes_in(response: object) -> list[ErrorCode]:
    """The code of a response, and those of the things that it answers for."""
    parts = [response]
    for name in ("topics", "partitions", "resources"):
        parts += getattr(response, name, ())
    return [getattr(part, "error_code", ErrorCode.NONE) for part in parts]
