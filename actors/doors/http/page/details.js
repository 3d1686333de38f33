/* One partition, looked at closely.

   Rule: while it is open it asks every half second, one question at a time; closed, it asks
   nothing. It covers nothing that is needed to inject a fault and watch. */

import { byId, make, setText } from "./dom.js";
import { isUnderReplicated, keyOf, roleOf } from "./store.js";
import { eventItem } from "./timeline.js";
import { CELLS, number } from "./words.js";

const ASK_EVERY_MS = 500;

export class Details {
  constructor({ onClose }) {
    this._onClose = onClose;
    this._element = byId("details");
    this._title = byId("details-title");
    this._body = byId("details-body");
    this._asking = null;
    byId("details-close").addEventListener("click", () => this.close());
    document.addEventListener("keydown", (event) => {
      const isForMenu = byId("menu").matches(":popover-open");
      if (event.key === "Escape" && this._asking && !isForMenu) this.close();
    });
  }

  open(topic, partition) {
    this._asking?.abort();
    this._asking = new AbortController();
    this._key = keyOf(topic, partition);
    this._drawn = null;
    setText(this._title, this._key);
    this._body.replaceChildren(make("p", { class: "quiet" }, "Asking…"));
    this._element.hidden = false;
    this._title.focus();
    this._keepAsking(`/api/partitions/${encodeURIComponent(topic)}/${partition}`, this._asking.signal);
  }

  close() {
    this._asking?.abort();
    this._asking = null;
    const hadFocus = this._element.contains(document.activeElement) || document.activeElement === document.body;
    this._element.hidden = true;
    this._onClose(this._key, hadFocus);
  }

  async _keepAsking(address, signal) {
    while (!signal.aborted) {
      await this._ask(address, signal);
      await new Promise((resolve) => setTimeout(resolve, ASK_EVERY_MS));
    }
  }

  async _ask(address, signal) {
    try {
      const response = await fetch(address, { signal });
      const answer = await response.json();
      if (signal.aborted) return;
      if (response.ok) this._draw(answer);
      else this._say(answer.message ?? `The server answered ${response.status}.`);
    } catch (error) {
      if (!signal.aborted) this._say(`The server did not answer: ${error.message}.`);
    }
  }

  _say(sentence) {
    this._drawn = null;
    this._body.replaceChildren(make("p", { class: "refused" }, sentence));
  }

  _draw(answer) {
    const drawn = JSON.stringify(answer);
    if (drawn === this._drawn) return; // whoever reads or selects is not disturbed
    this._drawn = drawn;
    const top = this._body.scrollTop;
    const { partition, offsets, history } = answer;
    this._body.replaceChildren(
      make("p", { class: "verdict" }, verdict(partition)),
      facts(partition, offsets),
      make("h3", {}, "Replicas"),
      replicas(partition, offsets),
      make("h3", {}, "History"),
      story(history),
    );
    this._body.scrollTop = top;
  }
}

function verdict(partition) {
  if (partition.leader < 0) return "Nobody leads it: it can be neither written nor read.";
  const leader = `Broker ${partition.leader} leads`;
  if (partition.adding.length || partition.removing.length) return `${leader}; replicas are on the move.`;
  if (isUnderReplicated(partition)) return `${leader}; not every replica is in sync.`;
  return `${leader}; every replica is in sync.`;
}

function facts(partition, offsets) {
  const preferred = partition.replicas[0];
  const rows = [
    ["Leader", partition.leader < 0 ? "none" : `broker ${partition.leader}`],
    ["Preferred leader", preferred === undefined ? "none" : `broker ${preferred}`],
    ["Leader epoch", partition.leader_epoch],
    ["Partition epoch", partition.partition_epoch],
    ["Replicas", list(partition.replicas)],
    ["In sync (ISR)", list(partition.isr)],
    ["High watermark", offset(offsets.high_watermark)],
    ["Log start", offset(offsets.log_start_offset)],
  ];
  if (partition.offline.length) rows.push(["Offline", list(partition.offline)]);
  if (partition.adding.length) rows.push(["Being added", list(partition.adding)]);
  if (partition.removing.length) rows.push(["Being removed", list(partition.removing)]);
  return make("dl", { class: "facts" },
    ...rows.map(([name, value]) => make("div", {}, make("dt", {}, name), make("dd", {}, String(value)))));
}

function list(brokers) {
  return brokers.length ? brokers.join(", ") : "none";
}

function offset(value) {
  return value < 0 ? "unknown" : number(value);
}

/** Where each replica's log ends, as numbers and as bars that end there. */
function replicas(partition, offsets) {
  const start = Math.max(0, offsets.log_start_offset);
  const ends = Object.values(offsets.ends);
  const furthest = Math.max(start, offsets.high_watermark, ...ends);
  const leaderEnd = offsets.ends[partition.leader] ?? furthest;
  const head = make("tr", {}, ...["Broker", "Is", "Log end", "Behind"].map((word) => make("th", { scope: "col" }, word)));
  const rows = partition.replicas.flatMap((broker) => {
    const role = roleOf(partition, broker);
    const end = offsets.ends[broker];
    const pill = make("span", { class: "pill" }, make("span", { class: "sign", "aria-hidden": "true" }, CELLS[role].sign),
      make("span", { class: "word" }, CELLS[role].word));
    const behind = end === undefined ? "unknown" : number(Math.max(0, leaderEnd - end));
    return [
      make("tr", {}, make("th", { scope: "row" }, String(broker)), make("td", { class: `cell ${role}` }, pill),
        make("td", { class: "number" }, end === undefined ? "unknown" : number(end)), make("td", { class: "number" }, behind)),
      make("tr", { class: "bar-row", "aria-hidden": "true" }, bar(role, end, start, furthest, offsets.high_watermark)),
    ];
  });
  return make("table", { class: "replicas" }, make("thead", {}, head), make("tbody", {}, ...rows));
}

function bar(role, end, start, furthest, highWatermark) {
  const share = (value) => (furthest > start ? `${((Math.max(value, start) - start) / (furthest - start)) * 100}%` : "0%");
  const fill = make("span", { class: `fill ${role}` });
  fill.style.width = end === undefined ? "0%" : share(end);
  const mark = make("span", { class: "watermark", title: "high watermark" });
  mark.style.left = share(highWatermark);
  return make("td", { colspan: 4 }, make("span", { class: "bar" }, fill, mark));
}

function story(history) {
  if (!history.length) return make("p", { class: "quiet" }, "Nothing has happened to it yet.");
  return make("ol", { class: "events" }, ...history.toReversed().map((event) => eventItem(event)));
}
