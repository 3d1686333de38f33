"""Brokers that do as a test tells them: real frames, no replication, a log that is a list."""

import asyncio
from collections import defaultdict, deque

from actors.client.config import ConsumerConfig, ProducerConfig
from actors.client.consumer import Consumer
from actors.client.producer import Producer
from wire.codec import decode, encode
from wire.data import (
    EARLIEST_TIMESTAMP_MS,
    LATEST_TIMESTAMP_MS,
    Fetch,
    FetchResponse,
    FetchResult,
    ListOffsets,
    ListOffsetsResponse,
    ListOffsetsResult,
    Produce,
    ProduceResponse,
    ProduceResult,
)
from wire.errors import ErrorCode
from wire.groups import (
    FindCoordinator,
    FindCoordinatorResponse,
    OffsetCommit,
    OffsetCommitResponse,
    OffsetFetch,
    OffsetFetchResponse,
    OffsetFetchResult,
)
from wire.ids import BrokerId, LeaderEpoch, Node, Offset, TopicPartition
from wire.message import PartitionResult
from wire.metadata import Metadata, MetadataPartition, MetadataResponse, MetadataTopic
from wire.records import Record, assign, batches, decode_records, encode_batch
from wire.transactions import InitProducerId, InitProducerIdResponse

ORDERS_0, ORDERS_1 = TopicPartition("orders", 0), TopicPartition("orders", 1)
LOST = object()  # in a script: no answer at all
DONE_AND_LOST = object()  # in a script: done as ever, and the answer is lost


def node_name(broker):
    return f"broker-{broker}"


class FakeBroker:
    """One endpoint."""

    def __init__(self, brokers, number, network):
        self.brokers, self.number, self.network = brokers, number, network
        network.serve(self)

    def tell(self, incoming):
        request = decode(incoming.payload)
        self.brokers.requests.append((self.number, request))
        script = self.brokers.scripts[type(request)]
        step = script.popleft() if script else None
        if step is LOST:
            return
        if callable(step):
            answer = step(self.number, request)
        elif step is not None and step is not DONE_AND_LOST:
            answer = step
        else:
            answer = self.brokers.answer(self.number, request)
        if step is DONE_AND_LOST:
            return
        is_usual = isinstance(request, Fetch) and step is None
        if is_usual and not any(each.error_code or each.records for each in answer.partitions):
            loop = asyncio.get_running_loop()
            loop.call_later(request.max_wait_ms / 1000, self._late, request, incoming)
        else:
            incoming.reply(encode(answer))

    def _late(self, request, incoming):
        incoming.reply(encode(self.brokers.answer(self.number, request)))


