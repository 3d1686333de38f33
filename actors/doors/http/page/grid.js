/* Partitions by brokers.

   Rule: only the rows that can be seen are in the document, and the one that the keyboard is on.
   A row is drawn by comparing: what did not change is not touched. */

import { byId, make, setAttribute, setClass, setText } from "./dom.js";
import { isInternal, isUnderReplicated, isUnhealthy, keyOf, roleOf } from "./store.js";
import { CELLS, plural } from "./words.js";

const ROW_HEIGHT = 36; // as page.css has it
const SPARE_ROWS = 6; // drawn beyond both edges, for a scroll that is faster than a frame
const NARROW_COLUMN = 108; // px: below it a cell shows its sign only
const ROOMY_COLUMN = 248; // px: from it on all buttons of a head fit in one line
const MOST_FLASHES = 60; // in one frame; more would be noise, and slow

/** Which partitions are shown. */
function passes(partition, filters) {
  if (!filters.internal && isInternal(partition)) return false;
  if (filters.unhealthy && !isUnhealthy(partition)) return false;
  return !filters.topic || partition.topic.toLowerCase().includes(filters.topic);
}

function healthOf(partition) {
  if (partition.leader < 0) return { name: "leaderless", word: "no leader" };
  if (isUnderReplicated(partition)) return { name: "under", word: "under-replicated" };
  return { name: "", word: "" };
}

/** One row of the table, bound to a partition until it is needed for another. */
class Row {
  constructor() {
    this.topic = make("span", { class: "topic" });
    this.number = make("span", { class: "partition-number" }); // a long name must not hide it
    this.name = make("span", { class: "name" }, this.topic, this.number);
    this.health = make("span", { class: "health" });
    this.epoch = make("span", { class: "epoch" });
    this.head = make("th", { role: "rowheader", scope: "row" },
      make("span", { class: "row-head" }, this.name, this.health, this.epoch));
    this.element = make("tr", { role: "row" }, this.head);
    this.element.row = this;
    this.cells = [];
    this.key = null;
  }

  cellAt(column) {
    return column === 0 ? this.head : this.cells[column - 1];
  }

  /** Draws a partition; answers with the cells that changed under the reader's eyes. */
  draw(partition, index, brokers) {
    const key = keyOf(partition.topic, partition.partition);
    const isSame = this.key === key;
    this.key = key;
    setAttribute(this.element, "aria-rowindex", index + 2);
    setText(this.topic, partition.topic);
    setText(this.number, `-${partition.partition}`);
    setAttribute(this.name, "title", key);
    setText(this.epoch, `epoch ${partition.leader_epoch}`);
    const health = healthOf(partition);
    setClass(this.element, health.name);
    setText(this.health, health.word);
    const said = [key, health.word, `epoch ${partition.leader_epoch}`].filter(Boolean).join(", ");
    setAttribute(this.head, "aria-label", said);
    this._fit(brokers.length);
    const changed = [];
    for (let at = 0; at < brokers.length; at += 1) {
      if (this._drawCell(this.cells[at], partition, brokers[at]) && isSame) changed.push(this.cells[at]);
    }
    return changed;
  }

  _fit(count) {
    while (this.cells.length > count) this.cells.pop().remove();
    while (this.cells.length < count) {
      const sign = make("span", { class: "sign", "aria-hidden": "true" });
      const word = make("span", { class: "word" });
      const cell = make("td", { role: "gridcell", tabindex: "-1" });
      cell.append(make("span", { class: "pill" }, sign, word));
      Object.assign(cell, { sign, word, drawn: "" });
      this.cells.push(cell);
      this.element.append(cell);
    }
  }

  _drawCell(cell, partition, broker) {
    const role = roleOf(partition, broker.id);
    const isMoving = role === "leader" || role === "offline";
    const moving = isMoving ? movingWord(partition, broker.id) : "";
    const absent = broker.state === "down" || broker.state === "silent" ? " absent" : "";
    const drawn = `${role}${moving}${absent}`;
    if (cell.drawn === drawn) return false;
    const isNews = cell.drawn !== "" && !cell.drawn.startsWith(`${role}${moving}`);
    cell.drawn = drawn;
    cell.className = `cell ${role}${absent}`;
    cell.sign.textContent = CELLS[role].sign;
    cell.word.textContent = CELLS[role].word + moving;
    return isNews;
  }
}

function movingWord(partition, broker) {
  if (partition.adding.includes(broker)) return ", adding";
  return partition.removing.includes(broker) ? ", removing" : "";
}

