"""A group coordinator alone with ZooKeeper, a replica manager by script, and somebody who asks."""

from actors.asked import Asked
from actors.broker.local import AppendRecords, LeadershipChanged, ReadRecords, RecordsRead
from actors.broker.metadata import AwaitMetadata, MetadataCache
from actors.broker.registration import make_paths
from actors.config import BrokerConfig
from actors.coordinator.coordinator import GroupCoordinator
from actors.coordinator.offsets import partition_for
from actors.coordinator.records import OFFSETS_TOPIC, decode_changes, encode_changes
from runtime.actor import Actor
from runtime.system import System
from wire.control import LiveBroker, UpdateMetadata, UpdateMetadataPartition
from wire.data import ProduceResult
from wire.errors import ErrorCode
from wire.groups import FindCoordinator, OffsetCommit, OffsetCommitPartition, OffsetFetch
from wire.ids import BrokerId, Endpoint, TopicPartition
from wire.records import assign, decode_header
from wire.znodes import PERSISTENT_ROOTS, ReplicaAssignment, TopicAssignment, TopicZNode

NONE = ErrorCode.NONE
PARTITIONS = 4
GROUP = "readers"
SHARD = partition_for(GROUP, PARTITIONS)
ORDERS = TopicPartition("orders", 0)
BILLS = TopicPartition("bills", 3)


class ScriptedLog:
    """One partition: batches in a list, committed up to `high_watermark` or, with None, all."""

    def __init__(self):
        self.batches = []
        self.start = 0
        self.high_watermark = None

    @property
    def end(self):
        return decode_header(self.batches[-1]).next_offset if self.batches else self.start

    def append(self, records, epoch=0):
        base = self.end
        assign(records, base_offset=base, leader_epoch=epoch)
        self.batches.append(bytes(records))
        return base

    def read(self, offset, max_bytes):
        committed = self.end if self.high_watermark is None else self.high_watermark
        found = b""
        for batch in self.batches:
            header = decode_header(batch)
            if header.last_offset < max(offset, self.start) or header.next_offset > committed:
                continue
            if found and len(found) + len(batch) > max_bytes:
                break
            found += batch
        return RecordsRead(NONE, found, self.start, committed, self.end)

    def changes(self):
        return [change for _, change in decode_changes(b"".join(self.batches), 0)]


class ScriptedReplicaManager(Actor):
    """Answers at once, or when it is told to; an error if it is told so."""

    def __init__(self):
        super().__init__()
        self.logs = {}
        self.appends, self.reads = [], []
        self.epochs = {}  # a partition led in one epoch refuses the others
        self.append_error = self.read_error = NONE
        self.appends_despite_error = False
        self.max_message_bytes = 1 << 20
        self.is_holding_appends = self.is_holding_reads = self.is_holding_looks = False
        self.held = []
        self.cache = MetadataCache("INTERNAL")

    def log(self, number=SHARD):
        return self.logs.setdefault(TopicPartition(OFFSETS_TOPIC, number), ScriptedLog())

    async def on_receive(self, message):
        match message:
            case AwaitMetadata():
                assert message.timeout_ms == 0
                holds = message.holds(self.cache)
                self._answer(lambda: message.done(holds), self.is_holding_looks)
            case AppendRecords():
                self.appends.append(message)
                result = self._append(message)
                self._answer(lambda: message.done(result), self.is_holding_appends)
            case ReadRecords():
                self.reads.append(message)
                read = self._read(message)
                self._answer(lambda: message.done(read), self.is_holding_reads)

    def _answer(self, answer, is_held):
        if is_held:
            self.held.append(answer)
        else:
            answer()

    def release(self, *indexes):
        held, self.held = self.held, []
        for index in indexes or range(len(held)):
            held[index]()

    def _append(self, append):
        code = self.append_error
        if self.epochs.get(append.partition, append.leader_epoch) != append.leader_epoch:
            code = ErrorCode.NOT_LEADER_OR_FOLLOWER
        elif len(append.records) > self.max_message_bytes:
            code = ErrorCode.MESSAGE_TOO_LARGE
        base = -1
        if code is NONE or self.appends_despite_error:
            base = self.log(append.partition.partition).append(append.records, append.leader_epoch)
        if code is not NONE:
            return ProduceResult(partition=append.partition, error_code=code)
        return ProduceResult(partition=append.partition, base_offset=base)

    def _read(self, read):
        code = self.read_error
        if self.epochs.get(read.partition, read.leader_epoch) != read.leader_epoch:
            code = ErrorCode.NOT_LEADER_OR_FOLLOWER
        if code is not NONE:
            return RecordsRead(code, b"", -1, -1, -1)
        return self.log(read.partition.partition).read(read.offset, read.max_bytes)


