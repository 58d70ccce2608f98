// The page's calls, one function each. What fails is an ApiError whose message says what to do.
import { Callboard } from "../client/callboard.js";
import { Http, newKey } from "../client/http.js";
import { threadOf } from "../state/me.js";
import { credentialHeaders } from "./credential.js";

export { ApiError } from "../client/errors.js";
export { newKey };

// The page shows what fails, and offers another attempt itself.
const server = new Callboard({ attempts: 1, headers: credentialHeaders });
export const http = new Http({ attempts: 1, headers: credentialHeaders });
const MOST_AT_ONCE = 50;

/** Start a run; the same `key` sent twice starts one run. Returns {run_id, thread_id, delivered?}. */
export function sendPrompt({ agent, input, threadId, key, ifBusy }) {
  const body = { agent, input, ...(threadId ? { thread_id: threadId } : {}), ...(ifBusy ? { if_busy: ifBusy } : {}) };
  return http.call("POST", "/v1/runs", { body, key });
}

/** Change a message that waits: {content} its text, {place: "now"} its place. */
export function changeQueued({ thread_id, run_id }, change) {
  return server.editQueued(thread_id, run_id, change);
}

/** Take a message that waits out of its conversation. */
export function removeQueued({ thread_id, run_id }) {
  return server.removeQueued(thread_id, run_id);
}

/** Pause or resume a run. */
export function controlRun(runId, verb) {
  return server.handle(runId)[verb]();
}

/** Retry a run that did not succeed; returns {run_id, thread_id}. */
export async function retryRun(runId, key) {
  const { runId: run_id, threadId: thread_id } = await server.handle(runId).retry({ key });
  return { run_id, thread_id };
}

/** Fork a thread of one's own after a message; returns the fork's id. */
export async function forkThread(threadId, message) {
  return (await server.forkThread(threadId, message)).thread_id;
}

/** Return every message of a thread, in reading order. */
export function getConversationHistory(key) {
  const { id, owner } = threadOf(key);
  return server.messages(id, { owner });
}

/** Answer what a run asks, with changed arguments or a result where there is one; returns {decision, by, status}. */
export function sendConfirm({ runId, approvalId, key, ...given }) {
  return server.handle(runId).decide(approvalId, answerOf(given), { key });
}

/** Approve or reject calls, each named as {run_id, approval_id, digest, decision}; returns the answer to each, in their order. */
export async function sendSeveral(answers) {
  const found = [];
  for (let at = 0; at < answers.length; at += MOST_AT_ONCE) {
    const body = { answers: answers.slice(at, at + MOST_AT_ONCE) };
    found.push(...(await http.call("POST", "/v1/approvals", { body })).answers);
  }
  return found;
}

// What is undefined is left out of the request.
function answerOf({ decision, args, result, message, scope, digest }) {
  return { decision, arguments: args, result, message, scope: scope || undefined, digest };
}

/** Return the question that a link is for; the link stays valid. */
export function openLink(token) {
  return http.call("GET", `/v1/approval-links/${encodeURIComponent(token)}`);
}

/** Return what answers the question of a link as `sendConfirm` does, and uses the link up. */
export function sendByLink(token) {
  return (given) => http.call("POST", `/v1/approval-links/${encodeURIComponent(token)}`, { body: answerOf(given) });
}

/** Ask a run to stop; asking twice is harmless. */
export function stopRun(runId) {
  return server.handle(runId).cancel();
}

/** Return {agents, problems}: who can be asked, and which definitions are broken. */
export async function listAgents() {
  const { agents = [], problems = [] } = await server.agents();
  return { agents, problems };
}

/** Return {workflows, problems}: which can be started, each with the schema of its input, and which definitions are broken. */
export async function listWorkflows() {
  const { workflows = [], problems = [] } = await server.workflows();
  return { workflows, problems };
}

/** Start a workflow; the same `key` sent twice starts one run. Returns {run_id, thread_id}. */
export async function startWorkflow(workflow, input, key) {
  const { runId: run_id, threadId: thread_id } = await server.runWorkflow(workflow, input, { key });
  return { run_id, thread_id };
}

/** Return the workflow of a run with its nodes and edges, as the run was started with them. */
export async function getWorkflowOf({ agent, run_id: runId }) {
  const { definition: digest } = await server.getRun(runId);
  return server.getWorkflow(agent, { digest });
}

/** Return the steps of a node of a run, the first attempt first; `node` is its id behind the items that it stands in: `items/17/charge`. */
export async function getNodeSteps(runId, node) {
  return (await server.handle(runId).steps({ node })).steps ?? [];
}

/** Return the steps of the items of a FOR_EACH that are at their end, up to 200, the failed ones first. */
export async function getItemSteps(runId, node) {
  return (await server.handle(runId).steps({ under: node, limit: 200 })).steps ?? [];
}

/** Return the latest threads, or the latest with these words in their title or in what was written in them. */
export async function listThreads(search = "") {
  return (await server.threads({ limit: 100, search: search.slice(0, 200) })).threads;
}

/** Return {runs, next?}: a page of the runs that a query names. */
export function listRuns(query, signal) {
  return http.call("GET", "/v1/runs", { query, signal });
}

/** Return one run with its open questions. */
export function getRun(runId) {
  return server.getRun(runId);
}

/** Return the open questions of a run, with what their events do not say: a sentence, what the run had read. */
export async function getQuestions(runId) {
  return (await server.handle(runId).approvals()) ?? [];
}

const MOST_STEPS = 5000;

/** Return the steps of a run in their order, up to 5,000. */
export async function getSteps(runId) {
  const steps = [];
  let page;
  do {
    page = await server.handle(runId).steps({ limit: 200, ...(page ? { after: page.next } : {}) });
    steps.push(...page.steps);
  } while (page.next && steps.length < MOST_STEPS);
  return steps;
}

/** Return {total, groups, rest?}: how many runs a query names, `by` one of their facts. */
export function countRuns(by, query, signal) {
  return http.call("GET", "/v1/runs/counts", { query: { by, ...query }, signal });
}

/** Return one thread with its runs: all of them by id and state, the latest with cost and duration. */
export async function getThread(key) {
  const { id, owner } = threadOf(key);
  const [thread, { runs }] = await Promise.all([
    server.getThread(id, { owner }),
    server.runs({ limit: 200, thread_id: id, owner }),
  ]);
  const known = new Map(runs.map((run) => [run.run_id, run]));
  return { ...thread, runs: (thread.runs ?? []).map((run) => ({ ...run, ...known.get(run.run_id) })) };
}

/** Return the events of an ended run, as far as `most` of them. */
export async function getEvents(runId, most = 5000) {
  const found = [];
  let page;
  do {
    page = await server.handle(runId).page(page?.cursor ?? 0);
    found.push(...page.events);
  } while (page.events.length && !page.ended && found.length < most);
  return found;
}

/** Return what the policy decided about a run's calls, as far as `most` of them. */
export async function getDecisions(runId, most = 1000) {
  const found = [];
  let after = "0";
  while (after && found.length < most) {
    const page = await server.handle(runId).decisions({ after, limit: 200 });
    found.push(...page.decisions);
    after = page.next;
  }
  return found;
}

/** Return a feed of a run's events after a cursor. */
export function runFeed(runId, { cursor, onEvent, onState }) {
  return server.handle(runId).feed({ cursor: cursor ? String(cursor) : "", onEvent, onState });
}

/** Return a feed of the board. */
export function boardFeed({ onEvent, onState }) {
  return server.board({ onEvent, onState });
}

/** Return what the server says about itself. */
export function getHealth() {
  return server.health();
}