export class Grid {
  constructor({ onOpen, onScroll }) {
    this.filters = { topic: "", unhealthy: false, internal: false };
    this._onOpen = onOpen;
    this._table = byId("grid");
    this._body = this._table.tBodies[0];
    this._scroller = byId("scroller");
    this._rows = new Map();
    this._spare = [];
    this._shown = [];
    this._active = { key: null, index: 0, column: 0 };
    this._spacers = [0, 1, 2].map(() => make("tr", { class: "spacer", "aria-hidden": "true" }, make("td")));
    this._height = this._headHeight = this._top = 0;
    this._calm = matchMedia("(prefers-reduced-motion: reduce)");
    this._watch(onScroll);
  }

  _watch(onScroll) {
    const sizes = new ResizeObserver(() => {
      this._height = this._scroller.clientHeight;
      this._headHeight = this._table.tHead.offsetHeight;
      this._measureColumns();
      onScroll();
    });
    sizes.observe(this._scroller);
    sizes.observe(this._table.tHead);
    this._scroller.addEventListener("scroll", () => {
      this._top = this._scroller.scrollTop;
      onScroll();
    }, { passive: true });
    this._body.addEventListener("click", (event) => this._onClick(event));
    this._body.addEventListener("keydown", (event) => this._onKey(event));
    this._body.addEventListener("focusin", (event) => this._onFocus(event));
  }

  _measureColumns() {
    const column = this._table.tHead.rows[0].cells[1];
    if (!column) return;
    this._table.classList.toggle("signs", column.offsetWidth < NARROW_COLUMN);
    this._table.classList.toggle("roomy", column.offsetWidth >= ROOMY_COLUMN);
  }

  draw(store) {
    this._store = store;
    this._choose(store);
    this._keepActive();
    const { first, last } = this._window();
    const wanted = this._wanted(first, last);
    const isFocused = this._body.contains(document.activeElement);
    this._release(wanted);
    const flashing = [];
    for (const index of wanted) flashing.push(...this._drawRow(index, store.brokers));
    this._arrange(wanted);
    this._markActive(isFocused);
    if (flashing.length <= MOST_FLASHES && !this._calm.matches) flashing.forEach(flash);
    setAttribute(this._table, "aria-rowcount", this._shown.length + 1);
    setAttribute(this._table, "aria-colcount", store.brokers.length + 1);
    this._tellCount(store);
  }

  _choose(store) {
    const { topic, unhealthy, internal } = this.filters;
    const question = `${store.life} ${store.version} ${topic} ${unhealthy} ${internal}`;
    if (question === this._question) return;
    this._question = question;
    this._shown = store.sorted.filter((each) => passes(each, this.filters));
  }

  _keyAt(index) {
    const partition = this._shown[index];
    return partition ? keyOf(partition.topic, partition.partition) : null;
  }

  /** The active row stays with its partition, and when that has gone, with its place. */
  _keepActive() {
    const active = this._active;
    if (this._keyAt(active.index) === active.key && active.key !== null) return;
    const moved = this._shown.findIndex((each) => keyOf(each.topic, each.partition) === active.key);
    active.index = moved >= 0 ? moved : Math.max(0, Math.min(active.index, this._shown.length - 1));
    active.key = this._keyAt(active.index);
  }

  _window() {
    const visible = Math.ceil((this._height - this._headHeight) / ROW_HEIGHT) + 1;
    const end = Math.max(0, this._shown.length - visible);
    const top = Math.min(Math.floor(this._top / ROW_HEIGHT), end);
    return {
      first: Math.max(0, top - SPARE_ROWS),
      last: Math.min(this._shown.length, top + visible + SPARE_ROWS) - 1,
    };
  }

  _wanted(first, last) {
    const wanted = [];
    for (let index = first; index <= last; index += 1) wanted.push(index);
    const { index, key } = this._active;
    if (key === null) return wanted;
    if (index < first) wanted.unshift(index);
    else if (index > last) wanted.push(index);
    return wanted;
  }

  _release(wanted) {
    const keys = new Set(wanted.map((index) => this._keyAt(index)));
    for (const [key, row] of this._rows) {
      if (keys.has(key)) continue;
      row.element.remove();
      this._rows.delete(key);
      this._spare.push(row);
    }
  }

  _drawRow(index, brokers) {
    const key = this._keyAt(index);
    let row = this._rows.get(key);
    if (!row) {
      row = this._spare.pop() ?? new Row();
      this._rows.set(key, row);
    }
    return row.draw(this._shown[index], index, brokers);
  }

  /** Puts rows and the gaps between them in order, and moves no row that is in its place. */
  _arrange(wanted) {
    const arrangement = `${wanted[0]} ${wanted.at(-1)} ${this._active.index} ${this._question}`;
    if (arrangement === this._arrangement) return;
    this._arrangement = arrangement;
    const children = [];
    const spacers = [...this._spacers];
    let next = 0;
    const leave = (until) => {
      if (until <= next) return;
      const spacer = spacers.shift();
      spacer.firstChild.style.height = `${(until - next) * ROW_HEIGHT}px`;
      children.push(spacer);
    };
    for (const index of wanted) {
      leave(index);
      children.push(this._rows.get(this._keyAt(index)).element);
      next = index + 1;
    }
    leave(this._shown.length);
    for (const spacer of this._spacers) spacer.remove();
    let at = this._body.firstChild;
    for (const child of children) {
      if (child === at) at = at.nextSibling;
      else this._body.insertBefore(child, at);
    }
  }

