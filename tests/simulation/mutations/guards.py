"""All guards that are proven to be needed.

Rule: a guard is in this list if its absence is caught. Its ground is random seeds if these catch it
in a minute, and else says why not. What was tried and is not listed, because something else does
the same, is in REDUNDANT.
"""

from typing import Final

from tests.simulation.mutations.grounds import CHAOS, scenario, schedule
from tests.simulation.mutations.guard import Edit, Guard, guard

BROKER: Final = "actors.broker."
CONTROLLER: Final = "actors.controller."
COORDINATOR: Final = "actors.coordinator."

NO_NUMBERS: Final = Edit(  # by its number, too, a late copy is known
    f"{CONTROLLER}outbox:Outbox._next_sequence",
    "return ControlSequence(self._sequence)",
    "return ControlSequence(-1)",
)

OBEYING: Final = (
    guard(
        "broker-epoch",
        f"{BROKER}fence:Fence.check",
        "request.broker_epoch < self.broker_epoch",
        "False",
        "An order to a broker's former life does nothing in the next (B023, H11)",
    ),
    guard(
        "controller-epoch",
        f"{BROKER}fence:Fence.check",
        "request.controller_epoch < self.controller_epoch",
        "False",
        "Who has heard of a controller obeys no earlier one (B024, H1)",
    ),
    guard(
        "leader-epoch-of-leader-and-isr",
        f"{BROKER}hosting:Hosting._judge",
        "entry.leader_epoch <= known.leader_epoch",
        "False",
        "A decision is taken once, and never after a later one (B135)",
    ),
    Guard(
        "leader-epoch-of-stop-replica",
        "A late StopReplica stops no replica that was told to run since (B141, H12)",
        (
            Edit(
                f"{BROKER}hosting:Hosting._stop",
                "entry.leader_epoch not in UNFENCED and entry.leader_epoch < replica.leader_epoch",
                "False",
            ),
            NO_NUMBERS,
        ),
        scenario("h12-late-stop-replica", "a StopReplica must come twice, seconds apart"),
    ),
    Guard(
        "stop-replica-says-its-epoch",
        "The controller says in which leader epoch it stops a replica (B132, H12)",
        (
            Edit(
                f"{CONTROLLER}outbox:Outbox._stop_epoch",
                "NO_LEADER_EPOCH if leadership is None else leadership.leader_epoch",
                "NO_LEADER_EPOCH",
            ),
            NO_NUMBERS,
        ),
        scenario("h12-late-stop-replica", "a StopReplica must come twice, seconds apart"),
    ),
    guard(
        "overtaken-requests",
        f"{BROKER}fence:Fence._is_overtaken",
        "request.sequence < self._newest",
        "False",
        "A late copy of what a controller sent twice does nothing (B123)",
        schedule(
            "deletes what was made anew",
            "a topic must be made anew, and no seed gives a name a second time",
        ),
    ),
    guard(
        "moved-away-unheard",
        f"{BROKER}hosting:Hosting._is_moved_away",
        "entry.leader_epoch > replica.leader_epoch",
        "False",
        "Who had no session when its replica was moved leads no longer (L-8)",
        schedule("leads what was moved away", "one seed in some thousands moves it just then"),
    ),
    guard(
        "deleted-unheard",
        f"{BROKER}hosting:Hosting._is_moved_away",
        "is_namesake or ",
        "",
        "Who had no session when its topic was made anew elsewhere leads no longer (I-15)",
        schedule("leads a namesake", "the same, and a topic must be made anew"),
    ),
    guard(
        "namesakes",
        f"{BROKER}hosting:Hosting._remove_namesakes",
        "if strays:",
        "if False:",
        "A topic made anew does not meet the records of its namesake (B140, I-15)",
        schedule("meets its namesake", "a move, a deletion and a creation while a broker is away"),
    ),
    guard(
        "registration-of-this-session",
        f"{BROKER}registration:Registration._register",
        "stat is not None and stat.ephemeral_owner != keeper.session_id",
        "False",
        "A broker takes no registration of its former session for its own (B020, H6)",
    ),
    guard(
        "goodbye-of-this-life",
        f"{CONTROLLER}brokers:Brokers.on_controlled_shutdown",
        "epoch < known.epoch",
        "False",
        "The goodbye of a former life takes nothing from a broker that is back (B077)",
        schedule("says goodbye in a former life", "a goodbye must come twice, a restart apart"),
    ),
)

