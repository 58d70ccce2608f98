// @ts-check
// Two runs beside each other: their facts, and their steps paired in order.

/** @typedef {{name: string, left: any, right: any, isSame: boolean}} Fact */
/** @typedef {{left: any | null, right: any | null, isSame: boolean}} Pair `null`: the other run alone has that step */

/** Above this many steps a side, steps are paired by their place alone: the table of all pairs would be too large. */
const MOST_STEPS = 1500;

/**
 * Return the facts of two runs that a reader compares, those that neither has left out.
 *
 * @param {any} left
 * @param {any} right as GET /v1/runs/{id} returns them
 * @returns {Fact[]}
 */
export function comparedFacts(left, right) {
  return FACTS.map(([name, of]) => ({ name, left: of(left), right: of(right) }))
    .filter((fact) => fact.left !== undefined || fact.right !== undefined)
    .map((fact) => ({ ...fact, isSame: JSON.stringify(fact.left) === JSON.stringify(fact.right) }));
}

/** @type {[string, (run: any) => any][]} */
const FACTS = [
  ["status", (run) => run.status],
  ["reason", (run) => run.reason],
  ["agent", (run) => run.agent],
  ["model", (run) => run.model || undefined],
  ["input", (run) => run.title],
  ["output", (run) => run.output],
  ["attempts", (run) => run.attempt],
  ["steps", (run) => run.steps],
  ["tokens read", (run) => run.usage?.input_tokens],
  ["tokens written", (run) => run.usage?.output_tokens],
  ["cost", (run) => run.cost_usd],
  ["time", (run) => run.duration_ms],
  ["time at work", (run) => run.work_ms],
];

/**
 * Return the steps of two runs in pairs: the longest common sequence of kinds and names stands side by side.
 *
 * @param {any[]} left
 * @param {any[]} right as GET /v1/runs/{id}/steps returns them
 * @returns {Pair[]}
 */
export function pairedSteps(left, right) {
  const isPair = (/** @type {number} */ i, /** @type {number} */ j) => left[i].kind === right[j].kind && left[i].name === right[j].name;
  if (Math.max(left.length, right.length) > MOST_STEPS) return Array.from({ length: Math.max(left.length, right.length) }, (_, i) => pair(left[i] ?? null, right[i] ?? null));
  const lengths = commonLengths(left.length, right.length, isPair);
  /** @type {Pair[]} */
  const pairs = [];
  let i = 0, j = 0;
  while (i < left.length || j < right.length) {
    if (i < left.length && j < right.length && isPair(i, j)) pairs.push(pair(left[i++], right[j++]));
    else if (j >= right.length || (i < left.length && lengths[i + 1][j] >= lengths[i][j + 1])) pairs.push(pair(left[i++], null));
    else pairs.push(pair(null, right[j++]));
  }
  return pairs;
}

/** @type {(rows: number, columns: number, isPair: (i: number, j: number) => boolean) => Uint16Array[]} How many pairs there are behind each place. */
function commonLengths(rows, columns, isPair) {
  const lengths = Array.from({ length: rows + 1 }, () => new Uint16Array(columns + 1));
  for (let i = rows - 1; i >= 0; i -= 1) {
    for (let j = columns - 1; j >= 0; j -= 1) lengths[i][j] = isPair(i, j) ? lengths[i + 1][j + 1] + 1 : Math.max(lengths[i + 1][j], lengths[i][j + 1]);
  }
  return lengths;
}

// What a step did is the same where its state and what it returned are; its time never is.
/** @type {(left: any | null, right: any | null) => Pair} */
function pair(left, right) {
  const isSame = Boolean(left && right) && left.status === right.status && JSON.stringify(left.result ?? null) === JSON.stringify(right.result ?? null);
  return { left, right, isSame };
}