  _markActive(isFocused) {
    const cell = this._activeCell();
    if (cell !== this._marked) {
      this._marked?.setAttribute("tabindex", "-1");
      cell?.setAttribute("tabindex", "0");
      this._marked = cell;
    }
    if (isFocused && !this._body.contains(document.activeElement)) cell?.focus({ preventScroll: true });
  }

  _activeCell() {
    const row = this._rows.get(this._active.key);
    this._active.column = Math.min(this._active.column, row?.cells.length ?? 0);
    return row?.cellAt(this._active.column);
  }

  _tellCount(store) {
    const all = store.partitions.size;
    const shown = this._shown.length;
    setText(byId("shown"), shown === all ? `${all}` : `${shown} of ${all}`);
    const nothing = byId("nothing");
    nothing.hidden = shown > 0 || store.run === null;
    if (nothing.hidden) return;
    const hidden = all - shown;
    setText(nothing, hidden ? `No partition to show: ${plural(hidden, "is", "are")} filtered out.`
      : "No partitions yet. They appear here as soon as a topic is created.");
  }

  _onClick(event) {
    const row = event.target.closest("tr")?.row;
    if (!row) return;
    const column = Math.max(0, [...row.element.cells].indexOf(event.target.closest("td, th")));
    this.focus(row.key, column);
    this._onOpen(row.key);
  }

  _onFocus(event) {
    const cell = event.target.closest("td, th");
    const row = cell?.parentElement.row;
    if (!row) return;
    const index = this._shown.findIndex((each) => keyOf(each.topic, each.partition) === row.key);
    this._active = { key: row.key, index, column: [...row.element.cells].indexOf(cell) };
    this._markActive(false);
  }

  _onKey(event) {
    if (event.altKey || event.metaKey) return;
    const { index, column, key } = this._active;
    const page = Math.max(1, Math.floor((this._height - this._headHeight) / ROW_HEIGHT) - 1);
    const end = this._shown.length - 1;
    const lastColumn = this._store.brokers.length;
    const moves = {
      ArrowUp: [index - 1, column],
      ArrowDown: [index + 1, column],
      ArrowLeft: [index, column - 1],
      ArrowRight: [index, column + 1],
      PageUp: [index - page, column],
      PageDown: [index + page, column],
      Home: [event.ctrlKey ? 0 : index, 0],
      End: [event.ctrlKey ? end : index, lastColumn],
    };
    if (event.key === "Enter" || event.key === " ") this._onOpen(key);
    else if (moves[event.key]) this._move(...moves[event.key], end, lastColumn);
    else return;
    event.preventDefault();
  }

  _move(index, column, end, lastColumn) {
    const to = Math.max(0, Math.min(index, end));
    this.focus(this._keyAt(to), Math.max(0, Math.min(column, lastColumn)));
  }

  /** Brings a partition's cell into sight and the focus to it; false if it is not shown. */
  focus(key, column = this._active.column) {
    const index = this._shown.findIndex((each) => keyOf(each.topic, each.partition) === key);
    if (index < 0) return false;
    this._active = { key, index, column };
    this._reveal(index);
    this.draw(this._store);
    const cell = this._activeCell();
    cell.focus({ preventScroll: true });
    this._revealColumn(cell, column);
    return true;
  }

  _reveal(index) {
    const room = this._height - this._headHeight;
    const top = index * ROW_HEIGHT;
    let to = this._scroller.scrollTop;
    if (top < to) to = top;
    else if (top + ROW_HEIGHT > to + room) to = top + ROW_HEIGHT - room;
    if (to !== this._scroller.scrollTop) this._scroller.scrollTop = to;
    this._top = this._scroller.scrollTop;
  }

  _revealColumn(cell, column) {
    const names = cell.parentElement.row.head.offsetWidth;
    const { offsetLeft, offsetWidth } = cell;
    if (column === 0) this._scroller.scrollLeft = 0;
    else if (offsetLeft - names < this._scroller.scrollLeft) this._scroller.scrollLeft = offsetLeft - names;
    else if (offsetLeft + offsetWidth > this._scroller.scrollLeft + this._scroller.clientWidth) {
      this._scroller.scrollLeft = offsetLeft + offsetWidth - this._scroller.clientWidth;
    }
  }
}

function flash(cell) {
  cell.firstChild.animate(
    [{ boxShadow: "0 0 0 3px var(--flash)" }, { boxShadow: "0 0 0 8px transparent" }],
    { duration: 900, easing: "ease-out" },
  );
}
