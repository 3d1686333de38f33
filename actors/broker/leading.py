"""What a leader does: take records, and say how far they are safe.

Rule: decided for each partition by itself; one partition's error is its own. The high watermark
moves here and nowhere else, and whoever waited for it is answered then (B161, B164).
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from actors.administration.auto_topics import INTERNAL_TOPICS
from actors.asked import Asked
from actors.broker.deleting import DeleteRecordsOver, Deleting
from actors.broker.durability import flush_demanded
from actors.broker.local import AppendRecords
from actors.broker.log.appending import Appended
from actors.broker.metadata import MetadataCache
from actors.broker.meters import Meters
from actors.broker.naming import name_log
from actors.broker.purgatory import Purgatory, Waiting
from actors.broker.readers import Reader
from actors.broker.replica import Proposal, Replica, Replicas
from actors.broker.serving import Serving
from actors.config import BrokerConfig
from runtime.ref import Timer
from runtime.world import World
from wire.admin import DeleteRecords
from wire.data import Produce, ProduceResponse, ProduceResult
from wire.errors import (
    ApiError,
    ErrorCode,
    InvalidRequest,
    InvalidRequiredAcks,
    InvalidTopic,
    KafkaStorageError,
    NotEnoughReplicas,
    NotLeaderOrFollower,
    UnknownTopicOrPartition,
)
from wire.ids import NO_LEADER_EPOCH, LeaderEpoch, Offset, TopicPartition
from wire.records import Buffer
from wire.trace import HighWatermarkMoved, RecordsAppended

ALL = -1  # acks


@dataclass(frozen=True)
class ProduceOver:
    """A produce request has waited long enough."""

    waiting: Waiting


class LogDirOffline(KafkaStorageError):
    """The disk is known to have failed: no news, only an answer."""


class Leading:
    """The partitions that this broker leads, for those who write and read."""

    def __init__(
        self,
        world: World,
        config: BrokerConfig,
        replicas: Replicas,
        cache: MetadataCache,
        meters: Meters,
        *,
        after: Callable[[float, Any], Timer],
        propose: Callable[[Proposal], None],
        failed: Callable[[KafkaStorageError], None],
    ) -> None:
        self._world = world
        self._config = config
        self._replicas = replicas
        self._cache = cache
        self._meters = meters
        self._after = after
        self._failed = failed
        self.offline: set[TopicPartition] = set()  # their disk has failed
        self.purgatory = Purgatory()
        self.deleting = Deleting(cache, self.led, after)
        self.serving = Serving(
            world,
            config,
            replicas,
            meters,
            led=self.led,
            advance=self.advance,
            after=after,
            propose=propose,
            failed=failed,
        )

    def led(
        self, partition: TopicPartition, current_leader_epoch: LeaderEpoch = NO_LEADER_EPOCH
    ) -> Replica:
        """The replica, if this broker leads it in that epoch (B144)."""
        replica = self._replicas.get(partition)
        if replica is None:
            if partition in self.offline:
                raise LogDirOffline(f"{partition} was on a disk that has failed")
            if self._cache.partition(partition) is None:
                raise UnknownTopicOrPartition(str(partition))
            raise NotLeaderOrFollower(f"{partition} is not here")
        replica.hosted.check_leader_epoch(current_leader_epoch)
        replica.hosted.check_leads()
        return replica

    # --- writing ----------------------------------------------------------------------------------

    async def produce(self, asked: Asked, request: Produce) -> None:
        """Append, and answer when the records are as safe as `acks` asks (B163, B164)."""
        if request.acks not in {ALL, 0, 1}:
            raise InvalidRequiredAcks(f"acks is {request.acks}; it must be -1, 0 or 1")
        batches = {each.partition: each.records for each in request.partitions}
        if len(batches) != len(request.partitions):
            raise InvalidRequest("a partition is named more than once")
        answer = asked.answer  # and not the request, whose records are in the log by then
        await self.append(
            batches,
            request.acks,
            request.timeout_ms,
            lambda results: answer(ProduceResponse(partitions=results)),
        )

    async def append(
        self,
        batches: dict[TopicPartition, Any],
        acks: int,
        timeout_ms: float,
        answer: Callable[[tuple[ProduceResult, ...]], None],
        *,
        is_internal: bool = False,
    ) -> None:
        """Append to partitions, each by itself, and answer for all of them at once."""
        results: dict[TopicPartition, ProduceResult] = {}
        required: dict[TopicPartition, Offset] = {}
        woken: dict[Reader, None] = {}
        for partition, records in batches.items():
            try:
                replica = self._written_to(partition, is_internal)
                appended = self._append(replica, records, acks, is_internal)
            except KafkaStorageError as error:
                results[partition] = _refused(partition, error)
                self._meters.refused(error)
                self._failed(error)
            except ApiError as error:
                results[partition] = _refused(partition, error)
                self._meters.refused(error)
            else:
                results[partition] = _appended(partition, appended)
                # What was sent again may be safe already: then there is nothing to wait for.
                if not appended.is_duplicate or appended.last_offset >= replica.high_watermark:
                    required[partition] = Offset(appended.last_offset + 1)
                woken |= self._readers_of(partition, appended)
        unsafe = await flush_demanded(self._replicas[each] for each in required)
        for partition, failure in unsafe.items():
            del required[partition]
            results[partition] = _refused(partition, failure)
            self._failed(failure)
        if acks == ALL and required:
            self._wait(Waiting(results, dict(required), answer), timeout_ms)
        for partition in required:
            self.advance(self._replicas[partition])
        if acks != ALL or not required:
            answer(tuple(results.values()))
        self.serving.look_again(woken)

    def _readers_of(self, partition: TopicPartition, appended: Appended) -> dict[Reader, None]:
        """Who waits for what was appended."""
        if appended.is_duplicate:
            return {}
        woken = dict.fromkeys(self.serving.readers.changed(partition))
        for reader in woken if appended.has_rolled else ():
            reader.is_due = True
        return woken

    def _written_to(self, partition: TopicPartition, is_internal: bool) -> Replica:
        if partition.topic in INTERNAL_TOPICS and not is_internal:
            raise InvalidTopic(f"{partition.topic} is written by coordinators only")
        return self.led(partition)

    def _wait(self, waiting: Waiting, timeout_ms: float) -> None:
        """Answer when all in-sync replicas have it; with no time to wait, after this look."""
        waiting.timer = self._after(max(timeout_ms, 0), ProduceOver(waiting))
        self.purgatory.wait(waiting)

    async def append_local(self, append: AppendRecords) -> None:
        """Append for another actor of this broker."""
        replica = self._replicas.get(append.partition)
        if replica is None or replica.leader_epoch != append.leader_epoch or not replica.is_leader:
            code = ErrorCode.NOT_LEADER_OR_FOLLOWER
            append.done(ProduceResult(partition=append.partition, error_code=code))
            return
        batches = {append.partition: append.records}
        await self.append(
            batches,
            append.acks,
            append.timeout_ms,
            lambda results: append.done(results[0]),
            is_internal=True,
        )

    def _append(self, replica: Replica, records: Buffer, acks: int, is_internal: bool) -> Appended:
        if replica.settings is None:
            raise NotLeaderOrFollower(f"{replica.partition}: its configuration is not read yet")
        in_sync, needed = len(replica.hosted.isr), replica.min_insync_replicas
        if acks == ALL and in_sync < needed:
            raise NotEnoughReplicas(f"{in_sync} in sync, and min.insync.replicas is {needed}")
        appended = replica.append(records, self._world.clock.now_ms(), is_internal=is_internal)
        if appended.is_duplicate:
            return appended
        self._meters.appended(appended.last_offset - appended.first_offset + 1, len(records))
        if not replica.is_named:
            name_log(self._world.disk, replica)
        if self._world.trace.wants(RecordsAppended):
            partition = replica.partition
            self._world.trace(
                RecordsAppended(
                    partition.topic,
                    partition.partition,
                    "leader",
                    replica.leader_epoch,
                    appended.first_offset,
                    appended.last_offset,
                )
            )
        return appended

    def over(self, over: ProduceOver | DeleteRecordsOver) -> None:
        """A request has waited long enough."""
        if isinstance(over, ProduceOver):
            self.purgatory.time_out(over.waiting)
        else:
            self.deleting.time_out(over.waiting)

    def advance(self, replica: Replica) -> None:
        """Raise the high watermark as far as it goes, and answer those who waited for it."""
        if self.deleting:
            self.deleting.look(replica)
        partition, lag_ms = replica.partition, self._config.replica_lag_time_max_ms
        if replica.settings is None or replica.high_watermark >= replica.log_end_offset:
            return  # without settings it is not known how many must be in sync
        reached = replica.reached(self._world.clock.elapsed_ms(), lag_ms)
        if replica.is_under_min_isr:  # those that are left have it, and they are too few (B163)
            code = ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
            self.purgatory.committed(partition, reached, code)
            return
        if reached <= replica.high_watermark:
            return
        replica.high_watermark = reached
        self.trace_high_watermark(replica, "leader")
        is_enough = len(replica.hosted.isr) >= replica.min_insync_replicas
        code = ErrorCode.NONE if is_enough else ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
        self.purgatory.committed(partition, reached, code)
        self.serving.look_again(
            {each: None for each in self.serving.readers.changed(partition) if not each.is_follower}
        )

    def trace_high_watermark(self, replica: Replica, role: str) -> None:
        """Leave word of where it is now."""
        if self._world.trace.wants(HighWatermarkMoved):
            at = replica.partition
            self._world.trace(
                HighWatermarkMoved(
                    at.topic, at.partition, role, replica.leader_epoch, replica.high_watermark
                )
            )

    def delete_records(self, asked: Asked, request: DeleteRecords) -> None:
        """Move the logs' starts, and answer when the others have followed."""
        moved = self.deleting.begin(asked, request)
        for partition in moved:
            self.serving.tell(self.serving.readers.changed(partition))

    def give_up(self, partition: TopicPartition) -> None:
        """This broker leads it no longer: tell all who wait."""
        is_lost = partition in self.offline
        code = ErrorCode.KAFKA_STORAGE_ERROR if is_lost else ErrorCode.NOT_LEADER_OR_FOLLOWER
        self.purgatory.fail(partition, code)
        self.deleting.fail(partition, code)
        self.tell_readers(partition)

    def tell_readers(self, partition: TopicPartition) -> None:
        """It is led by another, or in another epoch: whoever reads may mean the former (B165)."""
        waiting = tuple(self.serving.readers.changed(partition))
        if waiting:
            self.serving.look_again(waiting)


def _appended(partition: TopicPartition, appended: Appended) -> ProduceResult:
    return ProduceResult(
        partition=partition,
        base_offset=appended.first_offset,
        log_append_time_ms=appended.log_append_time_ms,
        log_start_offset=appended.log_start_offset,
    )


def _refused(partition: TopicPartition, error: ApiError) -> ProduceResult:
    return ProduceResult(partition=partition, error_code=error.code, error_message=str(error))
