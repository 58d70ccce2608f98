// @ts-check
// The page's calls, one function each. What fails is an ApiError whose message says what to do.
import { Callboard } from "../client/callboard.js";
import { Http, newKey } from "../client/http.js";
import { threadOf } from "../state/me.js";
import { credentialHeaders } from "./credential.js";

export { ApiError } from "../client/errors.js";
export { newKey };

/** @import { Agents, Approval, Decisions, Health, Message, Run, Runs, RunSummary, Steps, Thread, Threads, Workflow, Workflows } from "../../../clients/typescript/src/types.js" */
/** @typedef {Steps["steps"][number] & {node: string}} NodeStep */
/** @typedef {{runId: string, approvalId: string, key?: string} & Given} Confirmation */
/** @typedef {{decision: string, args?: object, result?: unknown, message?: string, scope?: string, digest?: string}} Given What a person says to a question. */
/** @typedef {{run_id: string, thread_id: string}} Started A run that the server took. */
/** @typedef {Started & {status: string, delivered?: "merged" | "steered", control_id?: string}} Accepted With `delivered` the run, which was there before, that took the message. */
/** @typedef {"connecting" | "live" | "polling" | "behind" | "waiting" | "offline" | "refused" | "ended"} FeedName */
/** @typedef {{name: FeedName, seconds?: number, error?: import("../client/errors.js").ApiError}} FeedState */
/** @typedef {{onEvent: (event: {id: string, event: string, data: any}) => void, onState: (state: FeedState) => void}} FeedHandlers */

// The page shows what fails, and offers another attempt itself.
const server = new Callboard({ attempts: 1, headers: credentialHeaders });
export const http = new Http({ attempts: 1, headers: credentialHeaders });
const MOST_AT_ONCE = 50;

/** @type {(prompt: {agent: string, input: string, threadId?: string, key: string, ifBusy?: string}) => Promise<Accepted>} Starts a run; the same `key` sent twice starts one run. */
export function sendPrompt({ agent, input, threadId, key, ifBusy }) {
  const body = { agent, input, ...(threadId ? { thread_id: threadId } : {}), ...(ifBusy ? { if_busy: ifBusy } : {}) };
  return http.call("POST", "/v1/runs", { body, key });
}

/** @type {(message: Started, change: {content: string} | {place: "now"}) => Promise<any>} Changes the text or the place of a message that waits. */
export function changeQueued({ thread_id, run_id }, change) {
  return server.editQueued(thread_id, run_id, change);
}

/** @type {(message: Started) => Promise<void>} Takes a message that waits out of its conversation. */
export function removeQueued({ thread_id, run_id }) {
  return server.removeQueued(thread_id, run_id);
}

/** @type {(runId: string, verb: "pause" | "resume") => Promise<any>} Pauses or resumes a run. */
export function controlRun(runId, verb) {
  return server.handle(runId)[verb]();
}

/** @type {(runId: string, key: string) => Promise<Started>} Retries a run that did not succeed. */
export async function retryRun(runId, key) {
  const { runId: run_id, threadId: thread_id } = await server.handle(runId).retry({ key });
  return { run_id, thread_id };
}

/** @type {(threadId: string, message: number) => Promise<string>} Forks a thread of one's own after a message; returns the fork's id. */
export async function forkThread(threadId, message) {
  return (await server.forkThread(threadId, message)).thread_id;
}

/** @type {(key: string) => Promise<Message[]>} Returns every message of a thread, in reading order. */
export function getConversationHistory(key) {
  const { id, owner } = threadOf(key);
  return server.messages(id, { owner });
}

/** @type {(confirmation: Confirmation) => Promise<{decision: string, by: string, status: string}>} Answers what a run asks, with changed arguments or a result where there is one. */
export function sendConfirm({ runId, approvalId, key, ...given }) {
  return server.handle(runId).decide(approvalId, answerOf(given), { key });
}

/** @type {(answers: {run_id: string, approval_id: string, digest: string, decision: string, message?: string}[]) => Promise<any[]>} Approves or rejects calls; returns the answer to each, in their order. */
export async function sendSeveral(answers) {
  /** @type {any[]} */
  const found = [];
  for (let at = 0; at < answers.length; at += MOST_AT_ONCE) {
    const body = { answers: answers.slice(at, at + MOST_AT_ONCE) };
    found.push(...(await http.call("POST", "/v1/approvals", { body })).answers);
  }
  return found;
}

// What is undefined is left out of the request.
/** @type {(given: Given) => object} */
function answerOf({ decision, args, result, message, scope, digest }) {
  return { decision, arguments: args, result, message, scope: scope || undefined, digest };
}

/** @type {(token: string) => Promise<any>} Returns the question that a link is for; the link stays valid. */
export function openLink(token) {
  return http.call("GET", `/v1/approval-links/${encodeURIComponent(token)}`);
}

/** @type {(token: string) => (given: Given) => Promise<any>} Returns what answers the question of a link as `sendConfirm` does, and uses the link up. */
export function sendByLink(token) {
  return (given) => http.call("POST", `/v1/approval-links/${encodeURIComponent(token)}`, { body: answerOf(given) });
}

/** @type {(runId: string) => Promise<any>} Asks a run to stop; asking twice is harmless. */
export function stopRun(runId) {
  return server.handle(runId).cancel();
}

/** @type {() => Promise<{agents: NonNullable<Agents["agents"]>, problems: NonNullable<Agents["problems"]>}>} Returns {agents, problems}: who can be asked, and which definitions are broken. */
export async function listAgents() {
  const { agents = [], problems = [] } = await server.agents();
  return { agents, problems };
}

