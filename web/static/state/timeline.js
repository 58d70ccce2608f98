// @ts-check
// What a run did and when: its events folded into attempts, calls, questions and pauses, and the scale to draw them on.

/**
 * @typedef {{number: number, from: number, to: number | null, why: string}} Attempt `why` it ended: the state that followed
 * @typedef {{thinkFrom?: number, thinkTo?: number, writeFrom?: number, writeTo?: number, pieces: number}} Pieces
 * @typedef {{key: string, kind: string, name: string, from: number, to: number | null, state: string, [fact: string]: any}} Item
 * @typedef {{from: number, to: number, share: number, isFolded: boolean}} Stretch
 */

/** Milliseconds of nothing but waiting that are folded where they are more than this share of the whole. */
const FOLD_MS = 10_000;
const FOLD_SHARE = 0.08;
/** Share of the width that a folded stretch gets. */
const FOLDED = 0.09;

/** The facts of one run's events; `add` takes them in their order. */
export class RunFacts {
  /** @type {Attempt[]} */
  attempts = [];
  /** @type {Map<string, Pieces>} By step. */
  pieces = new Map();
  /** @type {Map<string, any>} The `tool` event of each call, and its result. */
  calls = new Map();
  /** @type {Map<string, Item>} */
  questions = new Map();
  /** @type {Map<string, Item>} */
  children = new Map();
  /** @type {any[]} Errors after which the model was asked again. */
  retries = [];
  /** @type {Map<number, number>} Pieces of text by second. */
  rates = new Map();
  from = 0;
  /** @type {number | null} */
  to = null;
  last = 0;

  /** @param {any} event */
  add(event) {
    const at = Date.parse(event.at);
    if (!Number.isFinite(at)) return;
    this.from ||= at;
    this.last = at;
    const fold = FOLDS[event.type];
    if (fold) fold(this, event, at);
  }
}

/** @type {Record<string, (facts: RunFacts, event: any, at: number) => void>} */
const FOLDS = {
  status(facts, event, at) {
    const open = facts.attempts.at(-1);
    if (open && open.to === null) Object.assign(open, { to: at, why: event.reason ?? event.status });
    if (event.status === "running") facts.attempts.push({ number: event.attempt ?? facts.attempts.length + 1, from: at, to: null, why: "" });
  },
  reasoning: (facts, event, at) => notePiece(facts, event, at, "think"),
  response: (facts, event, at) => notePiece(facts, event, at, "write"),
  tool(facts, event) {
    if (event.call_id) facts.calls.set(event.call_id, { ...facts.calls.get(event.call_id), ...event });
  },
  tool_result(facts, event) {
    facts.calls.set(event.call_id, { ...facts.calls.get(event.call_id), outcome: event.outcome, result: event.result, code: event.code, duration_ms: event.duration_ms });
  },
  approval(facts, event, at) {
    const known = facts.questions.get(event.approval_id);
    const { approval_id: key, name, call_id, reason, decision, by } = event;
    facts.questions.set(key, { key, kind: "question", name: name ?? known?.name ?? "Question", call_id: call_id ?? known?.call_id, reason: reason ?? known?.reason, from: known?.from ?? at, to: decision ? at : known?.to ?? null, state: decision ?? "waiting", by: by ?? known?.by });
  },
  child(facts, event, at) {
    const known = facts.children.get(event.child_run_id);
    const isOver = !["queued", "running", "waiting"].includes(event.status);
    facts.children.set(event.child_run_id, { key: event.child_run_id, kind: "child", name: event.agent, from: known?.from ?? at, to: isOver ? at : null, state: event.status, child_run_id: event.child_run_id });
  },
  error(facts, event, at) {
    facts.retries.push({ ...event, atMs: at });
  },
  end(facts, event, at) {
    const open = facts.attempts.at(-1);
    if (open && open.to === null) Object.assign(open, { to: at, why: event.status });
    facts.to = at;
  },
};

/** @type {(facts: RunFacts, event: any, at: number, kind: "think" | "write") => void} */
function notePiece(facts, event, at, kind) {
  const second = Math.floor(at / 1000);
  facts.rates.set(second, (facts.rates.get(second) ?? 0) + 1);
  const pieces = facts.pieces.get(event.step_id) ?? { pieces: 0 };
  pieces.pieces += 1;
  pieces[`${kind}From`] ??= at;
  pieces[`${kind}To`] = at;
  facts.pieces.set(event.step_id, pieces);
}

