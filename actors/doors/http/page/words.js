/* The words, signs and shapes that the page uses.

   Rule: whatever has a colour has a word or a sign too, and it is written here once. */

/** What a broker can be to a partition; the sign is enough where a column is narrow. */
export const CELLS = {
  leader: { sign: "L", word: "leader" },
  "in-sync": { sign: "✓", word: "in sync" },
  lagging: { sign: "!", word: "lagging" },
  offline: { sign: "✕", word: "offline" },
  adding: { sign: "+", word: "adding" },
  removing: { sign: "−", word: "removing" },
  empty: { sign: "", word: "no replica" },
};

/** What a broker can be to a person. */
export const STATES = {
  starting: { sign: "…", word: "starting" },
  up: { sign: "✓", word: "up" },
  controller: { sign: "★", word: "controller" },
  leaving: { sign: "↘", word: "leaving" },
  paused: { sign: "‖", word: "paused" },
  silent: { sign: "?", word: "silent" },
  down: { sign: "✕", word: "down" },
};

/** Kinds of events: how each is called, drawn (in a box of 12 by 12), and in which lane it lies. */
export const KINDS = {
  fault: { word: "fault", lane: 0, path: "M6 0 L12 12 L0 12 Z" },
  disk: { word: "disk", lane: 0, path: "M1 3 H11 V9 H1 Z" },
  broker: { word: "broker", lane: 1, path: "M1 1 H11 V11 H1 Z" },
  session: { word: "session", lane: 1, path: "M0 0 H12 L0 12 H12 Z" },
  controller: {
    word: "controller",
    lane: 1,
    path: "M6 0 L7.8 4.2 L12 4.6 L8.8 7.4 L9.8 12 L6 9.5 L2.2 12 L3.2 7.4 L0 4.6 L4.2 4.2 Z",
  },
  election: { word: "election", lane: 2, path: "M6 0 L12 6 L6 12 L0 6 Z" },
  isr: { word: "ISR", lane: 2, path: "M6 1 A5 5 0 1 1 5.99 1 Z" },
  move: { word: "move", lane: 2, path: "M0 4 H6 V0 L12 6 L6 12 V8 H0 Z" },
  topic: { word: "topic", lane: 2, path: "M4 0 H8 V4 H12 V8 H8 V12 H4 V8 H0 V4 H4 Z" },
};

const OTHER = { word: "other", lane: 2, path: "M3 3 H9 V9 H3 Z" };

/** A kind that this page has not heard of is shown all the same. */
export function kindOf(name) {
  return KINDS[name] ?? { ...OTHER, word: name };
}

const WHOLE = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const TENTHS = new Intl.NumberFormat("en", { maximumFractionDigits: 1 });

export function number(value) {
  return WHOLE.format(value);
}

export function rate(value) {
  return (value < 100 ? TENTHS : WHOLE).format(value);
}

export function bytes(value) {
  const units = ["B", "kB", "MB", "GB"];
  let at = 0;
  while (value >= 1000 && at < units.length - 1) {
    value /= 1000;
    at += 1;
  }
  return `${(value < 10 && at ? TENTHS : WHOLE).format(value)} ${units[at]}`;
}

export function clockTime(timeMs) {
  const time = new Date(timeMs);
  return [time.getHours(), time.getMinutes(), time.getSeconds()]
    .map((part) => String(part).padStart(2, "0"))
    .join(":");
}

export function plural(count, one, many = `${one}s`) {
  return `${number(count)} ${count === 1 ? one : many}`;
}

/** A broker's id in a sentence; 0 stands for ZooKeeper where links are cut. */
export function peerName(id) {
  return id === 0 ? "ZooKeeper" : `broker ${id}`;
}