LEADING: Final = (
    guard(
        "fetch-of-an-older-epoch",
        f"{BROKER}partition:HostedPartition.check_leader_epoch",
        "current < self.leader_epoch",
        "False",
        "Nobody is served who follows in an older leader epoch (B144, B152, H20)",
    ),
    guard(
        "fetch-of-a-newer-epoch",
        f"{BROKER}partition:HostedPartition.check_leader_epoch",
        "current > self.leader_epoch",
        "False",
        "A leader that does not know of a newer epoch serves nobody in it (B144, H20)",
    ),
    guard(
        "only-leaders-append",
        f"{BROKER}partition:HostedPartition.check_leads",
        "not self.is_leader",
        "False",
        "Who follows takes no records from producers (B144)",
        schedule(
            "writes to a follower",
            "with acks=all the follower's empty ISR refuses; a client with old metadata and "
            "acks=1 is rare",
        ),
    ),
    guard(
        "members-join-once",
        f"{BROKER}partition:HostedPartition.may_join",
        "replica not in self.isr",
        "True",
        "Nobody is in an ISR twice (B160)",
    ),
    guard(
        "who-joins-has-the-committed",
        f"{BROKER}replica:Replica.may_join",
        "max(self.high_watermark, self.epoch_start_offset)",
        "0",
        "Who joins the ISR has all below the high watermark (B160)",
    ),
    guard(
        "who-joins-has-the-epochs-start",
        f"{BROKER}replica:Replica.may_join",
        "max(self.high_watermark, self.epoch_start_offset)",
        "self.high_watermark",
        "Who joins has what former leaders committed, which a new leader does not know (H21)",
        scenario(
            "h21-member-of-the-isr-without-the-committed",
            "two leaders must die, and links fail between three others",
        ),
    ),
    guard(
        "joiners-count",
        f"{BROKER}replica:Replica.counted",
        "*(self.pending_isr or ()), ",
        "",
        "Who is on its way into the ISR holds the high watermark back (B121)",
        schedule("joins and falls silent", "the answer to a join must be late, its link cut"),
    ),
    guard(
        "doubtful-joiners-count",
        f"{BROKER}replica:Replica.counted",
        ", *self.doubtful",
        "",
        "So does who may have got in, though the write was refused (B121, B162)",
        schedule("may have let somebody in", "a lost answer, and a controller that was faster"),
    ),
    guard(
        "members-count",
        f"{BROKER}replica:Replica.reached",
        "broker in counted or now_ms",
        "now_ms",
        "The high watermark waits for all in sync, however long they lag (B161)",
    ),
    guard(
        "too-few-commit-nothing",
        f"{BROKER}replica:Replica.is_under_min_isr",
        "return len(self.hosted.isr) <",
        "return len(self.hosted.isr) < 0 *",
        "The high watermark stands still below min.insync.replicas (B161, H41)",
    ),
    guard(
        "too-few-acknowledge-nothing",
        f"{BROKER}leading:Leading.advance",
        "        code = ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND\n",
        "        code = ErrorCode.NONE\n",
        "Who waits for acks=all is told that too few are in sync (B163)",
    ),
    guard(
        "high-watermark-never-falls",
        f"{BROKER}leading:Leading.advance",
        "reached <= replica.high_watermark",
        "reached == replica.high_watermark",
        "A leader's high watermark never falls (B161)",
    ),
    guard(
        "new-leaders-know-nobody",
        f"{BROKER}replica:Replica.become_leader",
        "self.followers = {",
        "self.followers = self.followers or {",
        "What a leader knew of its followers ends with its epoch (B137)",
    ),
    guard(
        "acks-wait-for-the-high-watermark",
        f"{BROKER}purgatory:Purgatory.committed",
        "queue[0].required[partition] <= upto",
        "True",
        "acks=all is answered when the high watermark has passed the records (B164)",
    ),
    guard(
        "advance-after-a-shrink",
        f"{BROKER}in_sync:InSync.written",
        "self._advance(replica)",
        "pass",
        "What only a lost follower lacked is committed when it is out (H39)",
        scenario(
            "h39-produce-that-waits-for-the-dead",
            "whoever asks again is answered: only that one request times out",
        ),
    ),
    guard(
        "isr-write-on-its-version",
        f"{BROKER}isr:write_isrs",
        "            hosted.partition_epoch,\n",
        "            -1,\n",
        "A leader's ISR write lands only on the state that it knows (B008)",
    ),
    guard(
        "isr-write-is-known-again",
        f"{BROKER}isr:_version",
        "found.stat.version if state == hosted.state_with(isr) else None",
        "None",
        "An ISR that was written, its answer lost, is known as written (B022, H14)",
    ),
    guard(
        "isr-write-of-another",
        f"{BROKER}isr:_version",
        "if state == hosted.state_with(isr) else None",
        "if state else None",
        "A state that somebody else wrote is not taken for one's own (B022)",
    ),
    guard(
        "refused-fetches-say-nothing",
        f"{BROKER}serving:Serving._hear",
        "if at not in refused",
        "",
        "A follower's offset counts once its read went well (B166)",
    ),
    guard(
        "consumers-below-the-high-watermark",
        f"{BROKER}serving:_end_for",
        "replica.last_stable_offset if reader.is_read_committed else replica.high_watermark",
        "replica.log_end_offset",
        "Consumers are shown what is committed, and no more (B165)",
    ),
    guard(
        "one-session-a-follower",
        f"{BROKER}readers:Readers._begin",
        "self._end_others(request)",
        "pass",
        "What a follower said in a former life does not count in the next (B158)",
        schedule("fetched in a former life", "a fetch must overtake a restart that loses bytes"),
    ),
)

