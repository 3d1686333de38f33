"""What a leader answers an idempotent producer, and when (KIP-98)."""

from tests.actors.broker.log.test_memory import stamped
from tests.support.led import ORDERS, Led
from wire.errors import ErrorCode
from wire.ids import NO_OFFSET


async def send(led, sequence, *, acks=1, timeout_ms=30_000, **options):
    (result,) = await led.produce_to({ORDERS: stamped(sequence, **options)}, acks, timeout_ms)
    return result


async def test_a_batch_that_comes_again_has_its_first_offset_and_is_not_appended(sim):
    led = await Led.start(sim)
    first, second = await send(led, 0, count=2), await send(led, 2)

    again = [await send(led, 0, count=2), await send(led, 2)]

    assert [each.base_offset for each in (first, second)] == [0, 2]
    assert again == [first, second]
    assert led.replica().log_end_offset == 3


async def test_what_does_not_follow_is_refused(sim):
    led = await Led.start(sim)
    await send(led, 0, epoch=1)

    late, early = await send(led, 2, epoch=1), await send(led, 1, epoch=0)

    assert late.error_code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert early.error_code is ErrorCode.INVALID_PRODUCER_EPOCH
    assert (late.base_offset, led.replica().log_end_offset) == (NO_OFFSET, 1)


async def test_a_batch_that_comes_again_is_acknowledged_when_the_first_is_safe(sim):
    led = await Led.start(sim)
    first = led.later(send(led, 0, acks=-1))
    later = led.later(send(led, 1, acks=-1))
    again = led.later(send(led, 0, acks=-1))
    await led.sim.sleep(50)
    assert not again.done()

    for offset in (0, 1):
        await led.fetch(offset, by=8)
        await led.fetch(offset, by=9)
    await led.sim.sleep(50)

    assert (await first).base_offset == (await again).base_offset == 0
    assert not later.done()
    assert led.waiting == (1, 0)


async def test_a_batch_that_comes_again_when_it_is_safe_is_acknowledged_at_once(sim):
    led = await Led.start(sim, isr=[1])
    await send(led, 0, acks=-1)

    again = await send(led, 0, acks=-1, timeout_ms=0)

    assert (again.error_code, again.base_offset, led.waiting) == (ErrorCode.NONE, 0, (0, 0))


async def test_a_producer_that_was_silent_for_a_day_is_forgotten(sim):
    led = await Led.start(sim, overrides={"producer_id_expiration_ms": 3_600_000})
    await send(led, 0)
    await sim.sleep(3_000_000)
    await send(led, 1)
    await sim.sleep(3_000_000)
    assert (await send(led, 3)).error_code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER

    await sim.sleep(3_600_000)

    assert (await send(led, 3)).error_code is ErrorCode.NONE
