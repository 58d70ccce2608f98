// @ts-check
// What a run did and when: its events folded into attempts, calls, questions and pauses, and the scale to draw them on.

import { OVER, pick } from "./story.js";

/**
 * @typedef {{from: number, to: number | null, why: string, workMs: number, since: number | null, lostTo?: number}} Attempt
 * `why` it ended or waits, `since` when a worker has it; `lostTo`: when another one had the run, where its worker was lost
 * @typedef {{thinkFrom?: number, thinkTo?: number, writeFrom?: number, writeTo?: number, pieces: number}} Pieces
 * @typedef {{key: string, kind: string, name: string, from: number, to: number | null, state: string, [fact: string]: any}} Item
 * @typedef {{from: number, to: number, share: number, isFolded: boolean}} Stretch
 * @typedef {{from: number, to: number, pieces: number}} Writing
 */

/** Milliseconds of nothing but waiting that are folded where they are more than this share of the whole. */
const FOLD_MS = 10_000;
const FOLD_SHARE = 0.08;
/** Share of the width that a folded stretch gets. */
const FOLDED = 0.09;
/** Milliseconds whose pieces of text are one bar. */
const BAR_MS = 250;
const LOST = "worker_lost";

/** The facts of one run's events; `add` takes them in their order. */
export class RunFacts {
  /** @type {Attempt[]} */
  attempts = [];
  /** @type {Map<string, Pieces>} By step and attempt. */
  pieces = new Map();
  /** @type {Map<string, any>} The last `tool` event of each call, and `atMs`, when it had its arguments. */
  calls = new Map();
  /** @type {Map<string, Item>} */
  questions = new Map();
  /** @type {Map<string, Item>} */
  children = new Map();
  /** @type {any[]} Errors after which the model was asked, or the tool was called, again. */
  retries = [];
  /** @type {Map<number, Writing>} Pieces of text by quarter of a second. */
  rates = new Map();
  /** @type {any} The last error. */
  error = null;
  /** @type {any} How it ended. */
  end = null;
  /** By whom it was stopped. */
  stoppedBy = "";
  from = 0;
  /** @type {number | null} */
  to = null;
  last = 0;
  /** The last sign of a worker. */
  sign = 0;

  /** @param {any} event */
  add(event) {
    const at = Date.parse(event.at);
    if (!Number.isFinite(at)) return;
    this.from ||= at;
    this.last = at;
    FOLDS[event.type]?.(this, event, at);
    if (event.type !== "withdrawn") this.sign = at; // which says that a worker is lost
  }
}

/** @type {Record<string, (facts: RunFacts, event: any, at: number) => void>} */
const FOLDS = {
  status(facts, { status, reason }, at) {
    const isRunning = status === "running";
    let attempt = facts.attempts.at(-1);
    if (attempt && attempt.to === null) {
      // No event says that a worker is lost, until another one has the run.
      if (attempt.since !== null && isRunning) {
        rest(attempt, facts.sign, LOST);
        Object.assign(attempt, { to: facts.sign, lostTo: at });
      } else rest(attempt, at, reason ?? status);
    }
    if (!isRunning) return;
    if (!attempt || attempt.to !== null) facts.attempts.push((attempt = { from: at, to: null, why: "", workMs: 0, since: at }));
    Object.assign(attempt, { why: "", since: at });
  },
  reasoning: (facts, event, at) => notePiece(facts, event, at, "think"),
  response: (facts, event, at) => notePiece(facts, event, at, "write"),
  tool(facts, event, at) {
    const call = facts.calls.get(event.call_id);
    if (event.call_id) facts.calls.set(event.call_id, { ...call, ...event, atMs: call?.atMs ?? (event.arguments && at) });
  },
  approval(facts, event, at) {
    const { approval_id: key, decision } = event;
    facts.questions.set(key, { key, kind: "question", name: "Question", from: at, reason: event.reason, isLate: event.decisions?.includes("run_again"), ...facts.questions.get(key), ...pick(event, "name", "call_id", "by"), word: decision && event.reason, to: decision ? at : null, state: decision ?? "waiting" });
  },
  child(facts, { child_run_id: key, agent: name, status: state }, at) {
    facts.children.set(key, { key, kind: "child", name, from: facts.children.get(key)?.from ?? at, to: OVER.has(state) ? at : null, state, child_run_id: key });
  },
  control(facts, { verb, by }) {
    if (verb === "stop") facts.stoppedBy = by;
  },
  error(facts, event, at) {
    facts.error = event;
    facts.retries.push({ ...event, atMs: at });
  },
  end(facts, event, at) {
    const attempt = facts.attempts.at(-1);
    if (attempt && attempt.to === null) {
      rest(attempt, at, event.status);
      attempt.to = at;
    }
    for (const question of facts.questions.values()) if (question.to === null) Object.assign(question, { to: at, state: event.status });
    facts.to = at;
    facts.end = event;
  },
};