FOLLOWING: Final = (
    guard(
        "divergence",
        f"{BROKER}serving:_diverging",
        "wanted.last_fetched_epoch == NO_LEADER_EPOCH",
        "True",
        "A follower is told where its log and the leader's part (B154, H18)",
    ),
    guard(
        "divergence-by-offset",
        f"{BROKER}serving:_diverging",
        " or epoch_end < wanted.fetch_offset",
        "",
        "… if the leader's epoch ended earlier than the follower's (B154, H18)",
    ),
    guard(
        "divergence-by-epoch",
        f"{BROKER}serving:_diverging",
        "epoch < wanted.last_fetched_epoch or ",
        "",
        "… or if the leader never had that epoch (B154, H19)",
        scenario("h19-fast-changes-of-the-leader", "needs elections of who was not in sync"),
    ),
    guard(
        "cut-to-ones-own-end",
        f"{BROKER}truncation:cut_for",
        "min(end_offset, my_end, log_end_offset)",
        "min(end_offset, log_end_offset)",
        "A follower also cuts off what followed the common epoch (B149, H19)",
        scenario("h19-fast-changes-of-the-leader", "needs elections of who was not in sync"),
    ),
    guard(
        "cut-epochs-of-no-records",
        f"{BROKER}following:Following._cut",
        "if replica.log is not None:",
        "if False:",
        "With its tail a log loses the epochs that began there (B151)",
    ),
    guard(
        "answers-to-older-positions",
        f"{BROKER}fetcher:Fetcher._current",
        "self._session.wanted.get(partition) is wanted",
        "True",
        "An answer to an older position or epoch is dropped (B153)",
    ),
    guard(
        "high-watermark-within-the-log",
        f"{BROKER}replica:Replica.follow_to",
        "min(leader_high_watermark, self.log_end_offset)",
        "leader_high_watermark",
        "A follower's high watermark ends with its log (B157)",
    ),
    guard(
        "high-watermark-is-cut",
        f"{BROKER}replica:Replica.cut_high_watermark",
        "min(self.high_watermark, self.log_end_offset)",
        "self.high_watermark",
        "… also when the log is cut (B173)",
    ),
    guard(
        "high-watermark-of-the-checkpoint",
        f"{BROKER}log.manager:LogManager.initial_high_watermark",
        "min(noted, log.log_end_offset)",
        "noted",
        "… and when it comes from a checkpoint (B173)",
    ),
    guard(
        "unclean-stops-are-scanned",
        f"{BROKER}log.manager:LogManager.open",
        "is_clean = was_clean_shutdown(disk)",
        "is_clean = True",
        "After an unclean stop a log is looked through (B171)",
    ),
    guard(
        "clean-marks-are-taken-away",
        f"{BROKER}log.manager:LogManager.open",
        "await unmark_clean_shutdown(disk)",
        "pass",
        "The mark of a clean stop is gone before the first append (B171)",
        schedule("stops well and then does not", "a broker must stop in its own time and then not"),
    ),
)

