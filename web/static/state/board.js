// @ts-check
// The runs on the board, in lanes, and how many there are of each kind: more than it shows, where they are many.

import { signal } from "../dom/live.js";
import { OVER } from "./story.js";

/** @import { RunSummary } from "../../../clients/typescript/src/types.js" */
/** @typedef {RunSummary} Run */
/** @typedef {Record<string, Run[]>} Lanes The runs of each lane. */

/** The lanes in reading order. */
export const LANES = ["questions", "running", "waiting", "failed", "ended"];

/** @type {Record<string, string[]>} */
const STATES = { questions: ["questions"], running: ["running"], waiting: ["waiting", "queued"], failed: ["failed"] };

/** Holds run summaries and their numbers; `apply` takes the board feed's events. */
export class BoardState {
  /** @type {Map<string, Run>} */
  #runs = new Map();
  /** @type {Record<string, number>} */
  #counts = {};
  /** Changes with each event. */
  changes = signal(0);

  /** @type {(event: string, data: any) => Run[]} Takes a `snapshot`, a `run` or a `board` event; returns the summaries that changed. */
  apply(event, data) {
    if (event === "snapshot") this.#runs = new Map(data.runs.map((/** @type {Run} */ run) => [run.run_id, run]));
    if (event === "run") this.#runs.set(data.run_id, data);
    if (event === "board") for (const runId of data.gone) this.#runs.delete(runId);
    this.#counts = data.counts ?? this.#counts;
    this.changes.value += 1;
    return event === "snapshot" ? data.runs : event === "run" ? [data] : [];
  }

  get size() {
    return this.#runs.size;
  }

  /** How many runs have not ended. */
  get open() {
    return this.#count("queued", "running", "waiting");
  }

  /** Return one summary, if the board has it. */
  get(/** @type {string} */ runId) {
    return this.#runs.get(runId);
  }

  /** Return how many runs of a state there are, `questions` among the waiting ones, shown or not. */
  number(/** @type {string} */ state) {
    return this.#counts[state] ?? 0;
  }

  /** Return how many runs a lane has, shown or not; undefined for those that ended well, which are not counted. */
  total(/** @type {string} */ lane) {
    const others = lane === "waiting" ? this.number("questions") : 0;
    return STATES[lane] && this.#count(...STATES[lane]) - others;
  }

  /** Return its runs by lane. */
  lanes() {
    return lanesOf(this.#runs.values());
  }

  #count(/** @type {string[]} */ ...names) {
    return names.reduce((sum, name) => sum + this.number(name), 0);
  }
}

/** Return runs by lane: questions and what waits in the order of their age, the others with the latest first. */
export function lanesOf(/** @type {Iterable<Run>} */ runs) {
  const /** @type {Lanes} */ lanes = Object.fromEntries(LANES.map((name) => [name, []]));
  for (const run of runs) lanes[laneOf(run)].push(run);
  lanes.questions.sort(byAge);
  lanes.running.sort((a, b) => stamp(b.started_at ?? b.created_at) - stamp(a.started_at ?? a.created_at));
  lanes.waiting.sort((a, b) => Number(a.status === "queued") - Number(b.status === "queued") || byAge(a, b));
  for (const name of ["failed", "ended"]) lanes[name].sort((a, b) => stamp(b.ended_at ?? b.created_at) - stamp(a.ended_at ?? a.created_at));
  return lanes;
}

function laneOf(/** @type {Run} */ { status, reason }) {
  if (status === "failed" || status === "dead") return "failed";
  if (OVER.has(status)) return "ended";
  return status === "running" ? "running" : status === "waiting" && reason === "approval" ? "questions" : "waiting";
}

/** @type {(a: Run, b: Run) => number} */
function byAge(a, b) {
  return stamp(a.created_at) - stamp(b.created_at);
}

function stamp(/** @type {string} */ at) {
  return Date.parse(at) || 0;
}
