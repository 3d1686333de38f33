"""Members of a group on a simulated cluster: each reads on its own, and tells what it was given."""

import asyncio

from wire.errors import ApiError

SESSION_MS = 6_000
OPTIONS = {
    "auto_offset_reset": "earliest",
    "session_timeout_ms": SESSION_MS,
    "heartbeat_interval_ms": 500,
    "max_poll_interval_ms": 10_000,
    "request_timeout_ms": 4_000,
}


class Reader:
    """One member, and all that it saw."""

    def __init__(self, cluster, topics, *, commits=True, **options):
        self.consumer = cluster.consumer(**OPTIONS | options)
        self.name = f"consumer-{cluster._clients}"  # on the network
        self.seen = []  # records, in their order
        self.assigned = []  # what it was given, each time
        self.revoked = []
        self.errors = []
        self._commits = commits
        self._consumer_topics = topics
        self.consumer.subscribe(
            topics, on_assigned=self.assigned.append, on_revoked=self.revoked.append
        )
        self._task = asyncio.create_task(self._read())

    @property
    def has(self):
        return self.consumer.assignment

    async def _read(self):
        while True:
            try:
                records = await self.consumer.poll(200)
                self.seen += records
                if records and self._commits:
                    await self.consumer.commit()
            except ApiError as error:
                self.errors.append(error)

    async def stop(self):
        """Go, and say goodbye."""
        self._task.cancel()
        await asyncio.wait([self._task])
        await self.consumer.close()

    async def vanish(self):
        """Go, and say nothing."""
        self._task.cancel()
        await asyncio.wait([self._task])
        self.consumer._end = RuntimeError("it has vanished")
        await self.consumer.close()


def values(*readers):
    return sorted(int(each.value) for reader in readers for each in reader.seen)
