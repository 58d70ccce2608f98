// @ts-check
// What the server makes of one run as a file: its log lines, and its recording for a test.

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
