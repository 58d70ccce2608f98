// @ts-check
// A range of time that is chosen on a plot, by pointer or by keys, in whole slots.

/** @typedef {{from: number, to: number}} Range seconds since 1970; `to` is not part of it */

/**
 * Return the whole slots that a stretch of time touches, within the plot's time; null where it is no stretch.
 *
 * @param {number} from
 * @param {number} to
 * @param {readonly number[]} times
 * @param {number} slotS
 * @returns {Range | null}
 */
export function slotsBetween(from, to, times, slotS) {
  if (!times.length || !(to > from)) return null;
  const [first, end] = [times[0], times[times.length - 1] + slotS];
  const begin = Math.max(first, first + Math.floor((from - first) / slotS) * slotS);
  const over = Math.min(end, first + Math.ceil((to - first) / slotS) * slotS);
  return over > begin ? { from: begin, to: over } : null;
}

/**
 * Return the range after a key: the arrows move it by a slot, with Shift its end; Home and End go to the first and the last
 * slot, Escape to none. Other keys give undefined.
 *
 * @param {Range | null} range
 * @param {string} key
 * @param {boolean} isShift
 * @param {readonly number[]} times
 * @param {number} slotS
 * @returns {Range | null | undefined}
 */
export function movedRange(range, key, isShift, times, slotS) {
  if (key === "Escape") return range ? null : undefined;
  if (!times.length || !["ArrowLeft", "ArrowRight", "Home", "End"].includes(key)) return undefined;
  const [first, last] = [times[0], times[times.length - 1]];
  if (!range || key === "Home" || key === "End") return key === "Home" ? { from: first, to: first + slotS } : { from: last, to: last + slotS };
  const by = key === "ArrowLeft" ? -slotS : slotS;
  const to = Math.min(last + slotS, Math.max(first + slotS, range.to + by));
  if (isShift) return { from: range.from, to: Math.max(range.from + slotS, to) };
  const length = range.to - range.from;
  const from = Math.min(last + slotS - length, Math.max(first, range.from + by));
  return { from, to: from + length };
}