class FakeBrokers:
    """A cluster of them, which a test may script."""

    def __init__(self, sim, brokers=2, **topics):
        self.sim = sim
        self.numbers = range(1, brokers + 1)
        self.requests = []
        self.scripts = defaultdict(deque)
        self.logs = defaultdict(list)  # batches, as bytearrays
        self.starts = defaultdict(int)
        self.leaders, self.epochs = {}, {}
        self.committed = {}
        self.topic_errors, self.topic_ids = {}, {}
        self.coordinator = 1
        self.producers = 6  # ids that were given
        self.networks = {}
        self._clients = 0
        for number in self.numbers:
            self.networks[number] = sim.client(node_name(number))[0]
            FakeBroker(self, number, self.networks[number])
        for topic, partitions in (topics or {"orders": 2}).items():
            for number in range(partitions):
                self.lead(TopicPartition(topic, number), 1 + number % brokers, 0)

    # --- what a test does ---------------------------------------------------------------------

    def lead(self, partition, leader, epoch):
        self.leaders[partition], self.epochs[partition] = leader, epoch

    def script(self, kind, *steps):
        self.scripts[kind].extend(steps)

    def sent(self, kind):
        return [request for _, request in self.requests if isinstance(request, kind)]

    def write(self, partition, *values, epoch=0, time=1_000, attributes=0):
        """Append a batch; each value's time is the next millisecond."""
        base = self.end(partition)
        records = [
            Record(offset=Offset(base + i), timestamp_ms=time + base + i, value=value)
            for i, value in enumerate(values)
        ]
        self.logs[partition].append(
            encode_batch(records, partition_leader_epoch=LeaderEpoch(epoch), attributes=attributes)
        )

    def end(self, partition):
        log = self.logs[partition]
        return next(batches(log[-1])).header.next_offset if log else self.starts[partition]

    def records(self, partition):
        return [
            record
            for batch in self.logs[partition]
            for record in decode_records(next(batches(batch)))
        ]

    def values(self, partition):
        return [each.value for each in self.records(partition)]

    def producer(self, bootstrap=None, **config):
        return self._client(Producer, ProducerConfig(**config), bootstrap or self.numbers)

    def consumer(self, **config):
        return self._client(Consumer, ConsumerConfig(**config), self.numbers)

    def _client(self, kind, config, numbers):
        self._clients += 1
        network, clock = self.sim.client(f"client-{self._clients}")
        bootstrap = [node_name(each) for each in numbers]
        return kind(network, clock, bootstrap, name_of=node_name, config=config)

    # --- what brokers answer ------------------------------------------------------------------

    def answer(self, me, request):
        handlers = {
            Metadata: self._on_metadata,
            Produce: self._on_produce,
            Fetch: self._on_fetch,
            ListOffsets: self._on_list_offsets,
            FindCoordinator: self._on_find_coordinator,
            OffsetCommit: self._on_offset_commit,
            OffsetFetch: self._on_offset_fetch,
            InitProducerId: self._on_init_producer_id,
        }
        return handlers[type(request)](me, request)

    def _on_init_producer_id(self, me, request):
        self.producers += 1
        return InitProducerIdResponse(producer_id=self.producers, producer_epoch=0)

    def _on_metadata(self, me, request):
        topics = []
        for topic in request.topics:
            partitions = tuple(
                MetadataPartition(
                    partition=each.partition,
                    leader=BrokerId(leader),
                    leader_epoch=LeaderEpoch(self.epochs[each]),
                    replicas=(),
                    isr=(),
                )
                for each, leader in sorted(self.leaders.items())
                if each.topic == topic
            )
            unknown = ErrorCode.NONE if partitions else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            code = self.topic_errors.get(topic, unknown)
            topics.append(
                MetadataTopic(
                    topic=topic,
                    error_code=code,
                    topic_id=self.topic_ids.get(topic),
                    partitions=partitions,
                )
            )
        nodes = tuple(Node(BrokerId(each), node_name(each), 9092) for each in self.numbers)
        return MetadataResponse(brokers=nodes, topics=tuple(topics))

    def _wrong(self, me, partition, epoch=-1):
        if self.leaders.get(partition) != me:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        if epoch not in (-1, self.epochs[partition]):
            newer = epoch > self.epochs[partition]
            return ErrorCode.UNKNOWN_LEADER_EPOCH if newer else ErrorCode.FENCED_LEADER_EPOCH
        return ErrorCode.NONE

    def _on_produce(self, me, request):
        results = []
        for each in request.partitions:
            code, base = self._wrong(me, each.partition), -1
            if not code:
                base = self.end(each.partition)
                data = bytearray(each.records)
                epoch = LeaderEpoch(self.epochs[each.partition])
                assign(data, base_offset=base, leader_epoch=epoch)
                self.logs[each.partition].append(data)
            results.append(
                ProduceResult(partition=each.partition, error_code=code, base_offset=base)
            )
        return ProduceResponse(partitions=tuple(results))

    def _on_fetch(self, me, request):
        results = []
        for each in request.partitions:
            code = self._wrong(me, each.partition, each.current_leader_epoch)
            if not code and not (
                self.starts[each.partition] <= each.fetch_offset <= self.end(each.partition)
            ):
                code = ErrorCode.OFFSET_OUT_OF_RANGE
            data = b"" if code else self._read(each)
            results.append(
                FetchResult(
                    partition=each.partition,
                    error_code=code,
                    high_watermark=self.end(each.partition),
                    records=memoryview(data),
                )
            )
        return FetchResponse(partitions=tuple(results))

    def _read(self, asked):
        found = [
            bytes(batch)
            for batch in self.logs[asked.partition]
            if next(batches(batch)).header.next_offset > asked.fetch_offset
        ]
        data = b"".join(found)
        return data[: max(asked.max_bytes, len(found[0]))] if found else b""

    def _on_list_offsets(self, me, request):
        results = []
        for each in request.partitions:
            code = self._wrong(me, each.partition, each.current_leader_epoch)
            found = ListOffsetsResult(partition=each.partition, error_code=code)
            if not code:
                found = self._find(each)
            results.append(found)
        return ListOffsetsResponse(partitions=tuple(results))

    def _find(self, asked):
        partition = asked.partition
        if asked.timestamp_ms == EARLIEST_TIMESTAMP_MS:
            return ListOffsetsResult(partition=partition, offset=Offset(self.starts[partition]))
        if asked.timestamp_ms == LATEST_TIMESTAMP_MS:
            return ListOffsetsResult(partition=partition, offset=Offset(self.end(partition)))
        for record in self.records(partition):
            if record.timestamp_ms >= asked.timestamp_ms:
                return ListOffsetsResult(
                    partition=partition, offset=record.offset, timestamp_ms=record.timestamp_ms
                )
        return ListOffsetsResult(partition=partition)

    def _on_find_coordinator(self, me, request):
        node = Node(BrokerId(self.coordinator), node_name(self.coordinator), 9092)
        return FindCoordinatorResponse(coordinator=node)

    def _on_offset_commit(self, me, request):
        code = ErrorCode.NONE if me == self.coordinator else ErrorCode.NOT_COORDINATOR
        for each in request.partitions:
            if not code:
                self.committed[request.group_id, each.partition] = each
        results = tuple(PartitionResult(each.partition, code) for each in request.partitions)
        return OffsetCommitResponse(partitions=results)

    def _on_offset_fetch(self, me, request):
        if me != self.coordinator:
            return OffsetFetchResponse(error_code=ErrorCode.NOT_COORDINATOR)
        results = []
        for each in request.partitions:
            known = self.committed.get((request.group_id, each))
            results.append(
                OffsetFetchResult(partition=each)
                if known is None
                else OffsetFetchResult(
                    partition=each,
                    committed_offset=known.committed_offset,
                    committed_leader_epoch=known.committed_leader_epoch,
                    metadata=known.metadata,
                )
            )
        return OffsetFetchResponse(partitions=tuple(results))
