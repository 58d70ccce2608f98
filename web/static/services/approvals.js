// @ts-check
// The calls of the approvals' inbox.

import { http } from "./api.js";

/**
 * Return {approvals, sticky_approvals?, next?}: a page of the questions that the reader may answer.
 *
 * @param {{state?: "open" | "answered" | "holding", limit?: number, before?: string}} query
 * @param {AbortSignal} [signal]
 * @returns {Promise<any>}
 */
export function listQuestions(query, signal) {
  return http.call("GET", "/v1/approvals", { query, signal });
}

/**
 * Return {tools, latest?, is_cut}: how calls were decided about in the last 30 days, and of one tool its latest ones.
 *
 * @param {string} tool
 * @param {AbortSignal} [signal]
 * @returns {Promise<any>}
 */
export function listDecided(tool, signal) {
  return http.call("GET", "/v1/approvals/decided", { query: tool ? { tool } : {}, signal });
}

/** @type {(runId: string, approvalId: string, principal: string) => Promise<{url: string, principal: string, expires_at: string}>} Makes a link to a question for one person. */
export function makeLink(runId, approvalId, principal) {
  return http.call("POST", `/v1/runs/${encodeURIComponent(runId)}/approvals/${encodeURIComponent(approvalId)}/links`, { body: { principal } });
}

/** @type {(query: {limit: number, before?: string}, signal?: AbortSignal) => Promise<any>} Returns {sticky_approvals, next?}, with ended ones. */
export function listSticky(query, signal) {
  return http.call("GET", "/v1/sticky-approvals", { query, signal });
}

/** @type {(stickyId: string) => Promise<any>} Ends an approval that holds for later calls. */
export function endSticky(stickyId) {
  return http.call("DELETE", `/v1/sticky-approvals/${encodeURIComponent(stickyId)}`);
}
