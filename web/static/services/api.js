import { credentialHeaders } from "./credential.js";

// The HTTP calls of the page, one function each. What fails is an ApiError whose message says what to do.

/** A refused or unanswered call. `code` is stable; `message` is a sentence for a person; `facts` are the problem's. */
export class ApiError extends Error {
  constructor(message, { code = "unknown", status = 0, retryAfterMs = 0, facts = {} } = {}) {
    super(message);
    this.name = "ApiError";
    this.code = code;
    this.status = status;
    this.retryAfterMs = retryAfterMs;
    this.facts = facts;
  }

  /** True when the server was not reached at all. */
  get unreachable() {
    return this.status === 0;
  }
}

const TIMEOUT_MS = 30_000;

/** Start a run; the same `key` sent twice starts one run. Returns {run_id, thread_id, status, events_url}. */
export function sendPrompt({ agent, input, threadId, key }) {
  const body = { agent, input };
  if (threadId) body.thread_id = threadId;
  return call("POST", "/v1/runs", { body, headers: { "Idempotency-Key": key } });
}

/** Return every message of a thread, in reading order. */
export async function getConversationHistory(threadId) {
  const found = [];
  let after = "";
  do {
    const page = await call("GET", `/v1/threads/${part(threadId)}/messages?limit=500${after && `&after=${part(after)}`}`);
    found.push(...(page.messages ?? []));
    after = page.next ?? "";
  } while (after);
  return found;
}

/** Answer what a run asks, with changed arguments or a result where there is one; returns {decision, by, status}. */
export function sendConfirm({ runId, approvalId, decision, args, result, key }) {
  const body = { decision };
  if (args !== undefined) body.arguments = args;
  if (result !== undefined) body.result = result;
  return call("POST", `/v1/runs/${part(runId)}/approvals/${part(approvalId)}`, { body, headers: { "Idempotency-Key": key } });
}

/** Ask a run to stop; asking twice is harmless. */
export function stopRun(runId) {
  return call("POST", `/v1/runs/${part(runId)}/cancel`, { body: {} });
}

/** Return {agents, problems}: who can be asked, and which definitions are broken. */
export async function listAgents() {
  const { agents = [], problems = [] } = await call("GET", "/v1/agents");
  return { agents, problems };
}

/** Return the latest threads, or the latest with these words in their title. */
export async function listThreads(search = "") {
  return (await call("GET", `/v1/threads?limit=100${search && `&search=${part(search.slice(0, 200))}`}`)).threads ?? [];
}

/** Return one thread with its runs: all of them by id and state, the latest with cost and duration. */
export async function getThread(threadId) {
  const [thread, { runs = [] }] = await Promise.all([
    call("GET", `/v1/threads/${part(threadId)}`),
    call("GET", `/v1/runs?limit=200&thread_id=${part(threadId)}`),
  ]);
  const known = new Map(runs.map((run) => [run.run_id, run]));
  return { ...thread, runs: (thread.runs ?? []).map((run) => ({ ...run, ...known.get(run.run_id) })) };
}

/** Return the events of an ended run, as far as `most` of them. */
export async function getEvents(runId, most = 5000) {
  const found = [];
  let page;
  do {
    page = await call("GET", `${eventsUrl(runId)}?after=${page?.cursor ?? 0}`);
    found.push(...(page.events ?? []));
  } while (page.events?.length && !page.ended && found.length < most);
  return found;
}

/** Wait up to 20 s for events after the cursor; returns {events, ended} as a feed takes them. */
export async function pollEvents(runId, cursor) {
  const { events = [], ended = false } = await call("GET", `${eventsUrl(runId)}?after=${cursor || 0}&wait_s=20`);
  return { events: events.map((data) => ({ id: String(data.seq), event: data.type, data })), ended: ended && !events.length };
}

/** Return the board as it is now, after a pause; a feed polls it where streams do not come through. */
export async function pollBoard() {
  await new Promise((resolve) => setTimeout(resolve, 2500));
  const { runs = [] } = await call("GET", "/v1/runs?limit=100");
  return { events: [{ id: "", event: "snapshot", data: { runs } }], ended: false };
}

/** Return what the server says about itself; a sick server answers 503 with the same body. */
export async function getHealth() {
  const response = await request("GET", "/health", {});
  return (await jsonOf(response)) ?? { status: "unknown" };
}

/** Return where a run's events are read. */
export function eventsUrl(runId) {
  return `/v1/runs/${part(runId)}/events`;
}

/** Return a key that no other page makes. */
export function newKey() {
  return Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** Return the error a response stands for, from its problem+json where it has one. */
export async function errorFrom(response) {
  const problem = (await jsonOf(response)) ?? {};
  const message = problem.detail ?? problem.title ?? `The server answered ${response.status} without a reason.`;
  const retryAfterMs = Number(response.headers.get("Retry-After") ?? 0) * 1000 || 0;
  return new ApiError(message, { code: problem.code ?? "http_error", status: response.status, retryAfterMs, facts: problem });
}

/** Return the error for a server that cannot be reached. */
export function unreachable() {
  return new ApiError("The server does not answer. Is `./callboard up` still running?", { code: "server_unreachable" });
}

async function call(method, url, options = {}) {
  const response = await request(method, url, options);
  if (!response.ok) throw await errorFrom(response);
  return (await jsonOf(response)) ?? {};
}

async function request(method, url, { body, headers = {} }) {
  const init = { method, headers: { Accept: "application/json", ...credentialHeaders(), ...headers }, cache: "no-store", signal: AbortSignal.timeout(TIMEOUT_MS) };
  if (body !== undefined) {
    init.headers["Content-Type"] = "application/json";
    init.body = JSON.stringify(body);
  }
  try {
    return await fetch(url, init);
  } catch {
    throw unreachable();
  }
}

async function jsonOf(response) {
  try {
    return await response.json();
  } catch {
    return null;
  }
}

function part(id) {
  return encodeURIComponent(id);
}
