/* What happened: a list, newest first, and a strip of the last five minutes.

   Rule: both show the same kinds. The strip is a picture of the list, so its words are a count. */

import { byId, draw, make, setAttribute, setText } from "./dom.js";
import { keyOf } from "./store.js";
import { KINDS, clockTime, kindOf, number } from "./words.js";

const STRIP_MS = 5 * 60_000;
const STRIP_HEIGHT = 58;
const LANE_HEIGHT = 16;
const MOST_LISTED = 200;
const MOST_MARKS = 300;

function shape(kind, attributes = {}) {
  return draw("svg", { class: "shape", viewBox: "0 0 12 12", width: 12, height: 12, "aria-hidden": "true", ...attributes },
    draw("path", { class: `kind-${kind}`, d: kindOf(kind).path }));
}

/** One event as people read it; `onOpen` is called for the partition it is about. */
export function eventItem(event, onOpen = null) {
  const time = make("time", { datetime: new Date(event.time_ms).toISOString() }, clockTime(event.time_ms));
  const kind = make("span", { class: "kind" }, shape(event.kind), kindOf(event.kind).word);
  const text = make("span", { class: "text" }, event.text);
  const item = make("li", { class: `event ${event.level}` }, time, kind, text);
  if (onOpen && event.topic && event.partition >= 0) {
    const key = keyOf(event.topic, event.partition);
    const button = make("button", { type: "button", class: "link", "aria-label": `Open ${key}` }, "open");
    button.addEventListener("click", () => onOpen(key));
    item.append(button);
  }
  return item;
}

export class Timeline {
  constructor({ onOpen, onFilter }) {
    this._onOpen = onOpen;
    this._list = byId("events");
    this._items = new Map();
    this._strip = new Strip();
    this._hidden = new Set();
    this._makeFilters(onFilter);
  }

  _makeFilters(onFilter) {
    const boxes = Object.entries(KINDS).map(([kind, { word }]) => {
      const box = make("input", { type: "checkbox", checked: true, value: kind });
      box.addEventListener("change", () => {
        if (box.checked) this._hidden.delete(kind);
        else this._hidden.add(kind);
        onFilter();
      });
      return make("label", { class: "chip" }, box, shape(kind), word);
    });
    byId("kinds").append(...boxes);
    byId("kinds-all").addEventListener("click", () => {
      this._hidden.clear();
      for (const box of byId("kinds").querySelectorAll("input")) box.checked = true;
      onFilter();
    });
  }

  draw(store) {
    byId("kinds-all").hidden = this._hidden.size === 0;
    const question = `${store.life} ${store.version} ${[...this._hidden].join()}`;
    if (question !== this._question) {
      this._question = question;
      this._shown = store.events.filter((event) => !this._hidden.has(event.kind));
      this._drawList(store);
    }
    this._strip.draw(this._shown, store.now());
  }

  /** Keeps the items that are still wanted; an event that is counted again gets a new one. */
  _drawList(store) {
    if (store.life !== this._life) this._forget();
    this._life = store.life;
    const wanted = this._shown.slice(-MOST_LISTED).reverse();
    const ids = new Set(wanted.map((event) => event.id));
    for (const [id, { element }] of this._items) {
      if (ids.has(id)) continue;
      element.remove();
      this._items.delete(id);
    }
    const elements = wanted.map((event) => this._itemOf(event));
    let at = this._list.firstChild;
    for (const element of elements) {
      if (element === at) at = at.nextSibling;
      else this._list.insertBefore(element, at);
    }
    setAttribute(this._list, "data-empty", wanted.length ? null : "Nothing has happened yet.");
  }

  _itemOf(event) {
    const known = this._items.get(event.id);
    if (known?.event === event) return known.element;
    const element = eventItem(event, this._onOpen);
    known?.element.replaceWith(element);
    this._items.set(event.id, { event, element });
    return element;
  }

  _forget() {
    this._items.clear();
    this._list.replaceChildren();
  }
}

/** Marks by time: now is at the right. */
class Strip {
  constructor() {
    this._element = byId("strip");
    this._marks = new Map();
    this._width = 0;
    this._ticks = draw("g", { class: "ticks", "aria-hidden": "true" });
    this._layer = draw("g");
    this._element.append(this._ticks, this._layer);
    new ResizeObserver(([{ contentRect }]) => {
      this._width = contentRect.width;
      this._drawTicks();
      this._moveAll();
    }).observe(this._element);
  }

  draw(events, now) {
    this._now = now;
    const recent = events.filter((event) => event.time_ms > now - STRIP_MS).slice(-MOST_MARKS);
    const wanted = new Set(recent);
    for (const [event, mark] of this._marks) {
      if (wanted.has(event)) continue;
      mark.remove();
      this._marks.delete(event);
    }
    for (const event of recent) {
      if (!this._marks.has(event)) this._add(event);
    }
    this._moveAll();
    setAttribute(this._element, "aria-label", summary(recent));
  }

  _add(event) {
    const { path, word } = kindOf(event.kind);
    const title = draw("title", {}, `${clockTime(event.time_ms)} ${word}: ${event.text}`);
    const mark = draw("path", { class: `mark kind-${event.kind} ${event.level}`, d: path }, title);
    this._marks.set(event, mark);
    this._layer.append(mark);
  }

  _moveAll() {
    for (const [event, mark] of this._marks) {
      const x = this._placeOf(event.time_ms) - 6;
      const y = 4 + kindOf(event.kind).lane * LANE_HEIGHT;
      setAttribute(mark, "transform", `translate(${x.toFixed(1)} ${y})`);
    }
  }

  _placeOf(timeMs) {
    return 8 + (this._width - 16) * (1 - (this._now - timeMs) / STRIP_MS);
  }

  _drawTicks() {
    this._now ??= 0;
    const parts = [];
    for (let minute = 0; minute <= 5; minute += 1) {
      const x = this._placeOf(this._now - minute * 60_000);
      const anchor = { 0: "end", 5: "start" }[minute] ?? "middle";
      parts.push(draw("line", { x1: x, x2: x, y1: 2, y2: STRIP_HEIGHT - 6 }));
      parts.push(draw("text", { x: x + { end: 6, start: -6, middle: 0 }[anchor], y: STRIP_HEIGHT + 8, "text-anchor": anchor },
        minute ? `−${minute} min` : "now"));
    }
    this._ticks.replaceChildren(...parts);
  }
}

function summary(events) {
  if (!events.length) return "No events in the last 5 minutes";
  const counts = new Map();
  for (const event of events) counts.set(event.kind, (counts.get(event.kind) ?? 0) + event.count);
  const words = [...counts].map(([kind, count]) => `${kindOf(kind).word} ${number(count)}`);
  return `Events of the last 5 minutes by kind: ${words.join(", ")}`;
}