/** @type {(attempt: Attempt, at: number, why: string) => void} */
function rest(attempt, at, why) {
  attempt.workMs += attempt.since === null ? 0 : at - attempt.since;
  Object.assign(attempt, { since: null, why });
}

/** @type {(facts: RunFacts, event: any, at: number, kind: "think" | "write") => void} */
function notePiece(facts, event, at, kind) {
  const bar = Math.floor(at / BAR_MS);
  const writing = facts.rates.get(bar) ?? { from: at, to: at, pieces: 0 };
  facts.rates.set(bar, Object.assign(writing, { to: at, pieces: writing.pieces + 1 }));
  const key = `${event.step_id} ${facts.attempts.length}`;
  const pieces = facts.pieces.get(key) ?? { pieces: 0 };
  pieces.pieces += 1;
  pieces[`${kind}From`] ??= at;
  pieces[`${kind}To`] = at;
  facts.pieces.set(key, pieces);
}

/**
 * Return the rows of the timeline: each attempt with what happened in it, in the order in which it began.
 *
 * @param {RunFacts} facts
 * @param {any[]} steps as GET /v1/runs/{id}/steps returns them
 * @returns {Item[]}
 */
export function timelineRows(facts, steps) {
  if (!facts.from) return [];
  const attempts = facts.attempts.length ? facts.attempts : [{ from: facts.from, to: facts.to, why: "", workMs: 0, since: facts.from }];
  const items = [...steps.flatMap((step) => stepItems(facts, attempts, step)), ...facts.questions.values(), ...facts.children.values()];
  items.sort((a, b) => a.from - b.from);
  return attempts.flatMap((attempt, i) => {
    const next = attempts[i + 1]?.from ?? Infinity;
    const own = items.filter(({ from }) => from < next && (i === 0 || from >= attempt.from));
    return [{ ...attempt, key: `attempt ${i}`, kind: "attempt", name: `Attempt ${i + 1}`, state: attempt.why }, ...own];
  });
}

// A call that is asked about has not begun: its question is shown. One that was cut off is a row, and a row again where it was made again.
/** @type {(facts: RunFacts, attempts: any[], step: any) => Item[]} */
function stepItems(facts, attempts, step) {
  const call = facts.calls.get(step.call_id);
  const questions = [...facts.questions.values()].filter((question) => question.call_id && question.call_id === step.call_id);
  const before = questions.filter(({ isLate }) => !isLate), late = questions.filter(({ isLate }) => isLate);
  const hasBegun = step.kind === "model" || (step.kind === "tool" && step.status !== "planned");
  if (!hasBegun || before.some(({ state }) => state !== "approve" && state !== "answer")) return [];
  let from = Math.max(Date.parse(step.started_at), call?.atMs ?? 0, ...before.map(({ to }) => to ?? 0));
  const ended = step.ended_at ? Date.parse(step.ended_at) : facts.to;
  /** @type {Item[]} */
  const items = [];
  const add = (/** @type {number | null} */ to, /** @type {object} */ more) => items.push({ ...step, key: items.length ? `${step.id} ${items.length + 1}` : step.id, from, to, state: step.status, call, ...partsOf(facts, step, from, to), ...more });
  const losses = attempts.filter(({ lostTo }) => lostTo > from && lostTo <= (ended ?? Infinity)).map(({ to, lostTo }) => [Math.max(from, to), lostTo]);
  for (const [at, again] of losses.length ? losses : late.map((question) => [question.from])) {
    const question = late.find((each) => each.from >= at);
    add(at, { state: step.status === "unknown" ? "unknown" : "cut off", usage: undefined, cost_usd: undefined, isCut: true });
    if (question && question.state !== "run_again") return items;
    from = question?.to ?? again;
  }
  add(ended, {});
  return items;
}

