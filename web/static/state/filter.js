// @ts-check
// What a list of runs is filtered by: as a person types it, as the address keeps it, and as the server is asked.

import { OVER } from "./story.js";

/** Characters of a name or a value that a sentence about it repeats. */
const MOST_CHARS = 80;

/** @typedef {Record<string, string>} Query fields by the names that GET /v1/runs has for them; `q` are words of the title. */

/** The state of runs that wait for a person: to the server they are waiting ones. */
const ASKING = "asking";
const STATES = ["open", "queued", "running", "waiting", ASKING, "succeeded", "failed", "cancelled", "dead"];
const KINDS = ["agent", "tool", "workflow"];
const TIME = /^(\d{1,6}[smhd]|\d{4}-\d\d-\d\d(T[\d:.]+(Z|[+-]\d\d:\d\d)?)?)$/;
const UNIT_MS = /** @type {Record<string, number>} */ ({ s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000 });

/** @type {Record<string, {values?: string[], form?: RegExp, example: string}>} What can stand before a colon. */
export const FIELDS = {
  status: { values: STATES, example: "status:failed" },
  agent: { example: "agent:assistant" },
  owner: { example: "owner:mara" },
  code: { form: /^[a-z_]+$/, example: "code:model_timeout" },
  queue: { example: "queue:ocr" },
  kind: { values: KINDS, example: "kind:workflow" },
  model: { example: "model:openai/gpt-5-mini" },
  tool: { example: "tool:calculator" },
  since: { form: TIME, example: "since:1h" },
  until: { form: TIME, example: "until:2026-11-24T09:00" },
};
const TOKEN = /(?:([A-Za-z_]+):)?(?:"((?:[^"\\]|\\.)*)"|(\S+))/g;

/**
 * Return the query that a text asks for, and a sentence about each part that cannot be asked.
 *
 * `agent:assistant "two words" refund` asks for runs of that agent with all of these words in the title. What has a colon
 * and is no field is put in quotes.
 *
 * @param {string} text
 * @returns {{query: Query, problems: string[]}}
 */
export function parse(text) {
  /** @type {Query} */
  const query = {};
  /** @type {string[]} */
  const words = [], problems = [];
  for (const [token, name, quoted, plain] of text.matchAll(TOKEN)) {
    const value = quoted?.replace(/\\(.)/g, "$1") ?? plain;
    const problem = name && problemOf(name, value);
    if (plain?.startsWith('"')) problems.push(`The quote in ${token} has no end; put another one behind the words.`);
    else if (!name) words.push(value);
    else if (plain?.startsWith("//")) words.push(token); // an address
    else if (problem) problems.push(problem);
    else if (query[name] !== undefined) problems.push(`“${name}” is given twice.`);
    else query[name] = value;
  }
  if (words.length) query.q = words.join(" ");
  return { query, problems };
}

/**
 * Return the text of a query; `parse` reads it back.
 *
 * @param {Query} query
 */
export function textOf(query) {
  const fields = Object.keys(query).filter((name) => query[name] && name !== "q").map((name) => `${name}:${quotedWhereNeeded(query[name])}`);
  return [...fields, ...(query.q ? query.q.split(" ").filter(Boolean).map((word) => (word.includes(":") && !/^\w+:\/\//.test(word)) || word.startsWith('"') ? quoted(word) : word) : [])].join(" ");
}

/**
 * Return what of an address's query is a filter; what no list can be asked for is left out.
 *
 * @param {Query} given
 * @returns {Query}
 */
export function filterOf(given) {
  return Object.fromEntries(Object.entries(given).filter(([name, value]) => value && (name === "q" || !problemOf(name, value))));
}

/**
 * Return a sentence about each part of a query that no list can be asked for, as `parse` says it.
 *
 * @param {Query} query
 */
export function problemsOf(query) {
  return Object.entries(query).map(([name, value]) => (value && name !== "q" ? problemOf(name, value) : "")).filter(Boolean);
}

/**
 * Return the query as GET /v1/runs takes it: a time without a zone is one of this browser.
 *
 * @param {Query} query
 * @returns {Query}
 */
export function serverQuery(query) {
  const { since, until, ...others } = query;
  const same = others.status === ASKING ? { ...others, status: "waiting" } : others;
  return { ...same, ...(since && { since: zoned(since) }), ...(until && { until: zoned(until) }) };
}

/**
 * Return whether a run's summary fits the query, as far as the summary says: for what arrives live.
 *
 * @param {Query} query
 * @param {Record<string, any>} run
 */
export function matches(query, run, now = Date.now()) {
  const { status, since, until, q, code, owner, tool, ...same } = query; // a summary does not name tools: the list has asked
  const words = q?.toLowerCase().split(" ").filter(Boolean) ?? [];
  const title = `${run.title ?? ""}`.toLowerCase();
  const at = Date.parse((code && run.ended_at) || run.created_at); // as the server: with a code, when it failed
  return (
    (!status || (status === "open" ? !OVER.has(run.status) : status === ASKING ? isAsking(run) : run.status === status)) &&
    Object.entries(same).every(([name, value]) => `${run[name] ?? ""}` === value) &&
    (!owner || run.principal === owner) &&
    (!code || (code === "any" ? Boolean(codeOf(run)) : codeOf(run) === code)) &&
    (!since || at >= timeOf(since, now)) &&
    (!until || at <= timeOf(until, now)) &&
    (words.every((word) => title.includes(word)) || isIdOf(q ?? "", run.run_id))
  );
}

/**
 * Return the code of the error that a run failed with, or undefined.
 *
 * @param {Record<string, any>} run
 * @returns {string | undefined}
 */
export function codeOf(run) {
  return typeof run.error === "object" && run.error ? run.error.code : run.error;
}

/** Return whether a run waits for a person. */
export function isAsking(/** @type {Record<string, any>} */ { status, reason }) {
  return status === "waiting" && reason === "approval";
}

/** @type {(text: string, id: string) => boolean} */
function isIdOf(text, id) {
  return id.startsWith("run_") && text.length >= 6 && (id.endsWith(text) || id.startsWith(text));
}

/** @type {(text: string) => string} */
function zoned(text) {
  const at = /^\d+[smhd]$/.test(text) ? NaN : timeOf(text, 0);
  return Number.isNaN(at) ? text : new Date(at).toISOString();
}

/** @type {(text: string, now: number) => number} Returns milliseconds since 1970; `1h` is a length back from now. */
function timeOf(text, now) {
  const length = /^(\d+)([smhd])$/.exec(text);
  return length ? now - Number(length[1]) * UNIT_MS[length[2]] : Date.parse(text.includes("T") ? text : `${text}T00:00`);
}

/** @type {(name: string, value: string) => string} Returns why a field cannot have a value, or an empty text. */
function problemOf(name, value) {
  if (!Object.hasOwn(FIELDS, name)) return `There is no field “${name.slice(0, MOST_CHARS)}”; use ${Object.keys(FIELDS).join(", ")}, or put the words in quotes.`;
  const { values, form, example } = FIELDS[name];
  if (value && (!values || values.includes(value)) && (!form || form.test(value))) return "";
  return `“${name}” cannot be “${value.slice(0, MOST_CHARS)}”; use ${values ? values.join(", ") : `it as in ${example}`}.`;
}

/** @type {(text: string) => string} */
function quotedWhereNeeded(text) {
  return /[\s"]/.test(text) ? quoted(text) : text;
}

/** @type {(text: string) => string} */
function quoted(text) {
  return `"${text.replace(/[\\"]/g, "\\$&")}"`;
}
