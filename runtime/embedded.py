"""The ZooKeeper server in PySpark's jars, as a child process.

Rule: no orphan. The server dies with this process, however this process dies: the kernel is asked
to kill it (PR_SET_PDEATHSIG) before it becomes Java. Its data folder outlives it only if the caller
gave one.
"""

import asyncio
import importlib.util
import os
import shutil
import socket
import tempfile
from pathlib import Path
from typing import Final, Self

from runtime.child import die_with_parent
from runtime.java import ensure_java

READY_TIMEOUT_MS: Final = 30_000
POLL_MS: Final = 20
ANSWER_MS: Final = 1_000
STOP_TIMEOUT_MS: Final = 5_000
PORT_TRIES: Final = 5

# What a standalone server needs of Spark's folder of jars; the whole of it takes longer to open.
JARS: Final = (
    "zookeeper-",
    "zookeeper-jute-",
    "netty-",
    "slf4j-api-",
    "log4j-",
    "metrics-core-",
    "snappy-java-",
    "commons-io-",
    "commons-cli-",
)
# One thread to collect, no time spent on optimising: it starts in under a second.
JVM_FLAGS: Final = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto", "-Xmx512m")


class ZooKeeperFailed(Exception):
    """The embedded server did not come up, or is gone."""


class EmbeddedZooKeeper:
    """One server on a loopback port."""

    def __init__(
        self,
        *,
        data: Path | None = None,
        port: int = 0,
        tick_ms: int = 200,
        host: str = "127.0.0.1",
    ) -> None:
        self._given = data
        self._data = data
        self._wanted_port = port
        self._tick_ms = tick_ms
        self.host = host
        self.port = port
        self._process: asyncio.subprocess.Process | None = None

    @property
    def hosts(self) -> str:
        """The connection string."""
        return f"{self.host}:{self.port}"

    @property
    def pid(self) -> int | None:
        """The server's process id, while it runs."""
        process = self._process
        return None if process is None or process.returncode is not None else process.pid

    @property
    def data(self) -> Path:
        """Where its snapshots, transactions and log file are."""
        assert self._data is not None, "not started yet"
        return self._data

    @property
    def log(self) -> Path:
        """What the server printed."""
        return self.data / "zookeeper.log"

    async def __aenter__(self) -> Self:
        try:
            await self.start()
        except BaseException:
            await self.close()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def start(self) -> None:
        """Start the server, or start it again with the data it had; return when it answers."""
        if self._data is None:
            self._data = Path(tempfile.mkdtemp(prefix="understudy-zookeeper-"))
        self._data.mkdir(parents=True, exist_ok=True)
        for attempt in range(1, PORT_TRIES + 1):
            self.port = self.port or _free_port(self.host)
            try:
                await self._launch()
                return
            except ZooKeeperFailed:
                # Another process may have taken the free port; a port that was asked for is final.
                taken = "Address already in use" in self._tail()
                await self.stop()
                if self._wanted_port or not taken or attempt == PORT_TRIES:
                    raise
                self.port = 0

    async def stop(self) -> None:
        """Stop the server; the data stays, and `start` goes on from it."""
        process, self._process = self._process, None
        if process is None or process.returncode is not None:
            return
        process.terminate()
        try:
            await asyncio.wait_for(process.wait(), STOP_TIMEOUT_MS / 1000)
        except TimeoutError:
            process.kill()
            await process.wait()

    async def kill(self) -> None:
        """Kill the server where it stands; the data stays."""
        process, self._process = self._process, None
        if process is not None and process.returncode is None:
            process.kill()
            await process.wait()

    async def close(self) -> None:
        """Stop the server, and remove the data folder unless it was given."""
        await self.stop()
        if self._given is None and self._data is not None:
            await asyncio.to_thread(shutil.rmtree, self._data, ignore_errors=True)
            self._data = None

    async def _launch(self) -> None:
        java = await asyncio.to_thread(ensure_java)
        config = self.data / "zookeeper.cfg"
        config.write_text(self._config())
        with self.log.open("ab") as log:
            self._process = await asyncio.create_subprocess_exec(
                str(java.executable),
                *JVM_FLAGS,
                "-Dzookeeper.admin.enableServer=false",
                "-Dzookeeper.preAllocSize=1024",
                "-Dzookeeper.4lw.commands.whitelist=srvr",
                "-Dlog4j2.level=WARN",
                "-XX:-UsePerfData",  # or it leaves a file in the temporary folder of all
                "-cp",
                class_path(),
                "org.apache.zookeeper.server.ZooKeeperServerMain",
                str(config),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,  # a Ctrl-C is for us: brokers deregister first
                preexec_fn=die_with_parent(os.getpid()),
            )
        await self._ready(self._process)

    async def _ready(self, process: asyncio.subprocess.Process) -> None:
        deadline = asyncio.get_running_loop().time() + READY_TIMEOUT_MS / 1000
        while not await _is_ok(self.host, self.port):
            if process.returncode is not None:
                raise ZooKeeperFailed(f"ZooKeeper has ended: {self._tail()}")
            if asyncio.get_running_loop().time() > deadline:
                raise ZooKeeperFailed(f"ZooKeeper does not answer: {self._tail()}")
            await asyncio.sleep(POLL_MS / 1000)
        if process.returncode is not None:  # another server answers on this port
            raise ZooKeeperFailed(f"ZooKeeper has ended: {self._tail()}")

    def _config(self) -> str:
        # Small ticks allow short sessions; a session ends at the tick after its time-out.
        lines = {
            "dataDir": self.data,
            "clientPort": self.port,
            "clientPortAddress": self.host,
            "tickTime": self._tick_ms,
            "minSessionTimeout": self._tick_ms * 2,
            "maxSessionTimeout": 3_600_000,
            "maxClientCnxns": 0,
            "admin.enableServer": "false",
            "forceSync": "no",  # a test cluster: what the kernel has is enough
        }
        return "".join(f"{key}={value}\n" for key, value in lines.items())

    def _tail(self) -> str:
        if not self.log.exists():
            return "it has printed nothing"
        lines = self.log.read_text(errors="replace").strip().splitlines()
        telling = [line for line in lines if "Exception" in line or "rror" in line]
        return (telling or lines or ["it has printed nothing"])[-1]


def class_path() -> str:
    """The jars, found without importing pyspark."""
    spec = importlib.util.find_spec("pyspark")
    if spec is None or not spec.submodule_search_locations:
        raise ZooKeeperFailed("pyspark, whose jars contain ZooKeeper, is not installed")
    folder = Path(spec.submodule_search_locations[0]) / "jars"
    jars = sorted(jar for jar in folder.glob("*.jar") if jar.name.startswith(JARS))
    if not any(jar.name.startswith("zookeeper-") for jar in jars):
        raise ZooKeeperFailed(f"there is no ZooKeeper among the jars in {folder}")
    return os.pathsep.join(map(str, jars))


def _free_port(host: str) -> int:
    with socket.socket() as probe:
        probe.bind((host, 0))
        port: int = probe.getsockname()[1]
        return port


async def _is_ok(host: str, port: int) -> bool:
    """Whether a ZooKeeper answers; some other server on the port may accept and say nothing."""
    try:
        async with asyncio.timeout(ANSWER_MS / 1000):
            reader, writer = await asyncio.open_connection(host, port)
            try:
                writer.write(b"srvr")  # "ruok" is answered before it takes sessions
                return (await reader.read(1 << 12)).startswith(b"Zookeeper version")
            finally:
                writer.close()
    except (OSError, TimeoutError):
        return False
