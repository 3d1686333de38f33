"""Every historic bug of Kafka's has a scenario, and each hits the window that its bug needs.

Each is played once more in the generation of replication that had the bug, or with the guard taken
out that was Kafka's answer: there it must turn bad, or it would prove nothing.
"""

import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from actors.broker import isr
from actors.broker.fence import Fence
from actors.broker.in_sync import InSync
from actors.broker.registration import Registration
from actors.broker.replica import Replica
from actors.config import GENERATIONS
from actors.controller import controller as controllers
from actors.controller.brokers import BrokerDifference, Brokers
from actors.controller.context import ReplicaPhase
from actors.controller.controller import Controller
from actors.controller.moves import moving_to
from actors.controller.office import Office
from actors.controller.outbox import Outbox
from actors.controller.reassignment import Reassignments
from actors.controller.replica_states import ReplicaStates
from actors.controller.store import Store
from actors.controller.topics import Topics
from actors.faults.scenario import read_scenario
from actors.faults.simulated import judge
from runtime.session import SessionKeeper
from tests.behaviours import BEHAVIOURS
from wire.ids import NO_CONTROL_SEQUENCE, NO_LEADER_EPOCH, UNKNOWN_BROKER_EPOCH

FOLDER = Path(__file__).parent
FILES = {path.stem: path for path in sorted(FOLDER.glob("h[0-9]*.toml"))}
Patch = pytest.MonkeyPatch
Removal = Callable[[Patch], None]
REMOVALS: dict[str, tuple[Removal, str]] = {}  # and by which invariant it is seen


def removes(name: str, shown: str) -> Callable[[Removal], Removal]:
    """What takes the guard out that this scenario is about."""

    def note(removal: Removal) -> Removal:
        REMOVALS[name] = removal, shown
        return removal

    return note


def _unnumbered(patch: Patch) -> None:
    """Requests as Kafka's: by its number, too, a late copy is known."""
    patch.setattr(Outbox, "_next_sequence", lambda self: NO_CONTROL_SEQUENCE)


@removes("h1-two-controllers", "I-2")
def _no_fence(patch: Patch) -> None:
    patch.setattr(Fence, "check", lambda self, request: None)


@removes("h3-late-write-of-a-deposed-controller", "I-2")
def _writes_without_a_check(patch: Patch) -> None:
    async def unfenced(self: Store, operations: Any) -> Any:
        return await self.keeper.write(operations)

    patch.setattr(Store, "write", unfenced)


@removes("h6-registration-that-lingers", "L-2")
def _no_memory_of_the_session_before(patch: Patch) -> None:
    patch.setattr(SessionKeeper, "previous_session_id", 0)
    nobody = property(lambda self: -1, lambda self, session: None)
    patch.setattr(Registration, "_registered_by", nobody, raising=False)


@removes("h9-error-between-add-and-send", "L-0")
def _what_an_error_leaves_stays(patch: Patch) -> None:
    send, clear = Outbox.send, Outbox.clear

    def send_then_clear(self: Outbox) -> None:
        send(self)
        clear(self)

    async def never_give_up(self: Controller, reason: str) -> None:
        pass

    patch.setattr(Outbox, "send", send_then_clear)
    patch.setattr(Outbox, "clear", lambda self: None)
    patch.setattr(Controller, "_give_up", never_give_up)


@removes("h11-bounce-that-nobody-saw", "L-0")
def _brokers_by_their_ids_alone(patch: Patch) -> None:
    looked = BrokerDifference.between

    def by_id_alone(before: Any, now: Any) -> BrokerDifference:
        change = looked(before, now)
        return BrokerDifference(added=change.added, bounced=(), removed=change.removed)

    patch.setattr(BrokerDifference, "between", by_id_alone)


@removes("h11-stop-replica-for-a-former-life", "I-11")
def _no_broker_epoch(patch: Patch) -> None:
    _unnumbered(patch)
    fence = Fence.check

    def by_controller_epoch_alone(self: Fence, request: Any) -> None:
        known, self.broker_epoch = self.broker_epoch, UNKNOWN_BROKER_EPOCH
        try:
            fence(self, request)
        finally:
            self.broker_epoch = known

    patch.setattr(Fence, "check", by_controller_epoch_alone)


@removes("h12-late-stop-replica", "expect")
def _stop_replica_without_an_epoch(patch: Patch) -> None:
    _unnumbered(patch)
    patch.setattr(Outbox, "_stop_epoch", lambda self, partition: NO_LEADER_EPOCH)


@removes("h14-isr-write-without-an-answer", "L-0")
def _own_work_is_not_recognised(patch: Patch) -> None:
    known = isr._version
    patch.setattr(
        isr, "_version", lambda result, found, hosted, wanted: known(result, None, hosted, wanted)
    )


@removes("h15-removed-replica-in-the-isr", "I-5")
def _the_end_of_a_move_leaves_the_epoch(patch: Patch) -> None:
    bump = Reassignments._bump_epoch

    async def only_at_the_start(self: Reassignments, partition: Any, assignment: Any) -> None:
        if assignment.adding_replicas:
            await bump(self, partition, assignment)

    patch.setattr(Reassignments, "_bump_epoch", only_at_the_start)


