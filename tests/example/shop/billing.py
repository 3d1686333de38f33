"""Reads orders and writes invoices.

An order is passed only when its invoice is safe: who dies between the two writes an invoice twice,
and never none. An invoice carries its order's number as its key, so that a second one can be told.
"""

from actors.testing import Clients, TopicPartition
from shop.orders import Invoice, Order

ORDERS = TopicPartition("orders", 0)
GROUP = "billing"


class Billing:
    """Takes the cluster that it works on: a real one, or one of a test."""

    def __init__(self, cluster: Clients) -> None:
        self._consumer = cluster.consumer(group_id=GROUP, auto_offset_reset="earliest")
        self._producer = cluster.producer(acks="all")
        self._consumer.assign([ORDERS])
        self.written = 0  # invoices, by this one

    async def __aenter__(self) -> "Billing":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._consumer.close()
        await self._producer.close()

    async def work(self, timeout_ms: float = 1_000) -> int:
        """Write the invoices of the orders that have come; how many there were."""
        records = await self._consumer.poll(timeout_ms)
        for record in records:
            order = Order.decode(record.value)
            invoice = Invoice.of(order)
            await self._producer.send("invoices", invoice.encode(), str(order.number).encode())
            self.written += 1
        await self._consumer.commit()
        return len(records)

    async def work_until(self, written: int) -> None:
        """Go on until so many invoices are written in all."""
        while self.written < written:
            await self.work()