class Office:
    """A coordinator, and somebody who asks it."""

    @classmethod
    async def open(cls, sim, **config):
        office = cls()
        office.sim, office.world = sim, sim.world("broker-1")
        await office.world.keeper.start()
        await make_paths(office.world.keeper, PERSISTENT_ROOTS)
        office.system = System("broker-1", office.world.trace)
        sim.adopt(office.system)
        office.replicas = ScriptedReplicaManager()
        office.topics_asked_for = 0
        office.hidden = set()  # partitions that metadata does not know
        replica_manager = office.system.start("replica-manager", office.replicas)
        settings = BrokerConfig(broker_id=1, **config)
        coordinator = GroupCoordinator(
            office.world, settings, replica_manager, office._create_topic
        )
        office.ref = office.system.start("coordinator", coordinator)
        return office

    def _create_topic(self):
        self.topics_asked_for += 1

    def _make_known(self, request):
        """Let metadata show what is committed for, unless a test hides it."""
        for each in getattr(request, "partitions", None) or ():
            if isinstance(request, OffsetCommit) and each.partition not in self.hidden:
                self._know(each.partition)

    def _know(self, partition):
        entry = UpdateMetadataPartition(
            partition=partition,
            controller_epoch=1,
            leader=1,
            leader_epoch=0,
            isr=(1,),
            partition_epoch=0,
            replicas=(1,),
        )
        topics = self.replicas.cache.topics
        topics.setdefault(partition.topic, {})[partition.partition] = entry

    async def make_topic(self, partitions=PARTITIONS):
        replicas = ReplicaAssignment(replicas=(BrokerId(1), BrokerId(2)))
        assignment = TopicAssignment(partitions=dict.fromkeys(range(partitions), replicas))
        await self.world.keeper.create(
            TopicZNode.path(OFFSETS_TOPIC), TopicZNode.encode(assignment)
        )

    def show(self, leaders, brokers=(1, 2)):
        """Let metadata show the leader of each partition of __consumer_offsets."""
        endpoints = {each: Endpoint("INTERNAL", "PLAINTEXT", f"host-{each}", 9) for each in brokers}
        self.replicas.cache.update(
            UpdateMetadata(
                controller_id=1,
                controller_epoch=1,
                broker_epoch=1,
                live_brokers=tuple(
                    LiveBroker(id=each, endpoints=(endpoint,), rack=None)
                    for each, endpoint in endpoints.items()
                ),
                partitions=tuple(
                    UpdateMetadataPartition(
                        partition=TopicPartition(OFFSETS_TOPIC, number),
                        controller_epoch=1,
                        leader=leader,
                        leader_epoch=0,
                        isr=(1, 2),
                        partition_epoch=0,
                        replicas=(1, 2),
                    )
                    for number, leader in leaders.items()
                ),
            )
        )

    # --- leading ----------------------------------------------------------------------------------

    def tell_leads(self, number=SHARD, epoch=0):
        partition = TopicPartition(OFFSETS_TOPIC, number)
        self.replicas.epochs[partition] = epoch
        self.ref.tell(LeadershipChanged(partition, epoch, is_leader=True))

    def tell_leads_no_longer(self, number=SHARD, epoch=1):
        partition = TopicPartition(OFFSETS_TOPIC, number)
        self.replicas.epochs[partition] = -1
        self.ref.tell(LeadershipChanged(partition, epoch, is_leader=False))

    async def lead(self, number=SHARD, epoch=0):
        self.tell_leads(number, epoch)
        await self.rest()

    # --- asking -----------------------------------------------------------------------------------

    async def rest(self, time_ms=50):
        await self.sim.sleep(time_ms)
        assert self.system.is_up, self.system.error

    def send(self, request):
        answers = []
        self._make_known(request)
        self.ref.tell(Asked(request, "client", answers.append))
        return answers

    async def ask(self, request):
        answers = self.send(request)
        await self.rest()
        (answer,) = answers
        return answer

    async def find(self, group=GROUP, **options):
        return await self.ask(FindCoordinator(key=group, **options))

    async def commit(self, offset, partition=ORDERS, **options):
        """The error of a commit of one offset."""
        response = await self.ask(a_commit({partition: offset}, **options))
        (result,) = response.partitions
        assert result.partition == partition
        return result.error_code

    async def committed(self, partition=ORDERS, group=GROUP):
        """The offset of one partition, or the error."""
        response = await self.ask(OffsetFetch(group_id=group, partitions=(partition,)))
        if response.error_code is not NONE:
            return response.error_code
        (result,) = response.partitions
        assert (result.partition, result.error_code) == (partition, NONE)
        return result.committed_offset

    def write(self, *changes, number=SHARD):
        """Let the log have a batch that nobody here has written."""
        self.replicas.log(number).append(encode_changes(changes, 1))


def a_commit(offsets, *, group=GROUP, metadata=None, **options):
    return OffsetCommit(
        group_id=group,
        partitions=tuple(
            OffsetCommitPartition(partition=each, committed_offset=offset, metadata=metadata)
            for each, offset in offsets.items()
        ),
        **options,
    )