/** @type {(facts: RunFacts, step: any, from: number, to: number | null) => {parts?: Pieces, retries: any[]}} */
function partsOf(facts, step, from, to) {
  const attempt = facts.attempts.filter((each) => each.from <= from).length;
  const retries = facts.retries.filter(({ atMs, retry_in_ms: pause, call_id }) => pause !== undefined && (call_id ? call_id === step.call_id : step.kind === "model") && atMs >= from && (to === null || atMs <= to));
  return { parts: facts.pieces.get(`${step.id} ${attempt}`), retries };
}

/**
 * Return the row that is chosen; where none is, the last one that waits or failed, or else the first.
 *
 * @param {Item[]} rows
 * @param {string} key
 */
export function chosenRow(rows, key) {
  const items = rows.filter(({ kind }) => kind !== "attempt");
  return items.find((row) => row.key === key) ?? items.findLast(({ kind, to }) => kind === "question" && to === null) ?? items.findLast(({ state }) => state === "failed" || state === "unknown") ?? items[0];
}

/**
 * Return the stretches of time with their share of the width. Those in which the run only waits, for a person or for a worker, are
 * folded; `isTrue`: none is.
 *
 * @param {Item[]} rows
 * @param {number} from
 * @param {number} to
 * @returns {Stretch[]}
 */
export function stretches(rows, from, to, isTrue = false) {
  const whole = Math.max(1, to - from);
  const busy = rows.filter(({ kind }) => kind === "model" || kind === "tool" || kind === "child").map((row) => [row.from, row.to ?? to]);
  busy.push(...rows.filter(({ lostTo }) => lostTo).map(({ lostTo }) => [lostTo, lostTo]));
  busy.sort((a, b) => a[0] - b[0]);
  const least = Math.max(FOLD_MS, FOLD_SHARE * whole);
  /** @type {{from: number, to: number, isFolded: boolean}[]} */
  const list = [];
  let at = from;
  for (const [begin, end] of [...busy, [to, to]]) {
    if (begin - at > least && !isTrue) {
      list.push({ from: at, to: begin, isFolded: true });
      at = begin;
    }
    const last = list.at(-1);
    const next = Math.max(at, Math.min(end, to));
    if (last && !last.isFolded) last.to = Math.max(last.to, next);
    else if (next > at || !list.length) list.push({ from: at, to: next, isFolded: false });
    at = Math.max(at, next);
  }
  const folded = list.filter(({ isFolded }) => isFolded).length;
  const open = list.filter(({ isFolded }) => !isFolded).reduce((sum, { from: a, to: b }) => sum + (b - a), 0);
  const room = 1 - Math.min(0.8, folded * FOLDED);
  return list.map((stretch) => ({ ...stretch, share: stretch.isFolded ? (1 - room) / folded : open ? (room * (stretch.to - stretch.from)) / open : room }));
}

/**
 * Return where a time lies on the scale, from 0 to 1.
 *
 * @param {Stretch[]} list
 * @param {number} at
 */
export function placeOf(list, at) {
  let before = 0;
  for (const { from, to, share } of list) {
    if (at <= to) return before + share * Math.max(0, Math.min(1, to > from ? (at - from) / (to - from) : 0));
    before += share;
  }
  return Math.min(1, before);
}

/** Milliseconds between two ticks: up to half a second, to half a minute, to half an hour, and then of hours. */
const TICKS_MS = [1, 2, 5, 10, 20, 50, 100, 200, 500, ...[1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200, 18_000, 36_000, 86_400].map((s) => s * 1000)];
/** Least share of the width between two ticks, for their words. */
const TICK_SHARE = 0.09;

/**
 * Return ticks at round times since the beginning, and one where a folded stretch ends; `at` is from 0 to 1.
 *
 * @param {Stretch[]} list
 * @param {number} most
 * @returns {{at: number, words: string}[]}
 */
