"""Which partition a record goes to."""

import pytest

from actors.client.partitioner import StickyPartitioner, murmur2, partition_of_key

# Signed hashes as Kafka's own tests have them.
VECTORS = {
    b"21": -973932308,
    b"foobar": -790332482,
    b"a-little-bit-long-string": -985981536,
    b"a-little-bit-longer-string": -1486304829,
    b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
    b"abc": 479470107,
}


@pytest.mark.parametrize("key", VECTORS)
def test_keys_hash_as_in_kafka(key):
    assert murmur2(key) == VECTORS[key] % 2**32


def test_kafka_python_maps_every_key_to_the_same_partition():
    theirs = pytest.importorskip("kafka.partitioner.default")
    for number in range(500):
        key = f"key-{number}".encode() * (number % 5)
        for partitions in (1, 3, 12):
            expected = (theirs.murmur2(key) & 0x7FFFFFFF) % partitions
            assert partition_of_key(key, partitions) == expected


def test_without_a_key_a_partition_is_kept_while_its_batch_has_room():
    partitioner = StickyPartitioner()
    room = iter([True, False, True, False, True])  # the first choice asks about none

    chosen = [partitioner.choose("orders", [0, 1, 2], lambda _: next(room)) for _ in range(6)]

    assert chosen == [0, 0, 1, 1, 2, 2]


def test_a_partition_that_is_not_available_is_left():
    partitioner = StickyPartitioner()
    assert partitioner.choose("orders", [0, 1], lambda _: True) == 0

    assert partitioner.choose("orders", [1], lambda _: True) == 1


def test_each_topic_has_its_own_turn():
    partitioner = StickyPartitioner()

    chosen = [partitioner.choose(each, [0, 1], lambda _: False) for each in ("a", "b", "a", "b")]

    assert chosen == [0, 0, 1, 1]
