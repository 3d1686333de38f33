"""The embedded ZooKeeper: ports, data, ends."""

import socket
from pathlib import Path

import pytest

from runtime.clock import real_trace
from runtime.embedded import EmbeddedZooKeeper, ZooKeeperFailed
from runtime.zookeeper import ZooKeeper
from tests.support.processes import wait_for_end


async def keeper_of(server, session_timeout_ms=6_000):
    trace = real_trace(recording=False).at("test")
    keeper = ZooKeeper(server.hosts, trace, session_timeout_ms=session_timeout_ms)
    await keeper.start()
    return keeper


async def test_a_temporary_server_leaves_nothing_behind():
    async with EmbeddedZooKeeper() as server:
        data, pid = server.data, server.pid
        keeper = await keeper_of(server)
        await keeper.create("/a", b"x")
        await keeper.close()
        assert server.log.exists()

    assert not data.exists()
    wait_for_end(pid)


async def test_a_server_that_was_killed_starts_again_with_its_data_on_its_port(tmp_path):
    async with EmbeddedZooKeeper(data=tmp_path / "zk") as server:
        keeper = await keeper_of(server, 60_000)  # a shared machine may stand still for seconds
        await keeper.create("/a", b"x")
        hosts = server.hosts

        await server.kill()
        await server.start()

        assert server.hosts == hosts
        assert (await keeper.get("/a")).data == b"x"  # the same session, after a reconnection
        await keeper.close()
    assert (tmp_path / "zk" / "zookeeper.log").exists()


async def test_a_port_that_was_asked_for_and_is_taken_is_a_sentence(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        server = EmbeddedZooKeeper(data=tmp_path, port=port)

        with pytest.raises(ZooKeeperFailed, match="Address already in use"):
            await server.start()

    assert server.pid is None
    await server.close()


def listening_addresses() -> set[str]:
    """As the kernel writes them; an IPv4 address in an IPv6 socket ends like an IPv4 one."""
    tables = [Path(f"/proc/self/net/{name}").read_text() for name in ("tcp", "tcp6")]
    rows = [line.split() for table in tables for line in table.splitlines()[1:]]
    return {row[1] for row in rows if row[3] == "0A"}


async def test_it_listens_on_loopback_only():
    async with EmbeddedZooKeeper() as server:
        listening = listening_addresses()

    ours = [address for address in listening if address.endswith(f":{server.port:04X}")]
    assert len(ours) == 1
    assert ours[0].endswith(f"0100007F:{server.port:04X}")
