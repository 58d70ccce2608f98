// @ts-check
// Keeps the end in view while the reader is at the end, and scrolls nothing while they are elsewhere.

import { paintSoon } from "./paint.js";

const NEAR = 56;
const ABOVE = 16;
const OPEN_QUESTION = ":is(.batch:not([hidden]), .ask[data-open=yes])";

/**
 * Follow the end of `scroller` as `content` grows; `onAway(true)` when something new is below. An open question is read from
 * its beginning: where it does not fit, that is in view, and stays there while the reader scrolls nothing.
 *
 * @param {HTMLElement} scroller
 * @param {HTMLElement} content
 * @param {(isAway: boolean) => void} onAway
 */
export function useFollowEnd(scroller, content, onAway) {
  let following = true;
  let jumping = false;
  let height = 0;
  let placed = /** @type {number | null} */ (null); // where this has scrolled to: there the reader has scrolled nothing
  let isAtQuestion = false; // its beginning is in view, and not the end
  const atEnd = () => scroller.scrollHeight - scroller.scrollTop - scroller.clientHeight < NEAR;
  const scrollTo = (/** @type {number} */ top) => scroller.scrollTo({ top, behavior: "instant" });
  const toEnd = () => {
    const question = content.querySelector(OPEN_QUESTION);
    if (!question && isAtQuestion) { // it was answered: the reader is where it was
      isAtQuestion = false;
      following = atEnd();
      if (!following) return;
    }
    const end = scroller.scrollHeight - scroller.clientHeight;
    const top = question ? topOf(question) - ABOVE : end;
    scrollTo(Math.min(top, end));
    placed = scroller.scrollTop;
    isAtQuestion = top < end;
  };
  const toEndIfFollowed = () => following && toEnd();
  const arrive = () => {
    jumping = false;
    toEndIfFollowed();
  };
  const topOf = (/** @type {Element} */ element) => scroller.scrollTop + element.getBoundingClientRect().top - scroller.getBoundingClientRect().top;

  // An event of an earlier scrolling arrives in the frame of a jump before the jump is made, and must not end it.
  scroller.addEventListener("scroll", () => {
    const isMoved = placed === null || Math.abs(scroller.scrollTop - placed) >= 2;
    if (!jumping && isMoved) {
      placed = null;
      isAtQuestion = false;
      following = atEnd();
    }
    if (following) onAway(false);
  }, { passive: true });

  // Called after layout and before paint: the end is in view in the same frame the text appears in.
  new ResizeObserver(() => {
    const grown = content.offsetHeight > height;
    height = content.offsetHeight;
    if (following) toEnd();
    else if (grown && follow.live) onAway(true);
  }).observe(content);
  new ResizeObserver(toEndIfFollowed).observe(scroller);

  const follow = {
    /** True while something is being written: only then is growth news. */
    live: false,
    jump() {
      following = jumping = true;
      onAway(false);
      paintSoon(arrive);
    },
    /** Show the very end, whatever is asked. */
    toEnd() {
      following = true;
      onAway(false);
      scrollTo(scroller.scrollHeight);
    },
    /** Show the beginning; nothing is to be followed. */
    rest() {
      following = false;
      onAway(false);
      scroller.scrollTop = 0;
    },
    /** Stay where the reader is: they look for something. */
    leave() {
      following = false;
    },
    /** Stay where the reader is, even if that is the end: they are opening something. */
    hold() {
      if (!follow.live) following = false;
    },
  };
  return follow;
}
