// @ts-check
// Two runs beside each other: their facts, and their steps paired in order.

import { diffLines } from "./diff.js";

/** @typedef {{name: string, left: any, right: any, isSame: boolean}} Fact */
/** @typedef {{left: any | null, right: any | null, isSame: boolean}} Pair `null`: the other run alone has that step */

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
  ["workers lost", (run) => run.crashes?.length],
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
  const [before, after] = [left, right].map((steps) => steps.map(({ kind, name }) => JSON.stringify([kind, name])).join("\n"));
  let i = 0, j = 0;
  return diffLines(before, after).map(({ kind }) => pair(kind === "added" ? null : left[i++], kind === "removed" ? null : right[j++]));
}

// What a step did is the same where its state and what it returned are; its time never is.
/** @type {(left: any | null, right: any | null) => Pair} */
function pair(left, right) {
  const isSame = Boolean(left && right) && left.status === right.status && JSON.stringify(left.result ?? null) === JSON.stringify(right.result ?? null);
  return { left, right, isSame };
}
