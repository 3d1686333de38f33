/* The brokers: heads of the grid's columns, and what can be done to them.

   Rule: a head is built once per broker and then only written to, so that the focus on one of its
   buttons outlives every message. */

import { byId, isUsable, make, setAttribute, setClass, setText, setUsable } from "./dom.js";
import { FAULTS, ask, cutFrom, makesSense, onUse } from "./faults.js";
import { STATES, peerName, plural } from "./words.js";

const QUICK = ["kill", "restart", "pause"]; // in the head itself; the rest is in the menu

class Head {
  constructor(id, openMenu) {
    this.id = id;
    this.sign = make("span", { "aria-hidden": "true" });
    this.word = make("span");
    this.state = make("span", { class: "state" }, this.sign, this.word);
    this.address = make("span", { class: "address" });
    this.load = make("span", { class: "load" });
    this.cuts = make("span", { class: "cut-from" });
    const title = make("span", { class: "title" }, make("span", { class: "broker-word" }, "Broker "), String(id));
    this.element = make("th", { role: "columnheader", scope: "col", "data-broker": id },
      make("span", { class: "line" }, title, this.state), this.address, this.load, this.cuts);
    this.openMenu = openMenu;
    this.buttons = null;
  }

  draw(broker, cuts, store, isLive) {
    const state = STATES[broker.state] ?? { sign: "?", word: broker.state };
    setClass(this.state, `state ${broker.state}`);
    setClass(this.element, broker.state);
    setText(this.sign, state.sign);
    setText(this.word, state.word);
    setText(this.address, broker.address || "no address");
    setAttribute(this.address, "title", broker.rack ? `rack ${broker.rack}` : null);
    setText(this.load, `leads ${broker.leaders} of ${broker.replicas}`);
    const peers = cutFrom(cuts, this.id);
    setText(this.cuts, peers.length ? `✂ cut from ${peers.map((id) => id || "ZooKeeper").join(", ")}` : "");
    if (!store.faultsEnabled) {
      this.buttons?.element.remove();
      this.buttons = null;
      return;
    }
    this.buttons ??= this._addButtons();
    this._drawButtons(broker.state, isLive);
  }

  _addButtons() {
    const buttons = {};
    for (const fault of QUICK) {
      buttons[fault] = make("button", { type: "button", class: "button small quick" });
      onUse(buttons[fault], () => ask(buttons[fault].dataset.fault, this.id));
    }
    buttons.menu = make("button", {
      type: "button", class: "button small more", "aria-haspopup": "true",
      "aria-label": `More faults for broker ${this.id}`, "aria-expanded": "false",
    }, make("span", { class: "on-wide" }, "More"), make("span", { class: "on-phone" }, "Faults"));
    buttons.menu.addEventListener("click", () => this.openMenu(this.id, buttons.menu));
    buttons.element = make("span", { class: "buttons", role: "group", "aria-label": `Faults for broker ${this.id}` },
      ...QUICK.map((fault) => buttons[fault]), buttons.menu);
    this.element.append(buttons.element);
    return buttons;
  }

  _drawButtons(state, isLive) {
    for (const name of QUICK) {
      const fault = name === "pause" && state === "paused" ? "resume" : name;
      const button = this.buttons[name];
      setText(button, FAULTS[fault].label);
      setAttribute(button, "data-fault", fault);
      setAttribute(button, "aria-label", `${FAULTS[fault].label} broker ${this.id}`);
      setUsable(button, isLive && makesSense(fault, state));
    }
  }
}

/** All faults of one broker, in a popover that lies above everything. */
class Menu {
  constructor() {
    this.element = byId("menu");
    this.element.addEventListener("toggle", (event) => {
      if (event.newState === "open") return;
      setAttribute(this.opener, "aria-expanded", "false");
      if (this.element.contains(document.activeElement) || document.activeElement === document.body) this.opener.focus();
    });
    this.element.addEventListener("keydown", (event) => this._onKey(event));
  }

