// The text/event-stream grammar of the HTML standard, fed with pieces of any size.

/** Turns text into events: `push(piece)` calls `onEvent({id, event, data})` for each whole one. */
export class EventStreamParser {
  #rest = "";
  #started = false;
  #data = [];
  #event = "";
  #id = "";

  constructor({ onEvent, onRetry = () => {} }) {
    this.onEvent = onEvent;
    this.onRetry = onRetry;
  }

  push(piece) {
    if (!this.#started && piece) {
      this.#started = true;
      piece = piece.replace(/^\uFEFF/, "");
    }
    const text = this.#rest + piece;
    let from = 0;
    for (let at = nextBreak(text, from); at >= 0; at = nextBreak(text, from)) {
      // A lone CR at the very end may be half of a CR LF.
      if (text[at] === "\r" && at === text.length - 1) break;
      this.#line(text.slice(from, at));
      from = at + (text[at] === "\r" && text[at + 1] === "\n" ? 2 : 1);
    }
    this.#rest = text.slice(from);
  }

  #line(line) {
    if (line === "") return this.#dispatch();
    const colon = line.indexOf(":");
    if (colon === 0) return;
    const field = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? "" : line.slice(colon + (line[colon + 1] === " " ? 2 : 1));
    if (field === "data") this.#data.push(value);
    else if (field === "event") this.#event = value;
    else if (field === "id" && !value.includes("\0")) this.#id = value;
    else if (field === "retry" && /^\d+$/.test(value)) this.onRetry(Number(value));
  }

  #dispatch() {
    const data = this.#data;
    const event = this.#event || "message";
    this.#data = [];
    this.#event = "";
    if (data.length) this.onEvent({ id: this.#id, event, data: data.join("\n") });
  }
}

function nextBreak(text, from) {
  const lf = text.indexOf("\n", from);
  const cr = text.lastIndexOf("\r", lf < 0 ? text.length : lf) >= from ? text.indexOf("\r", from) : -1;
  if (lf < 0) return cr;
  return cr < 0 || lf < cr ? lf : cr;
}
