"""How much room a broker's replicas take on its one disk.

Rule: what the logs themselves say; nothing is looked for on the disk.
"""

from actors.broker.hosting import Hosting
from actors.broker.replica import Replica
from runtime.files import DiskError
from runtime.world import World
from wire.admin import DescribeLogDirs, DescribeLogDirsResponse, LogDirReplica
from wire.errors import ErrorCode


def describe_log_dirs(
    request: DescribeLogDirs, world: World, hosting: Hosting
) -> DescribeLogDirsResponse:
    """The disk, by the name of its folder, and the replicas on it that were asked for."""
    try:
        usable_bytes = world.disk.free()
    except DiskError:
        usable_bytes = -1
    if hosting.is_disk_dead:
        code = ErrorCode.KAFKA_STORAGE_ERROR
        return DescribeLogDirsResponse(error_code=code, log_dir=world.node)
    replicas = hosting.replicas
    wanted = None if request.partitions is None else frozenset(request.partitions)
    return DescribeLogDirsResponse(
        log_dir=world.node,
        usable_bytes=usable_bytes,
        partitions=tuple(
            _replica(replicas[each])
            for each in sorted(replicas)
            if wanted is None or each in wanted
        ),
    )


def _replica(replica: Replica) -> LogDirReplica:
    log = replica.log
    lag = 0 if replica.is_leader else max(replica.high_watermark - replica.log_end_offset, 0)
    return LogDirReplica(replica.partition, 0 if log is None else log.size, lag)
