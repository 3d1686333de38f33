"""An idempotent producer's stamps: what a broker needs to know a batch that comes again."""

import pytest

from actors.broker.log.producers import ProducerStates
from actors.client import sequences
from actors.client.config import ProducerConfig
from actors.client.errors import DeliveryTimedOut
from actors.config import BadConfig
from tests.actors.client.brokers import DONE_AND_LOST, LOST, ORDERS_0, FakeBrokers
from tests.actors.client.test_producer import refusing
from wire.data import Produce, ProduceResponse, ProduceResult
from wire.errors import ApiError, ErrorCode, exception_of
from wire.records import batches, decode_header
from wire.transactions import InitProducerId, InitProducerIdResponse

ID = 7  # the first that the brokers give


class KnowingBrokers(FakeBrokers):
    """Brokers that look at stamps as a leader does."""

    def __init__(self, sim, **topics):
        super().__init__(sim, **topics)
        self.known = {}

    def _on_produce(self, me, request):
        (wanted,) = request.partitions
        states = self.known.setdefault(wanted.partition, ProducerStates())
        header = decode_header(wanted.records)
        try:
            there = states.judge(header)
        except ApiError as error:
            return refusing(error.code)(me, request)
        if there is not None:
            result = ProduceResult(partition=wanted.partition, base_offset=there.base_offset)
            return ProduceResponse(partitions=(result,))
        answer = super()._on_produce(me, request)
        if not answer.partitions[0].error_code:
            states.take(decode_header(self.logs[wanted.partition][-1]), 0)
        return answer

    def stamps(self, partition=ORDERS_0):
        headers = [next(batches(each)).header for each in self.logs[partition]]
        return [(h.producer_id, h.producer_epoch, h.base_sequence) for h in headers]


@pytest.fixture
def brokers(sim):
    return KnowingBrokers(sim)


async def test_sequences_count_the_records_of_a_partition(brokers):
    async with brokers.producer(enable_idempotence=True) as producer:
        for count in (2, 1, 3):
            for _ in range(count):
                await producer.enqueue("orders", b"v", partition=0)
            await producer.flush()
        await producer.send("orders", b"v", partition=1)

    assert brokers.stamps() == [(ID, 0, 0), (ID, 0, 2), (ID, 0, 3)]
    assert len(brokers.sent(InitProducerId)) == 1


async def test_a_producer_without_idempotence_has_no_id(brokers):
    async with brokers.producer() as producer:
        await producer.send("orders", b"v", partition=0)

    assert brokers.stamps() == [(-1, -1, -1)]
    assert brokers.sent(InitProducerId) == []


async def test_a_batch_whose_answer_was_lost_is_there_once(sim, brokers):
    brokers.script(Produce, DONE_AND_LOST, DONE_AND_LOST, LOST)
    async with brokers.producer(enable_idempotence=True, request_timeout_ms=1_000) as producer:
        first = await producer.send("orders", b"1", partition=0)
        second = await producer.send("orders", b"2", partition=0)

    assert brokers.values(ORDERS_0) == [b"1", b"2"]
    assert (first.offset, second.offset) == (0, 1)
    assert [decode_header(each.partitions[0].records) for each in brokers.sent(Produce)][:4] == (
        [decode_header(brokers.sent(Produce)[0].partitions[0].records)] * 4
    )


async def test_after_a_batch_that_was_given_up_comes_another_epoch(sim, brokers):
    """It may come to the log later than the next one: then it is refused."""
    brokers.script(Produce, LOST, LOST)
    options = {"request_timeout_ms": 2_000, "delivery_timeout_ms": 3_000}
    async with brokers.producer(enable_idempotence=True, **options) as producer:
        with pytest.raises(DeliveryTimedOut):
            await producer.send("orders", b"1", partition=0)
        await producer.send("orders", b"2", partition=0)
        await producer.send("orders", b"3", partition=1)
        late = brokers.answer(1, brokers.sent(Produce)[0])

    assert brokers.stamps() == [(ID, 1, 0)]
    assert late.partitions[0].error_code is ErrorCode.INVALID_PRODUCER_EPOCH
    assert brokers.values(ORDERS_0) == [b"2"]


async def test_a_batch_that_grew_too_old_between_two_tries_is_given_up_too(sim, brokers):
    brokers.script(Produce, *[refusing(ErrorCode.NOT_ENOUGH_REPLICAS)] * 3)
    options = {
        "request_timeout_ms": 1_000,
        "delivery_timeout_ms": 2_500,
        "retry_backoff_ms": 1_000,
    }
    async with brokers.producer(enable_idempotence=True, **options) as producer:
        with pytest.raises(DeliveryTimedOut):
            await producer.send("orders", b"1", partition=0)
        await producer.send("orders", b"2", partition=0)

    assert brokers.stamps() == [(ID, 1, 0)]


async def test_one_that_was_refused_for_good_is_given_up_too(brokers):
    code = ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    brokers.script(Produce, refusing(code))
    async with brokers.producer(enable_idempotence=True) as producer:
        with pytest.raises(exception_of(code)):
            await producer.send("orders", b"1", partition=0)
        await producer.send("orders", b"2", partition=0)

    assert brokers.stamps() == [(ID, 1, 0)]


async def test_after_the_last_epoch_comes_another_id(brokers, monkeypatch):
    monkeypatch.setattr(sequences, "MOST_EPOCH", 0)
    brokers.script(Produce, refusing(ErrorCode.MESSAGE_TOO_LARGE))
    async with brokers.producer(enable_idempotence=True) as producer:
        with pytest.raises(ApiError):
            await producer.send("orders", b"1", partition=0)
        await producer.send("orders", b"2", partition=0)

    assert brokers.stamps() == [(ID + 1, 0, 0)]


async def test_an_id_is_asked_for_until_somebody_gives_one(sim, brokers):
    no = InitProducerIdResponse(error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE)
    brokers.script(InitProducerId, no, LOST, no)
    async with brokers.producer(enable_idempotence=True, request_timeout_ms=1_000) as producer:
        await producer.send("orders", b"1", partition=0)

    assert brokers.stamps() == [(ID, 0, 0)]
    asked = [number for number, each in brokers.requests if isinstance(each, InitProducerId)]
    assert len(asked) == 4
    assert set(asked) == {1, 2}


async def test_who_may_have_no_id_is_told_so(brokers):
    code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    brokers.script(InitProducerId, InitProducerIdResponse(error_code=code))
    async with brokers.producer(enable_idempotence=True) as producer:
        with pytest.raises(exception_of(code)):
            await producer.send("orders", b"1", partition=0)

        await producer.send("orders", b"2", partition=0)

    assert brokers.values(ORDERS_0) == [b"2"]


async def test_one_that_never_gets_an_id_fails_in_time(sim, brokers):
    brokers.script(InitProducerId, *[LOST] * 99)
    options = {"request_timeout_ms": 1_000, "delivery_timeout_ms": 5_000}
    async with brokers.producer(enable_idempotence=True, **options) as producer:
        with pytest.raises(DeliveryTimedOut):
            await producer.send("orders", b"1", partition=0)

    assert 5_000 <= sim.now_ms < 5_500


@pytest.mark.parametrize("wrong", [{"acks": 1}, {"acks": 0}, {"retries": 0}])
def test_what_cannot_be_idempotent_is_refused(wrong):

    with pytest.raises(BadConfig, match=r"enable\.idempotence is true"):
        ProducerConfig(enable_idempotence=True, **wrong)