REIGNING: Final = (
    guard(
        "writes-of-this-reign",
        f"{CONTROLLER}store:Store.write",
        "await self.keeper.write(operations, check=self._check)",
        "await self.keeper.write(operations)",
        "A deposed controller's write does not land (B006, H3)",
        scenario(
            "h3-late-write-of-a-deposed-controller",
            "most late writes also meet another version of their znode",
        ),
    ),
    guard(
        "epoch-raised-on-its-version",
        f"{CONTROLLER}candidate:register",
        "current.stat.version)",
        "-1)",
        "Two who stand for office never get the same epoch (B004)",
        schedule("stands too late", "a winner must die before the other's try arrives"),
    ),
    guard(
        "epoch-grows",
        f"{CONTROLLER}candidate:register",
        "ControllerEpochZNode.decode(current.data) + 1",
        "ControllerEpochZNode.decode(current.data)",
        "Each election raises the controller epoch (B002)",
    ),
    guard(
        "election-lost",
        f"{CONTROLLER}candidate:_was_it_me",
        "found.broker != me or ControllerEpochZNode.decode(now.data) != epoch",
        "False",
        "Who finds another in office has lost (B005)",
    ),
    guard(
        "election-won-unheard",
        f"{CONTROLLER}candidate:_was_it_me",
        "found.broker != me or ControllerEpochZNode.decode(now.data) != epoch",
        "True",
        "Who finds itself in office has won, its answer lost (B005)",
        CHAOS,
    ),
    guard(
        "reigns-end-with-their-session",
        f"{CONTROLLER}controller:Controller._on_expired",
        'self._resign("its session has expired")',
        "pass",
        "Who has lost its session resigns before it opens another (B017)",
    ),
    guard(
        "dropped-requests-are-answered",
        f"{CONTROLLER}controller:_SessionGate.tell",
        "preempted(dropped)",
        "pass",
        "A request that an expired session drops is answered (B019, H47)",
        scenario(
            "h47-request-in-the-queue-of-a-dead-session",
            "a request must wait in the queue when the session ends",
        ),
    ),
    guard(
        "states-on-their-versions",
        f"{CONTROLLER}store:Store.write_states",
        "PartitionStateZNode.encode(state), version)",
        "PartitionStateZNode.encode(state), -1)",
        "An election lands only on the state that it was decided by (B044)",
        schedule("shrinks between look and write", "a leader must write within a millisecond"),
    ),
    guard(
        "states-are-known-again",
        f"{CONTROLLER}store:Store._was_that_me",
        "if refused:",
        "if False:",
        "A state that was written, its answer lost, is known as written (B021)",
        schedule("makes a topic and hears nothing", "one answer of a few must be lost"),
    ),
    Guard(
        "half-told-batches",
        "After an error between add and send the controller works, or gives up (B011, H9)",
        (
            Edit(
                f"{CONTROLLER}partition_states:PartitionStates.change",
                "self._outbox.clear()",
                "pass",
            ),
            Edit(
                f"{CONTROLLER}replica_states:ReplicaStates.change",
                "self._outbox.clear()",
                "pass",
            ),
            Edit(
                f"{CONTROLLER}controller:Controller._handle_event",
                "await self._give_up(str(error))  # B011",
                "pass",
            ),
        ),
        scenario(
            "h9-error-between-add-and-send",
            "either guard does for the other, and ZooKeeper must refuse one read",
        ),
    ),
    guard(
        "bounces",
        f"{CONTROLLER}brokers:BrokerDifference.between",
        "now[broker].epoch > before[broker].epoch",
        "False",
        "A broker that came back between two looks has died first (B068, H11)",
        scenario(
            "h11-bounce-that-nobody-saw", "a broker must be back before its absence is noticed"
        ),
    ),
    guard(
        "dead-members-leave",
        f"{CONTROLLER}replica_states:ReplicaStates.startup",
        "await self.change(offline, OFFLINE)",
        "pass",
        "Who died together with the controller leaves the ISRs (B035, H25)",
        scenario(
            "h25-broker-dies-with-the-controller", "in the end of a seed everybody is up again"
        ),
    ),
    guard(
        "returned-members-leave",
        f"{CONTROLLER}context:ControllerContext.note_returned",
        "returned and len(returned) < len(live)",
        "False",
        "Who came back unnoticed, perhaps with less, does not lead where another stayed (I-7)",
        schedule("comes back unnoticed", "power cuts that nobody notices are rare"),
    ),
    guard(
        "returned-hear-of-no-state-between",
        f"{CONTROLLER}replica_states:ReplicaStates._become_offline",
        "(broker, *context.returned.get(partition, ()))",
        "(broker,)",
        "Of several that came back unnoticed none leads while the others are taken out (I-7)",
        scenario("seeds/two-came-back-unnoticed", "power cuts that nobody notices are rare"),
    ),
    guard(
        "returned-leaders-begin-an-epoch",
        f"{CONTROLLER}context:ControllerContext.note_returned",
        "found.leader in returned",
        "False",
        "A leader that came back with less writes in another epoch (I-8)",
        schedule("leads again without its tail", "power cuts that nobody notices are rare"),
    ),
    guard(
        "death-is-told",
        f"{CONTROLLER}brokers:Brokers.on_replicas_offline",
        "office.send_metadata(())",
        "pass",
        "The death of a broker without replicas is told (B072, H45)",
        scenario("h45-death-of-an-empty-broker", "in the end of a seed everybody is up again"),
    ),
    guard(
        "isr-notes-are-believed",
        f"{CONTROLLER}notifications:Notifications.on_isr_changes",
        "await self._topics.refresh_leadership(known)",
        "pass",
        "The controller believes what leaders have written (B117)",
    ),
)

