// The workers, from the server's health, in the words of the page.

import { plural } from "../dom/format.js";

/** Return {alive, starting}: living workers (undefined when the server does not say) and those still to come. */
export function fleetOf(health) {
  return { alive: typeof health?.workers === "number" ? health.workers : undefined, starting: health?.workers_starting ?? 0 };
}

/** True while no worker is alive and some are starting. */
export function isStarting({ alive, starting }) {
  return alive === 0 && starting > 0;
}

/** Return `2 workers are alive`, `workers are starting (0 of 2)` or `no worker is alive`. */
export function fleetWords({ alive, starting }) {
  if (alive === undefined) return "all is well";
  if (starting > 0) return `workers are starting (${alive} of ${alive + starting})`;
  return alive === 0 ? "no worker is alive" : `${plural(alive, "worker")} ${alive === 1 ? "is" : "are"} alive`;
}
