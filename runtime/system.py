"""A node: the actors that live and die together.

Rule: a crashed actor takes its node down and nobody else's. What is down stays down; a restart is
a new System. A node ends in one of two ways: `stop` lets every actor finish, last started first;
`kill` stops all of them where they stand.
"""

import asyncio
from collections.abc import Callable
from typing import Final

from runtime.actor import Actor
from runtime.deadlines import Deadlines
from runtime.ref import ActorGone, Ref
from runtime.tracing import NodeTrace
from wire.trace import NodePaused, NodeResumed, NodeStarted, NodeStopped

Down = Callable[[str], None]
STOPPED: Final = "stopped"


class System:
    """The actors of one node."""

    def __init__(self, name: str, trace: NodeTrace, *, on_down: Down | None = None) -> None:
        self.name = name
        self.trace = trace
        self.deadlines = Deadlines()
        self.gate: asyncio.Future[None] | None = None
        self.error: BaseException | None = None  # the crash that took the node down
        self._on_down = on_down
        self._actors: dict[str, Actor] = {}
        self._is_up = True
        self._down: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        trace(NodeStarted())

    @property
    def is_up(self) -> bool:
        """Whether the node still runs."""
        return self._is_up

    @property
    def is_paused(self) -> bool:
        """Whether the node stands still."""
        return self.gate is not None

    def start(self, name: str, actor: Actor) -> Ref:
        """Give an actor its address, `node/name`, and set it going."""
        if not self._is_up:
            raise ActorGone(f"{self.name} is down: it starts no {name}")
        address = f"{self.name}/{name}"
        if address in self._actors:
            raise ValueError(f"there is a {address} already")
        self._actors[address] = actor
        return actor.launch(self, address)

    def lookup(self, name: str) -> Ref | None:
        """The actor `node/name`, if it lives."""
        actor = self._actors.get(f"{self.name}/{name}")
        return None if actor is None else actor.ref

    def addresses(self) -> tuple[str, ...]:
        """Who lives here, in the order of their start."""
        return tuple(self._actors)

    async def stop_actor(self, ref: Ref) -> None:
        """Let one actor finish what is in its inbox, then go."""
        actor = self._actors.get(ref.address)
        if actor is not None:
            await actor.finish()

    def kill_actor(self, ref: Ref) -> None:
        """End one actor where it stands; its address is free at once."""
        actor = self._actors.get(ref.address)
        if actor is not None and actor.ref is ref:  # not a later one of the same name
            del self._actors[ref.address]
            actor.kill()

    async def stop(self, reason: str = STOPPED) -> None:
        """Let every actor finish, last started first; a node that stands still goes on before."""
        while self.gate is not None:  # only whoever froze it knows what else stands still with it
            await asyncio.shield(self.gate)
        while self._actors:  # one that finishes may start others: they finish too
            await next(reversed(self._actors.values())).finish()
        self._go_down(reason)

    def kill(self, reason: str = "killed") -> None:
        """Stop every actor where it stands, as a power cut would."""
        if not self._is_up:
            return
        self._is_up = False
        for actor in tuple(self._actors.values()):
            actor.kill()
        self.resume()
        self._is_up = True
        self._go_down(reason)

    def pause(self) -> None:
        """Handle nothing until resumed: inboxes fill, timers ring into them."""
        if self._is_up and self.gate is None:
            self.gate = asyncio.get_running_loop().create_future()
            self.trace(NodePaused())

    def resume(self) -> None:
        """Go on after a pause."""
        gate, self.gate = self.gate, None
        if gate is not None:
            gate.set_result(None)
            self.trace(NodeResumed())

    async def down(self) -> str:
        """Wait until the node is down; the answer says why."""
        return await asyncio.shield(self._down)

    def on_actor_ended(self, actor: Actor, error: BaseException | None) -> None:
        """An actor is gone; with an error, the node follows."""
        if self._actors.get(actor.address) is actor:
            del self._actors[actor.address]
        if error is not None:
            self.error = self.error or error
            self.kill(f"{actor.address} crashed: {error!r}")

    def _go_down(self, reason: str) -> None:
        if not self._is_up:
            return
        self._is_up = False
        self._actors.clear()
        self.deadlines.close()
        self.trace(NodeStopped(reason))
        if not self._down.done():
            self._down.set_result(reason)
        if self._on_down is not None:
            self._on_down(reason)