export function ticksOf(list, most) {
  const unfolded = list.filter(({ isFolded }) => !isFolded);
  const origin = list[0]?.from ?? 0, last = (unfolded.at(-1)?.to ?? origin) - origin;
  const step = TICKS_MS.find((ms) => ms * most >= unfolded.reduce((sum, { from, to }) => sum + to - from, 0)) ?? last;
  /** @type {{at: number, words: string}[]} */
  const ticks = [];
  for (const { from, to } of unfolded) {
    for (let ms = from - origin; ms < to - origin; ms = (Math.floor(ms / step) + 1) * step) {
      const at = placeOf(list, origin + ms);
      if (at <= 1 - TICK_SHARE && (!ticks.length || at - ticks[ticks.length - 1].at >= TICK_SHARE)) ticks.push({ at, words: clockOf(ms, last, step) });
    }
  }
  return ticks;
}

/** @type {(ms: number, last: number, step?: number) => string} Returns a time since the beginning, in the unit for a run that took `last`. */
export function clockOf(ms, last, step = last < 60_000 ? 100 : 1000) {
  if (last < 1000) return `${Math.round(ms)} ms`;
  const places = step < 100 ? 2 : step < 1000 ? 1 : 0;
  const seconds = Math.floor(ms / 10 ** (3 - places)) / 10 ** places;
  if (last < 60_000) return `${seconds.toFixed(places)} s`;
  const minutes = Math.floor(seconds / 60), hours = Math.floor(minutes / 60);
  const rest = (seconds % 60).toFixed(places).padStart(places && 3 + places || 2, "0");
  return last < 3_600_000 ? `${minutes}:${rest}` : `${hours}:${String(minutes % 60).padStart(2, "0")}:${rest}`;
}

/**
 * Return how long models, tools and children, no worker at all, and persons took the run, in ms: each moment counts once.
 *
 * @param {Item[]} rows
 * @param {number} to
 */
export function timeBy(rows, to) {
  /** @type {number[][]} */
  const spans = [];
  let before = 0;
  const grown = (/** @type {number[][]} */ more) => {
    spans.push(...more);
    const all = covered(spans), own = all - before;
    before = all;
    return own;
  };
  const of = (/** @type {string[]} */ kinds) => rows.filter(({ kind }) => kinds.includes(kind)).map((row) => [row.from, row.to ?? to]);
  const model = grown(of(["model"])), tools = grown(of(["tool", "child"]));
  const idle = grown(rows.filter(({ lostTo }) => lostTo).map((row) => [row.to ?? to, row.lostTo]));
  return { model, tools, idle, people: grown(of(["question"])) };
}

/** @type {(spans: number[][]) => number} */
function covered(spans) {
  let sum = 0, end = -Infinity;
  for (const [from, to] of [...spans].sort((a, b) => a[0] - b[0])) {
    sum += Math.max(0, to - Math.max(from, end));
    end = Math.max(end, to);
  }
  return sum;
}

/**
 * Return how fast text came: bars on the scale with their place, width and height from 0 to 1, and the most pieces in a second.
 *
 * @param {Map<number, Writing>} rates
 * @param {Stretch[]} list
 * @param {number} columns how many bars there are at most
 * @returns {{most: number, bars: {at: number, width: number, height: number}[]}}
 */
export function rateBars(rates, list, columns) {
  /** @type {Map<number, {from: number, to: number, pieces: number}>} */
  const bars = new Map();
  let most = 0, highest = 0;
  for (const [slot, { from, to, pieces }] of rates) {
    const [begin, end] = [placeOf(list, from), placeOf(list, to)], column = Math.floor(begin * columns);
    const bar = bars.get(column) ?? { from: begin, to: end, pieces };
    bars.set(column, { from: bar.from, to: end, pieces: Math.max(bar.pieces, pieces) });
    most = Math.max(most, [0, 1, 2, 3].reduce((sum, i) => sum + (rates.get(slot - i)?.pieces ?? 0), 0));
    highest = Math.max(highest, pieces);
  }
  return { most, bars: [...bars.values()].map(({ from, to, pieces }) => ({ at: from, width: to - from, height: pieces / highest })) };
}
