import { getHealth } from "../services/api.js";

const CALM_MS = 20_000;
const CURIOUS_MS = 4000;

/** Ask the server how it is, now and then; `onHealth({status, ...} | null)` gets each answer. Returns {ask, curious, workers}. */
export function useHealth(onHealth) {
  const state = { curious: false, workers: undefined };
  let timer = 0;
  async function ask() {
    clearTimeout(timer);
    if (!document.hidden) {
      const health = await getHealth().catch(() => null);
      state.workers = workersOf(health);
      onHealth(health);
    }
    timer = setTimeout(ask, state.curious ? CURIOUS_MS : CALM_MS);
  }
  document.addEventListener("visibilitychange", ask);
  ask();
  return {
    ask,
    /** Something is queued: look more often. */
    set curious(on) {
      if (on && !state.curious) setTimeout(ask, 1000);
      state.curious = on;
    },
    get workers() {
      return state.workers;
    },
  };
}

/** Return how many workers are alive, or undefined when the server does not say. */
export function workersOf(health) {
  return typeof health?.workers === "number" ? health.workers : undefined;
}