ELECTING: Final = (
    guard(
        "elected-from-the-isr",
        f"{CONTROLLER}election:elect_offline",
        "if replica in live_isr:",
        "if is_online(replica):",
        "Who is elected was in sync (B060)",
    ),
    guard(
        "preferred-from-the-isr",
        f"{CONTROLLER}election:elect_reassigned",
        "replica in isr and is_online(replica)",
        "is_online(replica)",
        "… also if it is preferred, or the target of a move (B064, B065)",
    ),
    guard(
        "preferred-and-alive",
        f"{CONTROLLER}election:elect_reassigned",
        "replica in isr and is_online(replica)",
        "replica in isr",
        "… and lives (B064, B065)",
    ),
    guard(
        "last-member-stays",
        f"{CONTROLLER}replica_states:ReplicaStates._state_without",
        "if len(isr) > 1:",
        "if True:",
        "The last in-sync replica stays one, alive or not (B054)",
    ),
    guard(
        "epoch-without-a-leader",
        f"{CONTROLLER}replica_states:ReplicaStates._state_without",
        "found.leader_epoch + 1",
        "found.leader_epoch",
        "Who loses its leadership loses it in a new epoch (B053)",
    ),
    guard(
        "epoch-of-an-election",
        f"{CONTROLLER}partition_states:PartitionStates._next",
        "leadership.leader_epoch + 1",
        "leadership.leader_epoch",
        "Every election begins a leader epoch (B046)",
    ),
    guard(
        "who-leaves-is-not-elected",
        f"{CONTROLLER}election:elect_for_shutdown",
        "if each not in shutting_down",
        "",
        "Leadership moves to who stays (B066)",
    ),
    guard(
        "who-leaves-is-marked",
        f"{CONTROLLER}brokers:Brokers.on_controlled_shutdown",
        "context.shutting_down.add(broker)",
        "pass",
        "Who says goodbye is not elected any more (B078)",
    ),
    guard(
        "replica-table",
        f"{CONTROLLER}replica_states:ReplicaStates._is_legal",
        "self._context.replica_phase(replica) in LEGAL_FROM[target]",
        "True",
        "A replica changes state only as its table allows (B050)",
    ),
)

