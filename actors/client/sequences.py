"""Who an idempotent producer is, and which sequence its next batch has.

Rule: of one partition a sequence is used for one batch, however often that is sent. A batch that
got one and is given up may or may not be in the log, or come there later: the partition goes on in
a new epoch, in which the leader refuses all of the old one. So a record is there once or not at
all, and never after one that was enqueued later.
"""

from typing import Final

from wire.ids import ProducerEpoch, ProducerId, TopicPartition
from wire.records import ProducerStamp, sequence_after

MOST_EPOCH: Final = 2**15 - 1
FIRST_EPOCH: Final = ProducerEpoch(0)


class Sequences:
    """The next stamp of each partition; partitions count their epochs by themselves."""

    def __init__(self) -> None:
        self._producer: ProducerId | None = None
        self._epoch = FIRST_EPOCH  # of a partition's first batch
        self._next: dict[TopicPartition, ProducerStamp] = {}

    @property
    def is_named(self) -> bool:
        """Whether a broker has said who this producer is."""
        return self._producer is not None

    def name(self, producer: ProducerId, epoch: ProducerEpoch = FIRST_EPOCH) -> None:
        """It is this one; what it was before is forgotten, but for stamps that were given."""
        self._producer = producer
        self._epoch = epoch
        self._next.clear()

    def stamp(self, partition: TopicPartition) -> ProducerStamp:
        """That of the next batch."""
        assert self._producer is not None, "nothing is stamped before the producer has its id"
        known = self._next.get(partition)
        if known is None:
            known = ProducerStamp(
                producer_id=self._producer, producer_epoch=self._epoch, base_sequence=0
            )
        return known

    def use(self, partition: TopicPartition, stamp: ProducerStamp, records: int) -> None:
        """A batch of so many records has this stamp."""
        self._next[partition] = ProducerStamp(
            producer_id=stamp.producer_id,
            producer_epoch=stamp.producer_epoch,
            base_sequence=sequence_after(stamp.base_sequence, records),
        )

    def give_up(self, partition: TopicPartition, stamp: ProducerStamp) -> None:
        """A batch with this stamp is not sent again, and nobody knows what became of it."""
        if stamp.producer_id != self._producer:
            return  # it has another id since
        if stamp.producer_epoch == MOST_EPOCH:
            self._producer = None  # a new id: there is no epoch after this one
            return
        self._next[partition] = ProducerStamp(
            producer_id=stamp.producer_id,
            producer_epoch=ProducerEpoch(stamp.producer_epoch + 1),
            base_sequence=0,
        )
