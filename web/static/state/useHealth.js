// @ts-check
import { getHealth } from "../services/api.js";
import { fleetOf } from "./fleet.js";

/** @import { Health } from "../../../clients/typescript/src/types.js" */

const CALM_MS = 20_000;
const CURIOUS_MS = 4000;
const STARTING_MS = 1000;

/** Ask the server how it is, now and then; `onHealth` gets each answer, or null. Returns {ask, curious, fleet}. */
export function useHealth(/** @type {(health: Health | null) => void} */ onHealth) {
  const state = { curious: false, fleet: fleetOf(null) };
  let timer = 0;
  async function ask() {
    clearTimeout(timer);
    if (!document.hidden) {
      const health = await getHealth().catch(() => null);
      state.fleet = fleetOf(health);
      onHealth(health);
    }
    timer = setTimeout(ask, state.fleet.starting ? STARTING_MS : state.curious ? CURIOUS_MS : CALM_MS);
  }
  document.addEventListener("visibilitychange", ask);
  ask();
  return {
    ask,
    /** Something is queued: look more often. */
    set curious(/** @type {boolean} */ on) {
      if (on && !state.curious) setTimeout(ask, 1000);
      state.curious = on;
    },
    get fleet() {
      return state.fleet;
    },
  };
}