TELLING: Final = (
    guard(
        "order-of-orders",
        f"{CONTROLLER}outbox:Outbox.send",
        "    self._send_leader_and_isr()\n    self._send_metadata()\n",
        "    self._send_metadata()\n    self._send_leader_and_isr()\n",
        "LeaderAndIsr goes before UpdateMetadata (B128)",
    ),
    guard(
        "orders-name-a-life",
        f"{CONTROLLER}outbox:Outbox._send_leader_and_isr",
        "broker_epoch=known.epoch",
        "broker_epoch=-1",
        "An order says for which life of a broker it is (B023, H11)",
    ),
    guard(
        "everybody-is-told",
        f"{CONTROLLER}outbox:Outbox.add_leader_and_isr",
        "self.add_metadata(())",
        "pass",
        "What is decided is told to everybody (B127)",
    ),
    guard(
        "orders-are-sent-again",
        f"{CONTROLLER}channel:Channel._on_ended",
        "        self.after(BACKOFF_MS, _Again())\n        return\n    response",
        "        self._waiting.popleft()\n"
        "        if self._waiting:\n"
        "            self._send()\n"
        "        return\n"
        "    response",
        "An order is sent until it is answered (B123)",
    ),
    guard(
        "one-order-at-a-time",
        f"{CONTROLLER}channel:Channel.on_receive",
        "if len(self._waiting) == 1:",
        "if True:",
        "One order is under way to a broker (B123)",
    ),
)

MOVING: Final = (
    guard(
        "moves-wait-for-the-isr",
        f"{CONTROLLER}reassignment:Reassignments._is_complete",
        "set(target) <= set(found.isr)",
        "True",
        "A move ends when its target is in sync (B102)",
    ),
    guard(
        "moves-are-durable-first",
        f"{CONTROLLER}reassignment:Reassignments._update",
        "await self._write(partition, assignment)\n",
        "pass\n",
        "A move is written before it is believed and told (B103, B105)",
    ),
    guard(
        "moves-end-in-zookeeper",
        f"{CONTROLLER}reassignment:Reassignments._finish",
        "await self._write(partition, done)",
        "pass",
        "… and so is its end (B105)",
    ),
    guard(
        "moves-tell-the-leader",
        f"{CONTROLLER}reassignment:Reassignments._finish",
        "await self._move_leader(partition, done)",
        "pass",
        "A leader hears of the new assignment before others are stopped (B105, H15)",
        scenario(
            "h15-removed-replica-in-the-isr",
            "a removed replica must fetch within a millisecond",
        ),
    ),
    guard(
        "overrides-keep-the-leader",
        f"{CONTROLLER}reassignment:Reassignments._overriding",
        "if each not in move.replicas:",
        "if False:",
        "A move that is overridden does not stop the leader (H35)",
        scenario(
            "h35-override-that-stops-the-leader", "needs a third broker that neither way names"
        ),
    ),
    guard(
        "the-isr-before-the-assignment",
        f"{CONTROLLER}reassignment:Reassignments._update",
        "if unneeded:",
        "if False:",
        "Who is not needed leaves the ISR before the assignment (H15)",
        schedule("gives a move up and dies", "a controller must die between two writes"),
    ),
    Guard(
        "requests-outlive-their-controller",
        "A move that was accepted is removed from the request when it is over (B103, H33)",
        (
            Edit(
                f"{CONTROLLER}reassignment:Reassignments.on_request_znode",
                "results = {each: await self._try(each, target) for each, target in moves.items()}",
                "await self._request.remove(lambda *_: True)\n"
                "    results = {each: await self._try(each, target)"
                " for each, target in moves.items()}",
            ),
        ),
        scenario(
            "h33-move-forgotten-by-a-dead-controller",
            "a controller must die between two writes of a request by znode",
        ),
    ),
    guard(
        "topics-on-their-versions",
        f"{CONTROLLER}reassignment:Reassignments._write",
        "TopicZNode.encode(changed), version)",
        "TopicZNode.encode(changed))",
        "A move keeps partitions that are added meanwhile (B087)",
        schedule("grows while it moves", "somebody must write between a read and a write"),
    ),
)

