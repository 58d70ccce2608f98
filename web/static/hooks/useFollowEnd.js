// Keeps the end in view while the reader is at the end, and scrolls nothing while they are elsewhere.

import { paintSoon } from "../dom/paint.js";

const NEAR = 56;

/** Follow the end of `scroller` as `content` grows; `onAway(true)` when something new is below. */
export function useFollowEnd(scroller, content, onAway) {
  let following = true;
  let height = 0;
  const atEnd = () => scroller.scrollHeight - scroller.scrollTop - scroller.clientHeight < NEAR;
  const toEnd = () => scroller.scrollTo({ top: scroller.scrollHeight, behavior: "instant" });

  scroller.addEventListener("scroll", () => {
    following = atEnd();
    if (following) onAway(false);
  }, { passive: true });

  // Called after layout and before paint: the end is in view in the same frame the text appears in.
  new ResizeObserver(() => {
    const grown = content.offsetHeight > height;
    height = content.offsetHeight;
    if (following) toEnd();
    else if (grown && follow.live) onAway(true);
  }).observe(content);
  new ResizeObserver(() => following && toEnd()).observe(scroller);

  const follow = {
    /** True while something is being written: only then is growth news. */
    live: false,
    jump() {
      following = true;
      onAway(false);
      paintSoon(toEnd);
    },
    /** Show the beginning; nothing is to be followed. */
    rest() {
      following = false;
      onAway(false);
      scroller.scrollTop = 0;
    },
    /** Stay where the reader is, even if that is the end: they are opening something. */
    hold() {
      if (!follow.live) following = false;
    },
  };
  return follow;
}