  open(id, opener, store, isLive) {
    const broker = store.brokers.find((each) => each.id === id);
    this.opener = opener;
    this.element.replaceChildren(...this._items(broker, store, isLive));
    setAttribute(this.element, "aria-label", `Faults for broker ${id}`);
    this.element.showPopover();
    setAttribute(opener, "aria-expanded", "true");
    this._place(opener.getBoundingClientRect());
    this._usable()[0]?.focus();
  }

  _items(broker, store, isLive) {
    const item = (fault, label, name, other, usable = true) => {
      const button = make("button", { type: "button", class: "item", "aria-label": name }, label);
      setUsable(button, isLive && usable && makesSense(fault, broker.state));
      onUse(button, () => {
        this.element.hidePopover();
        ask(fault, broker.id, other);
      });
      return button;
    };
    const whole = Object.keys(FAULTS).filter((fault) => fault !== "cut").map((fault) => {
      const button = item(fault, FAULTS[fault].label, `${FAULTS[fault].label} broker ${broker.id}`);
      if (QUICK.includes(fault) || fault === "resume") button.classList.add("quick");
      return button;
    });
    const already = cutFrom(store.cuts, broker.id);
    const peers = [...store.brokers.map((each) => each.id).filter((id) => id !== broker.id), 0];
    const links = peers.map((peer) => {
      const name = `Cut the link from broker ${broker.id} to ${peerName(peer)}`;
      const isCut = already.includes(peer);
      return item("cut", isCut ? `${peerName(peer)} (cut)` : peerName(peer), name, peer, !isCut);
    });
    return [
      make("p", { class: "menu-title" }, `Broker ${broker.id}`), ...whole,
      make("p", { class: "menu-title" }, "Cut the link to"), ...links,
    ];
  }

  _place(anchor) {
    const { style, offsetWidth, offsetHeight } = this.element;
    const left = Math.max(8, Math.min(anchor.left, innerWidth - offsetWidth - 8));
    const top = Math.max(8, Math.min(anchor.bottom + 4, innerHeight - offsetHeight - 8));
    style.left = `${left}px`;
    style.top = `${top}px`;
  }

  _usable() {
    return [...this.element.querySelectorAll("button")].filter((each) => isUsable(each) && each.offsetParent);
  }

  _onKey(event) {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (!step) return;
    event.preventDefault();
    const items = this._usable();
    const at = items.indexOf(document.activeElement);
    items.at((at + step) % items.length)?.focus();
  }
}

export class Heads {
  constructor() {
    this._row = byId("grid").tHead.rows[0];
    this._corner = make("th", { role: "columnheader", scope: "col", class: "corner" }, "Partition");
    this._row.append(this._corner);
    this._heads = new Map();
    this._menu = new Menu();
    this._bar = byId("faults");
    this._heal = byId("heal");
    this._ids = "";
    onUse(this._heal, () => ask("heal"));
  }

  draw(store, isLive) {
    this._store = store;
    this._isLive = isLive;
    this._arrange(store.brokers.map((broker) => broker.id));
    for (const broker of store.brokers) this._heads.get(broker.id).draw(broker, store.cuts, store, isLive);
    this._bar.hidden = !store.faultsEnabled;
    const paused = store.brokers.filter((broker) => broker.state === "paused").length;
    setUsable(this._heal, isLive && (store.cuts.length > 0 || paused > 0));
    const links = store.cuts.map(([one, other]) => `${peerName(one)} ✂ ${peerName(other)}`);
    setText(byId("cuts"), links.length ? `${plural(links.length, "link")} cut: ${links.join(", ")}` : "No link is cut");
    setClass(byId("cuts"), links.length ? "cuts some" : "cuts");
  }

  _arrange(ids) {
    if (this._ids === ids.join()) return;
    this._ids = ids.join();
    for (const [id, head] of this._heads) {
      if (ids.includes(id)) continue;
      head.element.remove();
      this._heads.delete(id);
    }
    for (const id of ids) {
      if (!this._heads.has(id)) this._heads.set(id, new Head(id, (...given) => this._open(...given)));
      this._row.append(this._heads.get(id).element);
    }
    setAttribute(byId("grid"), "data-columns", ids.length);
    byId("grid").style.setProperty("--columns", ids.length);
  }

  _open(id, opener) {
    this._menu.open(id, opener, this._store, this._isLive);
  }
}
