"""What is raised when something that must always hold does not.

Rule: a violation names the invariant, the partition, the brokers and the offsets, so that whoever
reads it need not run it again to know where to look.
"""

from wire.ids import TopicPartition


class Violation(AssertionError):
    """An invariant does not hold."""

    def __init__(
        self,
        invariant: str,
        what: str,
        *,
        partition: TopicPartition | None = None,
        brokers: tuple[int, ...] = (),
        offsets: tuple[int, ...] = (),
    ) -> None:
        where = "" if partition is None else f" {partition}"
        who = "" if not brokers else f" on {', '.join(map(str, brokers))}"
        at = "" if not offsets else f" at {', '.join(map(str, offsets))}"
        super().__init__(f"{invariant}{where}{who}{at}: {what}")
        self.invariant = invariant
        self.partition = partition
        self.brokers = brokers
        self.offsets = offsets
