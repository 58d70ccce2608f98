// @ts-check
// What the server makes of one run as a file: its log lines, and its recording for a test; and what it keeps of one step.

import { Http } from "../client/http.js";
import { errorFrom } from "../client/errors.js";
import { credentialHeaders } from "./credential.js";

const http = new Http({ headers: credentialHeaders });

/**
 * Return a file of a run as text: its `log`, or the `recording` that a test replays.
 *
 * @param {string} runId
 * @param {"log" | "recording"} name
 * @param {AbortSignal} [signal]
 * @returns {Promise<string>}
 */
export async function getRunFile(runId, name, signal) {
  const response = await http.send("GET", `/v1/runs/${encodeURIComponent(runId)}/${name}`, { signal });
  if (!response.ok) throw await errorFrom(response);
  return response.text();
}

/**
 * Return what a step requested, and what the policy decided about it.
 *
 * @param {string} runId
 * @param {number} number
 * @returns {Promise<{spans: any[], decision: any}>}
 */
export async function getStepFacts(runId, number) {
  const read = (/** @type {string} */ what, /** @type {object} */ query) => http.call("GET", `/v1/runs/${encodeURIComponent(runId)}/${what}`, { query: { limit: 1, ...query } });
  const [{ steps: [step] }, { decisions: [decision] }] = await Promise.all([read("steps", { spans: 1, after: `0.${number - 1}` }), read("decisions", { after: number - 1 })]);
  return { spans: step?.spans ?? [], decision: decision?.number === number ? decision : null };
}

/**
 * Give the browser a file to save.
 *
 * @param {string} name
 * @param {string} text
 */
export function save(name, text) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([text], { type: "application/octet-stream" }));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
}
