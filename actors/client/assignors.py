"""Who reads what: how the leader of a group shares its partitions out.

Rule: pure, by Kafka's names, and the same for the same members, whoever leads. A partition has one
reader at most, and one that subscribes to its topic.
"""

from collections.abc import Callable, Mapping
from typing import Final, TypeAlias

from wire.consumer_protocol import ConsumerSubscription
from wire.ids import TopicPartition

Members: TypeAlias = Mapping[str, ConsumerSubscription]
Counts: TypeAlias = Mapping[str, int]  # partitions of each topic; one that is not there has none
Shares: TypeAlias = dict[str, list[TopicPartition]]


def range_shares(members: Members, counts: Counts) -> Shares:
    """Topic by topic, neighbours together; who comes first may have one more of each topic."""
    shares: Shares = {each: [] for each in sorted(members)}
    for topic in _topics(members):
        readers = [each for each in shares if topic in members[each].topics]
        least, more = divmod(counts.get(topic, 0), len(readers))
        first = 0
        for index, reader in enumerate(readers):
            after = first + least + (index < more)
            shares[reader] += (TopicPartition(topic, each) for each in range(first, after))
            first = after
    return shares


def round_robin_shares(members: Members, counts: Counts) -> Shares:
    """One partition after the other, to one member after the other."""
    shares: Shares = {each: [] for each in sorted(members)}
    names = list(shares)
    turn = 0
    for partition in _partitions(members, counts):
        while partition.topic not in members[names[turn % len(names)]].topics:
            turn += 1
        shares[names[turn % len(names)]].append(partition)
        turn += 1
    return shares


def sticky_shares(members: Members, counts: Counts) -> Shares:
    """As even as can be, and as much as can be stays where it is."""
    shares: Shares = {each: [] for each in sorted(members)}
    free = dict.fromkeys(_partitions(members, counts))
    # Of two who say that they have a partition, the one of the later generation is right.
    for name in sorted(members, key=lambda each: (-members[each].generation_id, each)):
        for partition in members[name].owned:
            if partition in free and partition.topic in members[name].topics:
                del free[partition]
                shares[name].append(partition)
    for partition in free:
        _poorest(shares, members, partition).append(partition)
    while _even_out(shares, members):
        pass
    return {name: sorted(share) for name, share in shares.items()}


def _even_out(shares: Shares, members: Members) -> bool:
    """Move one partition to somebody who has two less, if there is one."""
    for share in sorted(shares.values(), key=len, reverse=True):
        for partition in sorted(share, reverse=True):
            poorest = _poorest(shares, members, partition)
            if len(poorest) + 1 < len(share):
                share.remove(partition)
                poorest.append(partition)
                return True
    return False


def _poorest(shares: Shares, members: Members, partition: TopicPartition) -> list[TopicPartition]:
    readers = (share for name, share in shares.items() if partition.topic in members[name].topics)
    return min(readers, key=len)


def _topics(members: Members) -> list[str]:
    return sorted({topic for each in members.values() for topic in each.topics})


def _partitions(members: Members, counts: Counts) -> list[TopicPartition]:
    return [
        TopicPartition(topic, number)
        for topic in _topics(members)
        for number in range(counts.get(topic, 0))
    ]


ASSIGNORS: Final[Mapping[str, Callable[[Members, Counts], Shares]]] = {
    "range": range_shares,
    "roundrobin": round_robin_shares,
    "sticky": sticky_shares,
}
