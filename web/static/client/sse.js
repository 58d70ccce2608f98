// The text/event-stream grammar of the HTML standard, fed with pieces of any size.
const BREAK = /\r\n|\n|\r/g;
/** Turns text into events: `push(piece)` calls `onEvent({id, event, data})` for each whole one. */
export class EventStreamParser {
    // The pieces of a line whose end has not come: each piece is looked through once, however many a line comes in.
    #begun = [];
    #afterCr = false;
    #started = false;
    #data = [];
    #event = "";
    #id = "";
    #handlers;
    constructor(handlers) {
        this.#handlers = handlers;
    }
    push(piece) {
        if (!piece)
            return;
        let from = 0;
        if (!this.#started && piece[0] === "\uFEFF")
            from = 1;
        // A CR ended the line; the LF of a CR LF adds nothing.
        if (this.#afterCr && piece[0] === "\n")
            from = 1;
        this.#started = true;
        this.#afterCr = piece.endsWith("\r");
        BREAK.lastIndex = from;
        for (let found = BREAK.exec(piece); found; found = BREAK.exec(piece)) {
            this.#line(this.#whole(piece.slice(from, found.index)));
            from = BREAK.lastIndex;
        }
        if (from < piece.length)
            this.#begun.push(piece.slice(from));
    }
    #whole(rest) {
        const line = this.#begun.length ? this.#begun.join("") + rest : rest;
        this.#begun.length = 0;
        return line;
    }
    #line(line) {
        if (line === "")
            return this.#dispatch();
        const colon = line.indexOf(":");
        if (colon === 0)
            return;
        const field = colon < 0 ? line : line.slice(0, colon);
        const value = colon < 0 ? "" : line.slice(colon + (line[colon + 1] === " " ? 2 : 1));
        if (field === "data")
            this.#data.push(value);
        else if (field === "event")
            this.#event = value;
        else if (field === "id" && !value.includes("\0"))
            this.#id = value;
        else if (field === "retry" && /^\d+$/.test(value))
            this.#handlers.onRetry?.(Number(value));
    }
    #dispatch() {
        const data = this.#data;
        const event = this.#event || "message";
        this.#data = [];
        this.#event = "";
        if (data.length)
            this.#handlers.onEvent({ id: this.#id, event, data: data.join("\n") });
    }
}
