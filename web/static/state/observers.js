// @ts-check
// How an observer that tails the log is, in words; cli/commands/observers.py says the same at a terminal.

import { plural, ticking } from "../dom/format.js";

/**
 * Return `up to date`, or how far behind it is; and what it did not take.
 *
 * @param {{behind_s: number, behind: number, dead: number, retrying: number, dropped: number}} observer
 */
export function lagWords({ behind_s: seconds, behind, dead, retrying, dropped }) {
  const lag = seconds ? `${ticking(seconds * 1000)} behind${behind ? ` (${plural(behind, "event")} at most)` : ""}` : "up to date";
  return [lag, dead && plural(dead, "dead letter"), retrying && `${plural(retrying, "delivery", "deliveries")} tried again`, dropped && `${plural(dropped, "event")} dropped`].filter(Boolean).join(" · ");
}

/**
 * Return what a person can do about it, each with the command for it; nothing where all is well.
 *
 * @param {{name: string, state: string, dead: number}} observer
 * @returns {[string, string][]}
 */
export function remediesOf({ name, state, dead }) {
  /** @type {[string, string][]} */
  const remedies = [];
  if (state === "stopped") remedies.push(["No process feeds it. Start one:", `./callboard observe ${name}`]);
  if (state === "paused") remedies.push(["It is paused, and the log is kept for it. Continue:", `./callboard observers resume ${name}`]);
  if (dead) remedies.push(["Once the cause is mended, deliver again what was given up:", `./callboard observers feed ${name} --all`]);
  return remedies;
}
