// @ts-check
import { boardFeed } from "../services/api.js";
import { BoardState } from "./board.js";

/** @typedef {Parameters<import("../ui/LineState.js").LineState["show"]>[0]} Line The state of the connection. */

const HIDDEN_GRACE_MS = 4000;

/** @type {(on: {onRuns: (runs: import("./board.js").Run[], isSnapshot: boolean) => void, onLine: (state: Line) => void}) => {board: BoardState, start: () => void, hurry: () => void}} Keeps the board live. */
export function useBoard({ onRuns, onLine }) {
  const board = new BoardState();
  const feed = boardFeed({
    onEvent: (/** @type {{event: string, data: any}} */ { event, data }) => onRuns(board.apply(event, data), event === "snapshot"),
    onState: onLine,
  });
  // Browsers allow six connections to a server: a hidden page gives its board's back.
  let grace = 0;
  document.addEventListener("visibilitychange", () => {
    clearTimeout(grace);
    if (document.hidden) grace = setTimeout(() => pause(feed, onLine), HIDDEN_GRACE_MS);
    else feed.start();
  });
  return { board, start: () => feed.start(), hurry: feed.hurry };
}

/** @type {(feed: {stop: () => void}, onLine: (state: Line) => void) => void} */
function pause(feed, onLine) {
  feed.stop();
  onLine({ name: "paused" });
}
