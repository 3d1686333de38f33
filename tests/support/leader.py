"""A leader by hand: broker 9 hears what its follower asks, and answers as a test says."""

from typing import Any, TypeVar

from runtime.network import Endpoint, Incoming
from tests.support.drive import Drive
from tests.support.orders import leader_and_isr, order
from wire.codec import decode, encode
from wire.control import LeaderAndIsrPartition, LeaderAndIsrResponse
from wire.data import Fetch, FetchResponse, FetchResult, Produce, ProducePartition, ProduceResponse
from wire.errors import ErrorCode
from wire.ids import LeaderEpoch, Offset, TopicPartition
from wire.message import Message
from wire.records import Record, assign, encode_batch

ORDERS = TopicPartition("orders", 0)
SALES = TopicPartition("sales", 0)
HANDS = 9  # the leader's id
ANSWERED_MS = 20  # time enough to take an answer in and to ask again
Request = TypeVar("Request", bound=Message)


class Leader:
    """Who is followed; it knows what it was asked, and of whom."""

    def __init__(self, drive: Drive, broker: int = HANDS) -> None:
        self.asked: list[Incoming] = []
        self._drive = drive
        name = f"broker-{broker}"
        Endpoint(name, drive.sim.network, drive.sim.trace.at(name)).serve(self)

    def tell(self, incoming: Any) -> None:
        self.asked.append(incoming)

    async def heard(self, kind: type[Request], within_ms: float = 100) -> Request:
        """The request that waits for its answer; there is never more than one."""
        await self._drive.sim.until(lambda: bool(self.asked), limit_ms=within_ms)
        assert len(self.asked) == 1, f"{len(self.asked)} requests at once"
        request = decode(self.asked[0].payload)
        assert isinstance(request, kind), f"asked for {request}"
        return request

    async def answer(self, response: Message | bytes) -> None:
        payload = response if isinstance(response, bytes) else encode(response)
        self.asked.pop(0).reply(payload)
        await self._drive.sim.sleep(ANSWERED_MS)


def named(request: Fetch) -> list[tuple[str, int, int]]:
    """What a request asks for: topics, leader epochs and offsets."""
    return [
        (part.partition.topic, part.current_leader_epoch, part.fetch_offset)
        for part in request.partitions
    ]


async def next_names(leader: Leader) -> list[tuple[str, int, int]]:
    """What the next request asks for, in addition to what the session has."""
    return named(await leader.heard(Fetch))


def fetched(*results: FetchResult, session_id: int = 7) -> FetchResponse:
    """An answer to a Fetch, in a session."""
    return FetchResponse(partitions=results, session_id=session_id)


def found(partition: TopicPartition, records: bytes = b"", **fields: Any) -> FetchResult:
    """What the answer says of one partition."""
    fields = {"high_watermark": 0, "log_start_offset": 0} | fields
    return FetchResult(partition=partition, records=memoryview(records) or None, **fields)


def refused(partition: TopicPartition, code: ErrorCode) -> FetchResult:
    return FetchResult(partition=partition, error_code=code)


def batch_at(offset: int, epoch: int, *values: bytes) -> bytes:
    """A batch as a leader has it: with its offset and its epoch."""
    records = [
        Record(offset=Offset(number), timestamp_ms=1, value=value)
        for number, value in enumerate(values)
    ]
    batch = encode_batch(records)
    assign(memoryview(batch), 0, base_offset=Offset(offset), leader_epoch=LeaderEpoch(epoch))
    return bytes(batch)


async def tell(drive: Drive, to: int, *orders: LeaderAndIsrPartition, **fields: Any) -> None:
    """Give a broker the controller's orders."""
    response = await drive.ask(to, leader_and_isr(*orders, **fields), LeaderAndIsrResponse)
    assert {each.error_code for each in response.partitions} == {ErrorCode.NONE}


async def follow(drive: Drive, epoch: int, *partitions: TopicPartition) -> None:
    """Let broker 2 follow the leader by hand."""
    orders = [order(each, HANDS, epoch, replicas=(HANDS, 2)) for each in partitions]
    await tell(drive, 2, *orders, live=(HANDS,))


async def lead(drive: Drive, epoch: int, *values: bytes, commit: bool) -> None:
    """Let broker 2 lead, in sync alone or with a silent one, and write a batch for each value."""
    isr = (2,) if commit else (2, HANDS)
    await tell(drive, 2, order(ORDERS, 2, epoch, replicas=(HANDS, 2), isr=isr))
    for value in values:
        entry = ProducePartition(ORDERS, memoryview(batch_at(0, 0, value)))
        request = Produce(acks=1, timeout_ms=1_000, partitions=(entry,))
        (result,) = (await drive.ask(2, request, ProduceResponse)).partitions
        assert result.error_code is ErrorCode.NONE
