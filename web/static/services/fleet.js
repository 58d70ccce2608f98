// @ts-check
// The calls of the fleet, which the first load does without.

import { Callboard } from "../client/callboard.js";
import { credentialHeaders } from "./credential.js";

const server = new Callboard({ attempts: 1, headers: credentialHeaders });

/** Return the workers that gave a sign of life within an hour. */
export async function listWorkers() {
  return (await server.workers()).workers;
}

/** Return the queues in which runs wait, or which agents name. */
export async function listQueues() {
  return (await server.queues()).queues;
}

/** Return what was counted since then: {rows, slot_s, is_fed, detail?}; `since` is a length back from now. An hour has a row for each minute. */
export function getMetrics(/** @type {string} */ since) {
  return server.metrics({ since, step: since === "1h" ? "1m" : "5m" });
}

/** Return what the server's checks say: {state, findings}. */
export function getDoctor() {
  return server.doctor();
}
