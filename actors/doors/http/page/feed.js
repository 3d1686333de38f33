/* The live feed: a WebSocket that comes back.

   Rule: whoever uses it hears of messages and of being away, never of sockets. A server that came
   back with another token sends us to its door. */

const FIRST_WAIT_MS = 250;
const LONGEST_WAIT_MS = 2000;

export class Feed {
  constructor({ onMessage, onLive, onAway }) {
    this._onMessage = onMessage;
    this._onLive = onLive;
    this._onAway = onAway;
    this._wait = FIRST_WAIT_MS;
  }

  open() {
    const scheme = location.protocol === "https:" ? "wss:" : "ws:";
    const socket = new WebSocket(`${scheme}//${location.host}/live`);
    let greeted = false;
    socket.addEventListener("message", ({ data }) => {
      const message = JSON.parse(data);
      this._onMessage(message);
      if (greeted || message.type !== "state") return;
      greeted = true; // only now is it worth saying that we are back
      this._wait = FIRST_WAIT_MS;
      this._onLive();
    });
    socket.addEventListener("close", () => {
      this._onAway();
      if (!greeted && this._wait === LONGEST_WAIT_MS) askForToken();
      setTimeout(() => this.open(), this._wait);
      this._wait = Math.min(this._wait * 2, LONGEST_WAIT_MS);
    });
  }
}

/** A socket that is refused does not say why; a plain question is answered with a status. */
async function askForToken() {
  const response = await fetch("/api/live").catch(() => null); // nobody there: the socket tries on
  if (response?.status === 401) location.assign("/login");
}
