"""What is ordered, and what is to be paid for it, as they travel."""

import json
from dataclasses import asdict, dataclass

PRICES = {"coffee": 3, "tea": 2, "cake": 4}


@dataclass(frozen=True)
class Order:
    number: int
    item: str

    def encode(self) -> bytes:
        return json.dumps(asdict(self)).encode()

    @staticmethod
    def decode(value: bytes) -> "Order":
        return Order(**json.loads(value))


@dataclass(frozen=True)
class Invoice:
    order: int
    amount: int

    @staticmethod
    def of(order: Order) -> "Invoice":
        return Invoice(order.number, PRICES[order.item])

    def encode(self) -> bytes:
        return json.dumps(asdict(self)).encode()

    @staticmethod
    def decode(value: bytes) -> "Invoice":
        return Invoice(**json.loads(value))
