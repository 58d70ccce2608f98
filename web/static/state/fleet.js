// @ts-check
// The workers, from the server's health, in the words of the page.

import { plural } from "../dom/format.js";

/** @typedef {{alive: number | undefined, starting: number}} Fleet Living workers (undefined when the server does not say) and those still to come. */

/** @type {(health: any) => Fleet} Returns what the server's health says of its workers. */
export function fleetOf(health) {
  return { alive: typeof health?.workers === "number" ? health.workers : undefined, starting: health?.workers_starting ?? 0 };
}

/** @type {(fleet: Fleet) => boolean} True while no worker is alive and some are starting. */
export function isStarting({ alive, starting }) {
  return alive === 0 && starting > 0;
}

/** @type {(fleet: Fleet) => string} Returns `2 workers are alive`, `workers are starting (0 of 2)` or `no worker is alive`. */
export function fleetWords({ alive, starting }) {
  if (alive === undefined) return "all is well";
  if (starting > 0) return `workers are starting (${alive} of ${alive + starting})`;
  return alive === 0 ? "no worker is alive" : `${plural(alive, "worker")} ${alive === 1 ? "is" : "are"} alive`;
}
