"""One controller an epoch, and none that outlives its own.

Rule: a controller acts when it sends an order or writes to ZooKeeper; what it believes of itself is
no act. Who may act with an epoch is whoever wrote it, in the transaction that made `/controller`.
"""

from actors.faults.calls import Call, Order, broker_at
from actors.faults.invariant import Commit, Invariant
from actors.faults.ledger import StateChange, TopicChange
from runtime.keeper import Check, Create, Delete, Set
from wire.admin_znodes import (
    DeleteTopicsZNode,
    IsrChangeNotificationZNode,
    LogDirEventNotificationZNode,
)
from wire.control import ControlResponse
from wire.errors import ErrorCode, MalformedZNode
from wire.ids import BrokerId
from wire.trace import (
    BrokerRegistered,
    ControllerElected,
    ControllerResigned,
    MessageHandled,
    NodeStopped,
    TraceEvent,
)
from wire.znodes import ControllerEpochZNode, ControllerZNode

EPOCH = ControllerEpochZNode.path()
CONTROLLER = ControllerZNode.path()
CONTROLLERS_OWN = (  # what only a controller takes away
    f"{DeleteTopicsZNode.path()}/",
    f"{IsrChangeNotificationZNode.folder}/",
    f"{LogDirEventNotificationZNode.folder}/",
)


class OneControllerAnEpoch(Invariant):
    """I-1: at most one broker acts with an epoch, and epochs are counted without a gap."""

    name = "I-1"

    def __init__(self) -> None:
        self._actors: dict[int, str] = {}  # by epoch
        self._writers: dict[int, str] = {}  # by the version of the epoch's znode
        self._last: int | None = None

    def on_commit(self, commit: Commit) -> None:
        """Judge what happens to the epoch, and who writes under it."""
        for operation in commit.operations:
            if operation.path != EPOCH:
                continue
            if isinstance(operation, Create | Set):
                self._count(commit, operation.data)
            elif isinstance(operation, Check):
                writer = self._writers.get(operation.version, commit.node)
                if writer != commit.node:
                    self.found(f"{commit.node} writes under the epoch of {writer}")

    def _count(self, commit: Commit, data: bytes) -> None:
        try:
            epoch = int(ControllerEpochZNode.decode(data))
        except MalformedZNode:
            return
        if self._last is not None and epoch != self._last + 1:
            self.found(f"{commit.node} writes epoch {epoch} after {self._last}")
        self._last = epoch
        self._act(epoch, commit.node)
        stat = commit.tree.stat(EPOCH)
        if stat is not None:
            self._writers[stat.version] = commit.node

    def on_control_sent(self, call: Call) -> None:
        """Note who gives orders."""
        if isinstance(call.request, Order):
            self._act(call.request.controller_epoch, call.source)

    def _act(self, epoch: int, node: str) -> None:
        first = self._actors.setdefault(epoch, node)
        if first != node:
            self.found(f"{first} and {node} both act as controller of epoch {epoch}")