/** @type {() => Promise<{workflows: NonNullable<Workflows["workflows"]>, problems: NonNullable<Workflows["problems"]>}>} Returns {workflows, problems}: which can be started, each with the schema of its input, and which definitions are broken. */
export async function listWorkflows() {
  const { workflows = [], problems = [] } = await server.workflows();
  return { workflows, problems };
}

/** @type {(workflow: string, input: object, key: string) => Promise<Started>} Starts a workflow; the same `key` sent twice starts one run. */
export async function startWorkflow(workflow, input, key) {
  const { runId: run_id, threadId: thread_id } = await server.runWorkflow(workflow, input, { key });
  return { run_id, thread_id };
}

/** @type {(run: {agent: string, run_id: string}) => Promise<Workflow>} Returns the workflow of a run with its nodes and edges, as the run was started with them. */
export async function getWorkflowOf({ agent, run_id: runId }) {
  const { definition: digest } = await server.getRun(runId);
  return server.getWorkflow(agent, { digest });
}

/** @type {(runId: string, node: string) => Promise<NodeStep[]>} Returns the steps of a node of a run, the first attempt first; `node` is its id behind the items that it stands in: `items/17/charge`. */
export async function getNodeSteps(runId, node) {
  return (await server.handle(runId).steps({ node })).steps ?? [];
}

/** @type {(runId: string, node: string) => Promise<NodeStep[]>} Returns the steps of the items of a FOR_EACH that are at their end, up to 200, the failed ones first. */
export async function getItemSteps(runId, node) {
  return (await server.handle(runId).steps({ under: node, limit: 200 })).steps ?? [];
}

/** @type {(search?: string) => Promise<Threads["threads"]>} Returns the latest threads, or the latest with these words in their title or in what was written in them. */
export async function listThreads(search = "") {
  return (await server.threads({ limit: 100, search: search.slice(0, 200) })).threads;
}

/** @type {(query: Record<string, any>, signal?: AbortSignal) => Promise<Runs>} Returns {runs, next?}: a page of the runs that a query names. */
export function listRuns(query, signal) {
  return http.call("GET", "/v1/runs", { query, signal });
}

/** @type {(runId: string) => Promise<Run>} Returns one run with its open questions. */
export function getRun(runId) {
  return server.getRun(runId);
}

/** @type {(runId: string) => Promise<Approval[]>} Returns the open questions of a run, with what their events do not say: a sentence, what the run had read. */
export async function getQuestions(runId) {
  return (await server.handle(runId).approvals()) ?? [];
}

const MOST_STEPS = 5000;

/** @type {(runId: string) => Promise<Steps["steps"]>} Returns the steps of a run in their order, up to 5,000. */
export async function getSteps(runId) {
  /** @type {any[]} */
  const steps = [];
  let page;
  do {
    page = await server.handle(runId).steps({ limit: 200, ...(page ? { after: page.next } : {}) });
    steps.push(...page.steps);
  } while (page.next && steps.length < MOST_STEPS);
  return steps;
}

/** @type {(by: string, query: Record<string, any>, signal?: AbortSignal) => Promise<{total: number, groups: any[], rest?: any}>} Returns {total, groups, rest?}: how many runs a query names, `by` one of their facts. */
export function countRuns(by, query, signal) {
  return http.call("GET", "/v1/runs/counts", { query: { by, ...query }, signal });
}

/** @type {(key: string) => Promise<Omit<Thread, "runs"> & {runs: (Thread["runs"][number] & Partial<RunSummary>)[]}>} Returns one thread with its runs: all of them by id and state, the latest with cost and duration. */
export async function getThread(key) {
  const { id, owner } = threadOf(key);
  const [thread, { runs }] = await Promise.all([
    server.getThread(id, { owner }),
    server.runs({ limit: 200, thread_id: id, owner }),
  ]);
  const known = new Map(runs.map((/** @type {any} */ run) => [run.run_id, run]));
  return { ...thread, runs: (thread.runs ?? []).map((/** @type {any} */ run) => ({ ...run, ...known.get(run.run_id) })) };
}

/** @type {(runId: string, most?: number) => Promise<any[]>} Returns the events of an ended run, as far as `most` of them. */
export async function getEvents(runId, most = 5000) {
  const found = [];
  let page;
  do {
    page = await server.handle(runId).page(page?.cursor ?? 0);
    found.push(...page.events);
  } while (page.events.length && !page.ended && found.length < most);
  return found;
}

/** @type {(runId: string, most?: number) => Promise<Decisions["decisions"]>} Returns what the policy decided about a run's calls, as far as `most` of them. */
export async function getDecisions(runId, most = 1000) {
  const found = [];
  /** @type {any} The compiled client's own types say less than it takes. */
  const query = { after: "0", limit: 200 };
  while (query.after && found.length < most) {
    const page = await server.handle(runId).decisions(query);
    found.push(...page.decisions);
    query.after = page.next;
  }
  return found;
}

/** @type {(runId: string, options: FeedHandlers & {cursor?: number}) => import("../client/feed.js").Feed} Returns a feed of a run's events after a cursor. */
export function runFeed(runId, { cursor, onEvent, onState }) {
  return server.handle(runId).feed({ cursor: cursor ? String(cursor) : "", onEvent, onState });
}

/** @type {(handlers: FeedHandlers) => import("../client/feed.js").Feed} Returns a feed of the board. */
export function boardFeed({ onEvent, onState }) {
  return server.board({ onEvent, onState });
}

/** @type {() => Promise<Health>} Returns what the server says about itself. */
export function getHealth() {
  return server.health();
}
