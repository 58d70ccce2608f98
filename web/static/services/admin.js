// @ts-check
// The calls of the views that say what there is and how it is: definitions, tools, observers, the audit log, keys.

import { Http } from "../client/http.js";
import { credentialHeaders } from "./credential.js";

const http = new Http({ attempts: 1, headers: credentialHeaders });

/** @type {(id: string) => string} */
const agentPath = (id) => `/v1/agents/${encodeURIComponent(id)}`;

/** Return {agents, problems} with the agents that no list shows. */
export function listEveryAgent(/** @type {AbortSignal} */ signal) {
  return http.call("GET", "/v1/agents", { query: { unlisted: "true" }, signal });
}

/** Return the versions of an agent, the newest first. */
export async function listVersions(/** @type {string} */ agentId, /** @type {AbortSignal} */ signal) {
  return (await http.call("GET", `${agentPath(agentId)}/versions`, { signal })).versions;
}

/** Return what a version of an agent says: the fields of its file. */
export async function getVersion(/** @type {string} */ agentId, /** @type {number} */ version) {
  return (await http.call("GET", `${agentPath(agentId)}/versions/${version}`)).content;
}

/** Let an alias stand for a version; `latest` ends the aliases. Returns {aliases}. */
export function promote(/** @type {string} */ agentId, /** @type {{version: number | "latest", alias?: string, share?: number}} */ body) {
  return http.call("POST", `${agentPath(agentId)}/promote`, { body });
}

/** Take the last promotion of an agent back. Returns {aliases}. */
export function rollBack(/** @type {string} */ agentId) {
  return http.call("POST", `${agentPath(agentId)}/rollback`, { body: {} });
}

/** Start a run of one version of an agent; the same `key` sent twice starts one run. */
export function tryVersion(/** @type {string} */ agent, /** @type {number | undefined} */ version, /** @type {string} */ input, /** @type {string} */ key) {
  return http.call("POST", "/v1/runs", { body: { agent, input, version, metadata: { try_out: true } }, key });
}

/** Return the tools of the agents that the caller sees. */
export async function listTools(/** @type {AbortSignal} */ signal) {
  return (await http.call("GET", "/v1/tools", { signal })).tools;
}

/** Call a tool of an agent, as a run without a model; returns {status, run_id, output?, error?}. */
export function callTool(/** @type {{tool: string, agent: string, args: object, key: string}} */ { tool, agent, args, key }) {
  return http.call("POST", "/execute", { body: { tool_name: tool, arguments: args, timeout: 20, config: { agent_id: agent } }, key });
}

/** Return a workflow with its nodes and edges, as new runs get it. */
export function getWorkflow(/** @type {string} */ id, /** @type {AbortSignal} */ signal) {
  return http.call("GET", `/v1/workflows/${encodeURIComponent(id)}`, { signal });
}

/** Return the observers that tail the log; with a name that one, with its failed deliveries. */
export async function listObservers(/** @type {string} */ name, /** @type {AbortSignal} */ signal) {
  return (await http.call("GET", "/v1/observers", { query: { name }, signal })).observers;
}

/** Return a page of the audit log, the newest entry first: {entries, next?}. */
export function listAudit(/** @type {Record<string, string>} */ query, /** @type {AbortSignal} */ signal) {
  return http.call("GET", "/v1/audit", { query, signal });
}

/** Compute the audit log's digests again; returns {is_whole, entries, broken?, problem?}. */
export function verifyAudit() {
  return http.call("GET", "/v1/audit/verification");
}

/** Return a page of API keys, the newest first: {keys, next?}. */
export function listKeys(/** @type {string} */ before, /** @type {AbortSignal} */ signal) {
  return http.call("GET", "/v1/keys", { query: { limit: 200, before }, signal });
}

/** Create a key; its text is in this answer alone. */
export function createKey(/** @type {Record<string, any>} */ body) {
  return http.call("POST", "/v1/keys", { body });
}

/** End a key. */
export function revokeKey(/** @type {string} */ id) {
  return http.call("DELETE", `/v1/keys/${encodeURIComponent(id)}`);
}
