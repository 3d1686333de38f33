"""Histories by hand: a topic of one partition, and events in the order in which they are added."""

from actors.faults.history.checker import check_history
from actors.faults.history.recording import History
from wire.ids import TopicPartition

ORDERS = TopicPartition("orders", 0)


class Ticks:
    """A clock that moves on whenever it is asked."""

    def __init__(self):
        self.now = 0

    def elapsed_ms(self):
        self.now += 1
        return float(self.now)


class Planted(History):
    """A history with short words for what tests plant."""

    def __init__(self):
        super().__init__(Ticks())

    def send(self, value, offset=None, *, client="p", **options):
        """Send; with an offset, it is acknowledged there."""
        record = self.sent(client, "orders", value.encode(), partition=0, **options)
        if offset is not None:
            self.acknowledged(record, offset)
        return record

    def read(self, values, *, start=0, client="c", is_end=True):
        """Read all values from an offset on, and see the end after them."""
        self.positioned(client, ORDERS, start)
        self.poll(values, start=start, client=client)
        if is_end:
            self.end(start + len(values), client=client)

    def poll(self, values, *, start, client="c"):
        """Read as somebody who does not say where it begins; a dot is passed over."""
        for offset, value in enumerate(values, start):
            if value != ".":
                self.polled(client, ORDERS, offset, value.encode())

    def end(self, offset, *, client="c", began_ms=None):
        """See the end."""
        self.end_seen(client, ORDERS, offset, began_ms)

    def commit(self, offset, began_ms=None, **options):
        """Commit for group g."""
        self.committed("c", "g", ORDERS, offset, began_ms=began_ms, **options)

    def see_commit(self, offset, began_ms=None):
        """Read it back."""
        self.committed_seen("d", "g", ORDERS, offset, began_ms)

    def kinds(self, **allowed):
        """What the checker finds, sorted."""
        return sorted(each.kind for each in check_history(self.events, **allowed))

    def sentences(self, **allowed):
        """What the checker says."""
        return [each.sentence for each in check_history(self.events, **allowed)]
