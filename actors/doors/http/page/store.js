/* What the page knows of the cluster.

   Rule: only messages of the feed change it, and drawing only reads it. */

const EVENTS_KEPT = 500;

export function keyOf(topic, partition) {
  return `${topic}-${partition}`;
}

function byTopicThenNumber(left, right) {
  if (left.topic !== right.topic) {
    const internal = isInternal(left) - isInternal(right);
    return internal || left.topic.localeCompare(right.topic, "en", { numeric: true });
  }
  return left.partition - right.partition;
}

/** Topics that the cluster keeps for itself. */
export function isInternal(partition) {
  return partition.topic.startsWith("__");
}

/** As the cluster counts: a replica that is being added need not be in sync. */
export function isUnderReplicated(partition) {
  return partition.replicas.some(
    (broker) => !partition.isr.includes(broker) && !partition.adding.includes(broker),
  );
}

export function isUnhealthy(partition) {
  return partition.leader < 0 || partition.offline.length > 0 || isUnderReplicated(partition);
}

/** What a broker is to a partition: a key of CELLS. */
export function roleOf(partition, broker) {
  if (!partition.replicas.includes(broker)) return "empty";
  if (partition.leader === broker) return "leader";
  if (partition.offline.includes(broker)) return "offline";
  if (partition.adding.includes(broker)) return "adding";
  if (partition.removing.includes(broker)) return "removing";
  return partition.isr.includes(broker) ? "in-sync" : "lagging";
}

export class Store {
  constructor() {
    this.run = null;
    this.clear();
  }

  clear() {
    this.faultsEnabled = false;
    this.controller = null;
    this.cuts = [];
    this.counters = {};
    this.events = [];
    this.partitions = new Map();
    this.news = []; // sentences that somebody who does not see the page should hear
    this.clockAhead = 0; // the server's clock less ours
    this.version = 0; // grows with every message
    this.membership = 0; // grows when partitions come or go
    this.life = (this.life ?? 0) + 1; // grows when everything is replaced
    this._sorted = [];
    this._listed = [];
    this._mentioned = new Set();
    this._columns = null;
  }

  /** Takes a message of the feed. */
  take(message) {
    if (message.now_ms) this.clockAhead = message.now_ms - Date.now();
    if (message.type === "state") this._replace(message);
    else if (message.type === "change") this._change(message);
    else if (message.type === "event") this._event(message.event);
    else return;
    this.version += 1;
  }

  now() {
    return Date.now() + this.clockAhead;
  }

  /** All partitions by topic and number, internal topics last. */
  get sorted() {
    if (this._sorted === null) this._sorted = [...this.partitions.values()].sort(byTopicThenNumber);
    else if (this._stale) this._sorted = this._sorted.map((each) => this._current(each));
    this._stale = false;
    return this._sorted;
  }

  /** The columns: brokers that are listed, and those that only partitions speak of. */
  get brokers() {
    if (this._columns === null) {
      const known = new Map(this._listed.map((broker) => [broker.id, broker]));
      for (const id of this._mentioned) {
        if (!known.has(id)) known.set(id, { id, state: "down", address: "", leaders: 0, replicas: 0 });
      }
      this._columns = [...known.values()].sort((left, right) => left.id - right.id);
    }
    return this._columns;
  }

  _current(partition) {
    return this.partitions.get(keyOf(partition.topic, partition.partition));
  }

  _replace(state) {
    const ahead = this.clockAhead;
    const known = this.run !== null;
    this.clear();
    this.clockAhead = ahead;
    if (known && this.run !== state.run) this.news.push("The cluster was started anew.");
    this.run = state.run;
    this.faultsEnabled = state.faults_enabled;
    this.events = state.events.slice(-EVENTS_KEPT);
    this._take(state);
  }

  _change(change) {
    const moved = [];
    for (const each of change.partitions ?? []) {
      const former = this.partitions.get(keyOf(each.topic, each.partition));
      if (former && former.leader !== each.leader) moved.push(each);
    }
    if (change.brokers) this._tellStates(change.brokers);
    if (change.controller && change.controller.broker !== this.controller?.broker) {
      this.news.push(`Broker ${change.controller.broker} is the controller.`);
    }
    this._take(change);
    this._tellMoves(moved);
  }

  _take(message) {
    if (message.controller !== undefined) this.controller = message.controller;
    if (message.cuts) this.cuts = message.cuts;
    if (message.counters) this.counters = message.counters;
    if (message.brokers) {
      this._listed = message.brokers;
      this._columns = null;
    }
    for (const each of message.partitions ?? []) this._put(each);
    for (const [topic, partition] of message.gone ?? []) {
      if (this.partitions.delete(keyOf(topic, partition))) this._membershipChanged();
    }
  }

  _put(partition) {
    const key = keyOf(partition.topic, partition.partition);
    if (!this.partitions.has(key)) this._membershipChanged();
    this.partitions.set(key, partition);
    this._stale = true;
    for (const id of partition.replicas) {
      if (this._mentioned.has(id)) continue;
      this._mentioned.add(id);
      this._columns = null;
    }
  }

  _membershipChanged() {
    this.membership += 1;
    this._sorted = null;
  }

  _event(event) {
    const at = this.events.findLastIndex((each) => each.id === event.id);
    if (at >= 0) this.events[at] = event; // the same one, counted again
    else this.events.push(event);
    if (this.events.length > EVENTS_KEPT) this.events.splice(0, this.events.length - EVENTS_KEPT);
  }

  _tellStates(brokers) {
    const former = new Map(this._listed.map((broker) => [broker.id, broker.state]));
    for (const { id, state } of brokers) {
      const was = former.get(id);
      if (was && was !== state && state !== "controller") this.news.push(`Broker ${id} is ${state}.`);
    }
  }

  _tellMoves(moved) {
    if (moved.length > 3) this.news.push(`${moved.length} leaders changed.`);
    else for (const each of moved) this.news.push(`${keyOf(each.topic, each.partition)}: ${leaderWords(each)}.`);
  }
}

export function leaderWords(partition) {
  return partition.leader < 0 ? "nobody leads" : `broker ${partition.leader} leads`;
}
