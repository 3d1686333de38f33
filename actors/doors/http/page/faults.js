/* What can be done to a broker, and saying so to the server.

   Rule: which fault makes sense in which state is the table below. The server decides; the page
   only greys out what it would refuse. */

import { byId, isUsable, setAttribute } from "./dom.js";

const RUNNING = ["starting", "up", "controller", "leaving", "silent"];
const SERVING = ["up", "controller"];

export const FAULTS = {
  kill: { label: "Kill", when: [...RUNNING, "paused"], doing: "Killing" },
  restart: { label: "Restart", when: ["down", ...SERVING], doing: "Restarting" }, // one that is up stops first
  pause: { label: "Pause", when: [...RUNNING], doing: "Pausing" },
  resume: { label: "Resume", when: ["paused"], doing: "Resuming" },
  "shut-down": { label: "Shut down", when: SERVING, doing: "Shutting down" },
  "expire-session": { label: "Expire session", when: [...SERVING, "paused", "silent"], doing: "Expiring the session of" },
  cut: { label: "Cut link", when: [...RUNNING, "paused"], doing: "Cutting a link of" },
};

export function makesSense(fault, state) {
  return FAULTS[fault].when.includes(state);
}

/** The peers that a broker is cut off from. */
export function cutFrom(cuts, broker) {
  return cuts
    .filter((pair) => pair.includes(broker))
    .map(([one, other]) => (one === broker ? other : one))
    .sort((left, right) => (left || Infinity) - (right || Infinity)); // ZooKeeper, 0, last
}

/** Asks for a fault, and tells what became of it in the status line. */
export async function ask(fault, broker, other) {
  const body = { fault };
  if (broker !== undefined) body.broker = broker;
  if (other !== undefined) body.other = other;
  tell("doing", fault === "heal" ? "Healing…" : `${FAULTS[fault].doing} broker ${broker}…`);
  try {
    const response = await fetch("/api/faults", {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify(body),
    });
    const answer = await response.json();
    if (response.ok) tell("done", answer.done);
    else tell("refused", answer.message ?? `The server answered ${response.status}.`);
  } catch (error) {
    tell("refused", `The server did not answer: ${error.message}.`);
  }
}

function tell(outcome, sentence) {
  const line = byId("fault-status");
  setAttribute(line, "data-outcome", outcome);
  line.textContent = sentence;
}

/** A click that a greyed button swallows. */
export function onUse(button, act) {
  button.addEventListener("click", () => {
    if (isUsable(button)) act();
  });
}
