"""The cycle of fault_cycle.py with an idempotent producer, which sends until it is answered.

Rule: a batch has one sequence, however often it is sent; in the end each is there once.
"""

from collections.abc import Callable
from functools import partial

from actors.controller import channel
from actors.node import node_name
from runtime.network import NetworkError
from runtime.simulation.simulator import Simulator
from tests.simulation.fault_cycle import ORDERS, SEED, SESSION_MS, Fault, Stage
from wire.codec import decode_as, encode
from wire.data import Produce, ProducePartition, ProduceResponse
from wire.errors import ErrorCode
from wire.ids import Offset, ProducerEpoch, ProducerId
from wire.records import ProducerStamp, Record, encode_batch

FAULTS = tuple(
    map(
        Fault.parse,
        (
            *("kill-1", "lose-1", "pause-1", "expire-1", "cut-1>client", "cut-client>1"),
            *("kill-2", "lose-2", "cut-1>2", "cut-2>1"),
        ),
    )
)
ANSWER_MS = 150
TRIES = 3  # before the faults are over


class IdempotentStage(Stage):
    """Its client has an id."""

    def __init__(self, sim: Simulator, controller: int) -> None:
        super().__init__(sim, controller)
        self.unanswered: list[bytes] = []
        self.sequence = 0
        self.duplicates = 0  # batches that were sent again after they had been appended

    async def produce(self, broker: int, value: bytes) -> bool:
        """Whether all that was ever to be sent is acknowledged."""
        self.unanswered.append(value)
        for _ in range(TRIES):
            while self.unanswered and await self._send(broker, self.unanswered[0]):
                self.unanswered.pop(0)
                self.sequence += 1
            if not self.unanswered:
                return True
            await self.sim.sleep(50)
            broker = self.state().leader if self.state().leader >= 0 else broker
        return False

    async def _send(self, broker: int, value: bytes) -> bool:
        stamp = ProducerStamp(
            producer_id=ProducerId(7),
            producer_epoch=ProducerEpoch(0),
            base_sequence=self.sequence,
        )
        record = Record(offset=Offset(0), timestamp_ms=1, value=value)
        records = (ProducePartition(ORDERS, memoryview(encode_batch([record], producer=stamp))),)
        request = encode(Produce(acks=-1, timeout_ms=ANSWER_MS, partitions=records))
        ends = [replica.log_end_offset for replica in self.replicas() if replica.is_leader]
        try:
            answer = await self.client.call(node_name(broker), request, timeout_ms=2 * ANSWER_MS)
        except NetworkError:
            return False
        (result,) = decode_as(ProduceResponse, answer).partitions
        if result.error_code is not ErrorCode.NONE:
            return False
        self.duplicates += any(result.base_offset < end for end in ends)
        assert self.acknowledged.get(result.base_offset, value) == value
        self.acknowledged[result.base_offset] = value
        return True


async def play(controller: int, on_step: Callable[[Stage, int], None]) -> IdempotentStage:
    """A whole run."""
    channel.TIMEOUT_MS = 1_000
    async with Simulator(seed=SEED, session_timeout_ms=SESSION_MS, recording=False) as sim:
        stage = IdempotentStage(sim, controller)
        await stage.prepare()
        await stage.cycle(partial(on_step, stage))
        await stage.recover()
        stage.check_in_the_end()
        assert not stage.unanswered
        return stage