/**
 * Return the rows of the timeline: each attempt with what happened in it, in the order in which it began.
 *
 * @param {RunFacts} facts
 * @param {any[]} steps as GET /v1/runs/{id}/steps returns them
 * @returns {(Item | {key: string, kind: "attempt", number: number, from: number, to: number | null, state: string})[]}
 */
export function timelineRows(facts, steps) {
  const items = [...steps.filter(isShown).map((step) => stepItem(facts, step)), ...facts.questions.values(), ...facts.children.values()];
  items.sort((a, b) => a.from - b.from);
  const attempts = facts.attempts.length ? facts.attempts : [{ number: 1, from: facts.from, to: facts.to, why: "" }];
  return attempts.flatMap((attempt, i) => {
    const until = attempts[i + 1]?.from ?? Infinity;
    const own = items.filter(({ from }) => from < until && (i === 0 || from >= attempt.from));
    return [{ key: `attempt ${i}`, kind: /** @type {"attempt"} */ ("attempt"), number: attempt.number, from: attempt.from, to: attempt.to, state: attempt.why }, ...own];
  });
}

// A call that is asked about has not begun: its question is shown.
/** @type {(step: any) => boolean} */
function isShown({ kind, status }) {
  return kind === "model" || (kind === "tool" && status !== "planned");
}

/** @type {(facts: RunFacts, step: any) => Item} */
function stepItem(facts, step) {
  const approvals = [...facts.questions.values()].filter((question) => question.call_id && question.call_id === step.call_id && question.state === "approve");
  const from = Math.max(Date.parse(step.started_at), ...approvals.map(({ to: answered }) => answered ?? 0));
  const attempt = facts.attempts.at(-1); // a call whose worker has left it was cut off
  const to = step.ended_at ? Date.parse(step.ended_at) : attempt && attempt.to !== null ? Math.max(from, attempt.to) : null;
  const retries = step.kind === "model" ? facts.retries.filter(({ atMs, retry_in_ms: pause }) => pause !== undefined && atMs >= from && (to === null || atMs <= to)) : [];
  return { ...step, key: step.id, from, to, state: step.status, parts: facts.pieces.get(step.id), call: facts.calls.get(step.call_id), retries };
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
  const busy = rows.filter(({ kind }) => kind === "model" || kind === "tool" || kind === "child").map((row) => [row.from, row.to ?? to]).sort((a, b) => a[0] - b[0]);
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

/**
 * Return how long models, tools and children, persons, and no worker at all took the run, in ms.
 *
 * @param {Item[]} rows
 * @param {RunFacts} facts
 * @param {number} to
 */
export function timeBy(rows, facts, to) {
  const sum = (/** @type {string[]} */ kinds) => rows.filter(({ kind }) => kinds.includes(kind)).reduce((total, row) => total + ((row.to ?? to) - row.from), 0);
  const idle = facts.attempts.slice(1).reduce((total, attempt, i) => total + (facts.attempts[i].why === "worker_lost" ? attempt.from - (facts.attempts[i].to ?? attempt.from) : 0), 0);
  return { model: sum(["model"]), tools: sum(["tool", "child"]), people: sum(["question"]), idle };
}

/**
 * Return how fast text came: columns of the scale's width with their height from 0 to 1, and the most pieces in a second.
 *
 * @param {Map<number, number>} rates pieces by second
 * @param {Stretch[]} list
 * @param {number} columns how many there are at most
 * @returns {{most: number, bars: {at: number, height: number}[]}}
 */
export function rateBars(rates, list, columns) {
  /** @type {Map<number, number>} */
  const peaks = new Map();
  let most = 0;
  for (const [second, pieces] of rates) {
    const column = Math.min(columns - 1, Math.floor(placeOf(list, second * 1000 + 500) * columns));
    peaks.set(column, Math.max(peaks.get(column) ?? 0, pieces));
    most = Math.max(most, pieces);
  }
  return { most, bars: [...peaks].sort(([a], [b]) => a - b).map(([column, pieces]) => ({ at: column / columns, height: pieces / most })) };
}
