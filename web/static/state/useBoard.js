import { boardFeed } from "../services/api.js";
import { BoardState } from "./board.js";

const HIDDEN_GRACE_MS = 4000;

/** Keep the board live; `onRuns(runs, isSnapshot)` and `onLine(state)` are called. Returns {board, start, hurry}. */
export function useBoard({ onRuns, onLine }) {
  const board = new BoardState();
  const feed = boardFeed({
    onEvent: ({ event, data }) => onRuns(board.apply(event, data), event === "snapshot"),
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

function pause(feed, onLine) {
  feed.stop();
  onLine({ name: "paused" });
}