@removes("h21-member-of-the-isr-without-the-committed", "I-7")
def _in_sync_by_the_high_watermark_alone(patch: Patch) -> None:
    def may_join(self: Replica, broker: Any) -> bool:
        follower = self.followers.get(broker)
        is_there = follower is not None and follower.log_end_offset >= self.high_watermark
        return is_there and self.hosted.may_join(broker)

    patch.setattr(Replica, "may_join", may_join)


@removes("h25-broker-dies-with-the-controller", "L-0")
def _who_is_gone_is_not_looked_for(patch: Patch) -> None:
    startup = ReplicaStates.startup

    async def online_alone(self: ReplicaStates) -> None:
        change = self.change

        async def only(replicas: Any, target: ReplicaPhase) -> None:
            if target is ReplicaPhase.ONLINE:
                await change(replicas, target)

        self.change = only
        try:
            await startup(self)
        finally:
            self.change = change

    patch.setattr(ReplicaStates, "startup", online_alone)


@removes("h27-topic-that-grows-while-it-is-deleted", "expect")
def _what_is_deleted_may_grow(patch: Patch) -> None:
    async def creating(self: Topics, topic: str) -> None:
        found = (await self._read([topic])).get(topic)
        if found is not None:
            await self._create(self._context.add_topic(topic, found))

    patch.setattr(Topics, "on_modification", creating)


@removes("h33-move-forgotten-by-a-dead-controller", "L-0")
def _the_request_is_removed_first(patch: Patch) -> None:
    attempt = Reassignments._try

    async def removing(self: Reassignments, partition: Any, target: Any) -> Any:
        await self._request.remove(lambda each, _: each == partition)
        return await attempt(self, partition, target)

    patch.setattr(Reassignments, "_try", removing)


@removes("h35-override-that-stops-the-leader", "I-5")
def _an_override_looks_at_nobody(patch: Patch) -> None:
    patch.setattr(
        Reassignments, "_overriding", lambda self, _, before, target: moving_to(before, target)
    )


@removes("h39-produce-that-waits-for-the-dead", "expect")
def _a_shrink_moves_nothing(patch: Patch) -> None:
    begin = InSync.__init__

    def idly(self: InSync, *some: Any, **more: Any) -> None:
        begin(self, *some, **{**more, "advance": lambda replica: None})

    patch.setattr(InSync, "__init__", idly)


@removes("h41-seen-with-too-few-replicas", "I-18")
def _few_are_enough(patch: Patch) -> None:
    patch.setattr(Replica, "is_under_min_isr", property(lambda self: False))


@removes("h45-death-of-an-empty-broker", "L-0")
def _metadata_of_partitions_alone(patch: Patch) -> None:
    send, offline = Office.send_metadata, Brokers.on_replicas_offline
    deaths: list[Any] = []

    def of_partitions_alone(self: Office, partitions: Any, brokers: Any = None) -> None:
        if tuple(partitions) or not deaths:
            send(self, partitions, brokers)

    async def on_replicas_offline(self: Brokers, replicas: Any) -> None:
        deaths.append(replicas)
        await offline(self, replicas)
        deaths.pop()

    patch.setattr(Office, "send_metadata", of_partitions_alone)
    patch.setattr(Brokers, "on_replicas_offline", on_replicas_offline)


@removes("h47-request-in-the-queue-of-a-dead-session", "L-0")
def _what_is_dropped_is_forgotten(patch: Patch) -> None:
    patch.setattr(controllers, "preempted", lambda message: None)


# --- what is tried --------------------------------------------------------------------------------


def behaviour(name: str) -> str:
    """The row of the table that a file is about: h18a-… is about H18."""
    found = re.match(r"h\d+", name)
    assert found is not None
    return found[0].upper()


def marked(names: Iterable[str]) -> list[Any]:
    """Names of files, each the proof of its row."""
    return [pytest.param(each, marks=pytest.mark.behaviour(behaviour(each))) for each in names]


OF_GENERATIONS = [name for name, path in FILES.items() if read_scenario(path).expect.violated_in]


def test_every_historic_bug_has_a_scenario():
    rows = {row for row in BEHAVIOURS if re.fullmatch(r"H\d+", row)}

    assert {behaviour(name) for name in FILES} == rows
    assert {"h18a", "h18b"} <= {name.partition("-")[0] for name in FILES}


def test_every_historic_scenario_is_shown_to_hit():
    assert {*REMOVALS, *OF_GENERATIONS} == set(FILES)


@pytest.mark.parametrize("name", marked(REMOVALS))
def test_a_scenario_turns_bad_without_the_guard_that_it_is_about(monkeypatch, name):
    remove, shown = REMOVALS[name]
    remove(monkeypatch)

    verdict = judge(read_scenario(FILES[name]))

    assert verdict.invariant == shown, verdict.violation


@pytest.mark.parametrize("generation", GENERATIONS)
@pytest.mark.parametrize("name", marked(OF_GENERATIONS))
def test_a_scenario_turns_bad_in_the_generations_that_had_the_bug(name, generation):
    scenario = read_scenario(FILES[name])
    overrides = scenario.overrides | {"replication.generation": generation}

    verdict = judge(replace(scenario, overrides=overrides))

    assert verdict.expected == scenario.expect.violated_in.get(generation, "")
    assert verdict.is_good, verdict.violation
