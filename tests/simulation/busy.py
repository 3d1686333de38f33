"""A busy simulation of one seed, for a test that runs it twice: prints the hash of its trace."""

import hashlib
import sys
from contextlib import suppress
from dataclasses import dataclass

from actors.cluster import SimulatedCluster
from runtime.actor import Actor
from runtime.network import Incoming, NetworkError
from runtime.simulation.network import Conditions
from runtime.simulation.simulator import Simulator, run
from runtime.system import System
from runtime.world import World
from wire.codec import encode
from wire.metadata import ApiVersions

NODES = ("alpha", "beta", "gamma")
WEATHER = Conditions(loss=0.05, duplication=0.05, reordering=0.2)


@dataclass(frozen=True)
class Tick:
    pass


@dataclass(frozen=True)
class Done:
    what: str


class Gossip(Actor):
    """Calls the others, writes znodes and files, and counts what it hears, all by chance."""

    def __init__(self, world: World) -> None:
        super().__init__()
        self._world = world
        self._seen: set[str] = set()

    async def on_start(self) -> None:
        self._world.network.serve(self.ref)
        self.after(1, Tick())

    async def on_receive(self, message) -> None:
        match message:
            case Tick():
                self._on_tick()
            case Incoming():
                self._seen.add(bytes(message.payload).decode())
                message.reply(",".join(sorted(self._seen)).encode()[:100])
            case Done():
                await self._write(message.what)

    def _on_tick(self) -> None:
        chance = self._world.random
        peer = chance.choice(NODES)
        call = self._world.network.call(
            peer, f"{self._world.node}{chance.random()}".encode(), timeout_ms=50, label="Gossip"
        )
        self.pipe(call, lambda outcome: Done(_tell(outcome)))
        self.after(chance.uniform(1, 20), Tick())

    async def _write(self, what: str) -> None:
        keeper, disk = self._world.keeper, self._world.disk
        if self._world.random.random() < 0.3:
            await keeper.create("/gossip/n-", what.encode(), sequential=True)
        file = disk.open("log", create=True)
        file.append(what.encode())
        await file.sync()
        file.close()


def _tell(outcome) -> str:
    try:
        return bytes(outcome.get()).hex()
    except NetworkError as error:
        return type(error).__name__


async def start(sim: Simulator, node: str) -> None:
    world = sim.world(node)
    await world.keeper.start()
    system = System(node, world.trace, on_down=lambda _: sim.lose(world))
    sim.adopt(system)
    system.start("gossip", Gossip(world))


async def busy(seed: int) -> bytes:
    async with Simulator(seed=seed, conditions=WEATHER) as sim:
        cluster = SimulatedCluster(sim, brokers=3)
        await cluster.start_nodes()
        root = sim.world("root").keeper
        await root.start()
        await root.create("/gossip")
        for node in NODES:
            await start(sim, node)
        chance = sim.random("nemesis")
        for _ in range(40):
            await sim.sleep(chance.uniform(20, 400))
            await disturb(sim, cluster, chance)
        sim.heal()
        await sim.sleep(10_000)
        return sim.trace_bytes()


async def disturb(sim: Simulator, cluster: SimulatedCluster, chance) -> None:
    one, other = chance.sample(NODES, 2)
    match chance.randrange(7):
        case 0:
            sim.kill(one)
            await start(sim, one)
        case 1:
            sim.cut(one, other, one_way=chance.random() < 0.5)
        case 2:
            sim.hold(one, other)
        case 3:
            sim.heal()
        case 4:
            sim.expire_session(f"broker-{chance.randint(1, 3)}")
        case 5:
            sim.pause(one)
            await sim.sleep(chance.uniform(10, 3_000))
            sim.resume(one)
        case 6:
            client = sim.world("client").network
            with suppress(NetworkError):
                await client.call("broker-1", encode(ApiVersions()), timeout_ms=30)
            client.close()


if __name__ == "__main__":
    trace = run(lambda: busy(int(sys.argv[1])))
    sys.stdout.write(f"{len(trace)} {hashlib.sha256(trace).hexdigest()}\n")
