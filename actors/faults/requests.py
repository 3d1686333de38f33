"""Which requests of Kafka's clients a fault wants.

Rule: a request is known by its API, by its client's id and by the broker that has it. What is
counted are the requests that match in all of this, of all brokers of this process together.
"""

from actors.faults.vocabulary import OnRequest
from actors.names import node_name
from runtime.world import Dice


class AddressedRequests:
    """The requests that one fault wants."""

    def __init__(self, fault: OnRequest, chance: Dice) -> None:
        assert not isinstance(fault.broker, str), "it was resolved"
        self._fault = fault
        self._chance = chance
        self._node = None if fault.broker is None else node_name(fault.broker)
        self.matched = 0
        self.hits = 0

    def __call__(self, node: str, api: str, client: str | None) -> bool:
        """Whether it wants this one."""
        fault = self._fault
        if fault.times is not None and self.hits >= fault.times:
            return False
        if self._node not in {None, node} or fault.api not in {None, api}:
            return False
        if fault.client not in {None, client}:
            return False
        self.matched += 1
        if fault.nth is not None and self.matched != fault.nth:
            return False
        if fault.probability < 1 and self._chance.random() >= fault.probability:
            return False
        self.hits += 1
        return True