DELETING: Final = (
    guard(
        "deletions-wait-for-all",
        f"{CONTROLLER}deletion:Deletions.resume",
        "phases <= {ReplicaPhase.DELETION_SUCCESSFUL}",
        "ReplicaPhase.DELETION_SUCCESSFUL in phases",
        "A topic goes after its last replica (B095)",
        CHAOS,
    ),
    guard(
        "deletions-that-failed",
        f"{CONTROLLER}deletion:Deletions.on_stop_replica_answered",
        "is_gone = not refused and code is ErrorCode.NONE",
        "is_gone = True",
        "A replica that could not be deleted is not (B094)",
        schedule("deletes on a failed disk", "a disk must fail just before a deletion"),
    ),
    guard(
        "deletions-wait-for-the-dead",
        f"{CONTROLLER}deletion:Deletions._delete",
        "if not context.is_online(*replica):",
        "if False:",
        "A replica on a dead broker makes a deletion wait (B093)",
        scenario(
            "h27-topic-that-grows-while-it-is-deleted",
            "in the end of a seed everybody is up again",
        ),
    ),
    guard(
        "what-is-deleted-does-not-grow",
        f"{CONTROLLER}topics:Topics.on_modification",
        "if not context.is_queued_for_deletion(topic):",
        "if True:",
        "A topic that is to be deleted gets no partitions (B088, H27)",
        scenario(
            "h27-topic-that-grows-while-it-is-deleted",
            "a topic must grow while its deletion waits for somebody",
        ),
    ),
    guard(
        "requests-are-removed-last",
        f"{CONTROLLER}deletion:Deletions._complete",
        "    await store.delete_topic_tree(TopicZNode.path(topic))\n"
        "    await store.delete(DeleteTopicsTopicZNode.path(topic))",
        "    await store.delete(DeleteTopicsTopicZNode.path(topic))\n"
        "    await store.delete_topic_tree(TopicZNode.path(topic))",
        "The request for a topic's end is removed after the topic (B095)",
        schedule("deletes and dies", "a controller must die between two writes"),
    ),
)

COORDINATING: Final = (
    guard(
        "commits-are-replicated",
        f"{COORDINATOR}group_log:GroupLog.append",
        "acks=self._config.offsets_commit_required_acks",
        "acks=1",
        "A commit is acknowledged when all in sync have it (B177)",
        schedule("commits what nobody else has", "a coordinator must die just after a commit"),
    ),
    guard(
        "loads-go-to-the-logs-end",
        f"{COORDINATOR}loading:Load.take",
        "self.position >= self._end:",
        "self.position >= read.high_watermark:",
        "A new coordinator knows all commits before it tells any (B176)",
        schedule(
            "reads from a new coordinator", "somebody must ask before the high watermark rises"
        ),
    ),
    guard(
        "leases-end",
        f"{COORDINATOR}coordinator:GroupCoordinator._on_asked",
        "self._lease.check(shard.led_since_ms)",
        "pass",
        "A coordinator that has lost ZooKeeper tells no offsets from memory (I-25)",
        schedule("reads from a deposed coordinator", "two members must ask two coordinators"),
    ),
)

GUARDS: Final = (
    *OBEYING,
    *LEADING,
    *FOLLOWING,
    *REIGNING,
    *ELECTING,
    *TELLING,
    *MOVING,
    *DELETING,
    *COORDINATING,
)

REDUNDANT: Final = {  # what does the same, as far as any run could tell
    "NOT_ENOUGH_REPLICAS before an append (B163)": "the high watermark stands still for too few, "
    "and who waits is told so after the append",
    "failing who waits when leadership is lost (B164)": "they time out",
    "the epoch's entry before its first append (B137)": "followers that are ahead are out of "
    "range, and cut to the leader's end (B155)",
    "one ISR write at a time": "the second has an old version",
    "who joins while another does is remembered": "the next look takes it in (B159)",
    "the controller's word during an ISR write": "no answer was ever slower than an order here",
    "numbers of a fetch session's requests (KIP-227)": "leader epochs, and one session a follower",
    "replicas alone may fetch (B166)": "who is removed is in an older leader epoch",
    "assigned replicas alone may join (H15)": "the same",
    "an answer to an older epoch, at the log (B153)": "the fetcher drops it before",
    "an answer to an older position, at the log (B153)": "the same",
    "a position of an older epoch, at the fetcher (B153)": "the log drops its answer before",
    "the leader's other epoch (KIP-279)": "in this generation the next fetch finds it again",
    "a later controller's state (B025)": "each write checks the controller epoch (B006)",
    "resigning at the sight of another controller (B009)": "the same, and the end of the session",
    "telling who leaves that it leads no more (B045)": "it goes, and nobody follows it in its old "
    "epoch",
    "clearing a batch after an error (B011)": "the next batch refuses to begin, and the controller "
    "gives up; both together are in the list",
}
