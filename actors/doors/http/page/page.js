/* The live page.

   Rule: messages change the store at once; drawing happens once a frame, whatever came in between. */

import { byId, make, setAttribute, setText } from "./dom.js";
import { Details } from "./details.js";
import { Feed } from "./feed.js";
import { Grid } from "./grid.js";
import { Heads } from "./heads.js";
import { Store } from "./store.js";
import { Timeline } from "./timeline.js";
import { CELLS, bytes, clockTime, number, rate } from "./words.js";

const TELL_EVERY_MS = 1000;
const MOST_NEWS = 4; // sentences read out at a time

const store = new Store();
const heads = new Heads();
const grid = new Grid({ onOpen: openDetails, onScroll: soon });
const timeline = new Timeline({ onOpen: openDetails, onFilter: soon });
const details = new Details({
  onClose(key, hadFocus) {
    if (hadFocus && !grid.focus(key)) byId("grid-title").focus();
  },
});
let isLive = false;
let planned = false;

function soon() {
  if (planned || store.run === null) return;
  planned = true;
  requestAnimationFrame(() => {
    planned = false;
    const start = performance.now();
    drawAll();
    performance.measure("draw", { start }); // for whoever profiles the page, our tests included
    performance.clearMeasures("draw");
  });
}

function drawAll() {
  drawHeader();
  heads.draw(store, isLive);
  grid.draw(store);
  timeline.draw(store);
}

function drawHeader() {
  const { controller } = store;
  setText(byId("controller"), controller ? `Controller: broker ${controller.broker}, epoch ${controller.epoch}` : "Controller: none");
  const { partitions = 0, offline = 0, under_replicated = 0 } = store.counters;
  const { messages_per_second = 0, bytes_per_second = 0 } = store.counters;
  counter("Partitions", number(partitions));
  counter("Offline", number(offline), offline ? "bad" : "");
  counter("Under-replicated", number(under_replicated), under_replicated ? "warning" : "");
  counter("Messages/s", rate(messages_per_second), "", `${bytes(bytes_per_second)}/s`);
}

const counters = new Map();

function counter(name, value, level = "", note = "") {
  let parts = counters.get(name);
  if (!parts) {
    parts = { value: make("span", { class: "value" }), note: make("span", { class: "note" }) };
    parts.element = make("div", {}, make("dt", {}, name), make("dd", {}, parts.value, parts.note));
    counters.set(name, parts);
    byId("counters").append(parts.element);
  }
  setText(parts.value, value);
  setText(parts.note, note);
  setAttribute(parts.element, "class", level || null);
}

function openDetails(key) {
  const partition = store.partitions.get(key);
  if (partition) details.open(partition.topic, partition.partition);
}

function connection(state, words) {
  setAttribute(byId("connection"), "data-state", state);
  setText(byId("connection"), words);
  document.body.classList.toggle("away", !isLive);
}

function onLive() {
  isLive = true;
  connection("live", "live");
  byId("away").hidden = true;
  soon();
}

function onAway() {
  if (isLive) {
    setText(byId("away"), `The server went away at ${clockTime(Date.now())}. What you see is what it said last; trying again…`);
    byId("away").hidden = false;
  }
  isLive = false;
  connection("away", "reconnecting…");
  soon();
}

/** Reads out what changed, a few sentences at a time. */
function tellNews() {
  const news = store.news.splice(0);
  if (!news.length) return;
  const rest = news.length - MOST_NEWS;
  const told = rest > 0 ? [...news.slice(0, MOST_NEWS), `And ${rest} more changes.`] : news;
  byId("news").textContent = told.join(" ");
}

function listenToFilters() {
  const read = () => {
    grid.filters = {
      topic: byId("filter-topic").value.trim().toLowerCase(),
      unhealthy: byId("filter-unhealthy").checked,
      internal: byId("filter-internal").checked,
    };
    soon();
  };
  byId("filters").addEventListener("input", read);
  byId("filters").addEventListener("submit", (event) => event.preventDefault());
  read(); // a reload may have kept what was typed
}

function drawLegend() {
  const shown = Object.entries(CELLS).filter(([role]) => role !== "empty");
  byId("legend").append(...shown.map(([role, { sign, word }]) =>
    make("li", { class: `cell ${role}` }, make("span", { class: "pill", "aria-hidden": "true" }, sign), word)));
}

drawLegend();
listenToFilters();
setInterval(tellNews, TELL_EVERY_MS);
setInterval(soon, TELL_EVERY_MS); // the strip moves with time
new Feed({
  onMessage(message) {
    store.take(message);
    soon();
  },
  onLive,
  onAway,
}).open();