class PastControllersChangeNothing(Invariant):
    """I-2: no broker obeys a controller older than one it heard, and ZooKeeper obeys the last."""

    name = "I-2"
    events = (NodeStopped,)

    def __init__(self) -> None:
        self._heard: dict[str, int] = {}  # the greatest epoch, by node

    def on_event(self, node: str, event: TraceEvent) -> None:
        """A new life has heard of nobody."""
        del event
        self._heard.pop(node, None)

    def on_control_answered(self, call: Call, response: ControlResponse) -> None:
        """Judge an order that was obeyed."""
        request, node = call.request, call.destination
        if not isinstance(request, Order) or response.error_code is not ErrorCode.NONE:
            return
        epoch, heard = request.controller_epoch, self._heard.get(node, 0)
        if epoch < heard:
            what = type(request).__name__
            self.found(f"{node} obeyed a {what} of epoch {epoch} after one of {heard}")
        self._heard[node] = max(epoch, heard)

    def on_state(self, change: StateChange) -> None:
        """Judge a decision about a partition; a leader that changes its ISR decides nothing."""
        before, after = change.before, change.after
        if before is not None and after is not None:
            is_decision = before.state.leader_epoch != after.state.leader_epoch
        else:
            is_decision = True
        if is_decision:
            self._judge(change.node, f"decides about {change.partition}")
        if is_decision and after is not None and self._is_past(after.state.controller_epoch):
            self.found(
                f"{change.node} decides with epoch {after.state.controller_epoch} in epoch "
                f"{self.ledger.epoch}",
                partition=change.partition,
            )

    def _is_past(self, epoch: int) -> bool:
        return self.ledger.controller != "" and epoch < self.ledger.epoch

    def on_topic(self, change: TopicChange) -> None:
        """Judge the end of a topic; anybody may begin one."""
        if change.after is None:
            self._judge(change.node, f"removes the topic {change.topic}")

    def on_commit(self, commit: Commit) -> None:
        """Judge what only a controller takes away."""
        for operation in commit.operations:
            if isinstance(operation, Delete) and operation.path.startswith(CONTROLLERS_OWN):
                self._judge(commit.node, f"removes {operation.path}")

    def _judge(self, node: str, what: str) -> None:
        """Tools may do what they want: they are no controllers."""
        reigning = self.ledger.controller
        if broker_at(node) is not None and reigning not in {"", node}:
            self.found(f"{node} {what} while {reigning} is the controller")


class ControllersHaveWon(Invariant):
    """I-3: who is active has made `/controller`, and who has lost its session is not active."""

    name = "I-3"
    events = (
        BrokerRegistered,
        ControllerElected,
        ControllerResigned,
        NodeStopped,
        MessageHandled,
    )

    def __init__(self) -> None:
        self._session: dict[str, int] = {}  # in which a broker last registered
        self._won: dict[int, str] = {}  # by epoch: who made `/controller` with it
        self._active: dict[str, int] = {}
        self._over: set[tuple[str, int]] = set()  # epochs that began and ended

    def on_commit(self, commit: Commit) -> None:
        """Note who wins."""
        made = raised = None
        for operation in commit.operations:
            if isinstance(operation, Create) and operation.path == CONTROLLER:
                made = operation.data
            elif isinstance(operation, Set) and operation.path == EPOCH:
                raised = operation.data
        if made is not None and raised is not None:
            winner = ControllerZNode.decode(made).broker
            if winner == broker_at(commit.node):
                self._won[ControllerEpochZNode.decode(raised)] = commit.node

    def on_event(self, node: str, event: TraceEvent) -> None:
        """Judge who is active."""
        if isinstance(event, MessageHandled):
            if event.message == "Expired" and event.actor == "controller" and node in self._active:
                self.found(f"{node} has lost its session and is active in {self._active[node]}")
        elif isinstance(event, ControllerElected):
            self._on_elected(node, event)
        elif isinstance(event, BrokerRegistered):
            is_anew = self._session.get(node) != event.session
            self._session[node] = event.session
            if is_anew and node in self._active:
                self.found(f"{node} has another session and is active in {self._active[node]}")
        else:
            epoch = self._active.pop(node, None)
            if epoch is not None:
                self._over.add((node, epoch))

    def _on_elected(self, node: str, event: ControllerElected) -> None:
        epoch = event.controller_epoch
        if self._won.get(epoch) != node or broker_at(node) != BrokerId(event.broker):
            self.found(f"{node} is active in epoch {epoch}, won by {self._won.get(epoch)}")
        if (node, epoch) in self._over:
            self.found(f"{node} is active in epoch {epoch} once more")
        self._active[node] = epoch

    def on_control_sent(self, call: Call) -> None:
        """Judge who gives orders."""
        request = call.request
        if isinstance(request, Order) and (call.source, request.controller_epoch) in self._over:
            what = type(request).__name__
            epoch = request.controller_epoch
            self.found(f"{call.source} sends a {what} after its reign {epoch} is over")
