// @ts-check
// What the calls of a run used: tokens, cost and speed of each, and their sums.

/**
 * @typedef {{number: number, name: string, attempt: number, read: number, written: number, cached: number, cost: number | undefined, firstMs: number | undefined, ms: number | undefined, speed: number | undefined}} Use
 * `firstMs` until the first token; `speed` in tokens a second, from the first token on
 */

/**
 * Return what each call of a model used, in their order.
 *
 * @param {any[]} rows of the timeline
 * @returns {Use[]}
 */
export function usesOf(rows) {
  return rows.filter(({ kind, isCut }) => !isCut && (kind === "model" || kind === "sample")).map((row) => {
    const { input_tokens: read = 0, output_tokens: written = 0, cached_tokens: cached = 0 } = row.usage ?? {};
    const first = row.parts?.thinkFrom ?? row.parts?.writeFrom;
    return { number: row.number, name: row.name, attempt: row.attempt ?? 1, read, written, cached, cost: row.cost_usd, firstMs: first === undefined ? undefined : Math.max(0, first - row.from), ms: row.to === null ? undefined : row.to - row.from, speed: speedOf(row, first, written) };
  });
}

/** Below this many milliseconds of text a speed says nothing. */
const LEAST_MS = 50;

/** @type {(row: any, first: number | undefined, written: number) => number | undefined} */
function speedOf(row, first, written) {
  const to = row.parts?.writeTo ?? row.parts?.thinkTo;
  if (first === undefined || to === undefined || to - first < LEAST_MS || !written) return undefined;
  return (written * 1000) / (to - first);
}

/**
 * Return the sums of some calls; a cost that is not known of one is not known of all.
 *
 * @param {Use[]} uses
 */
export function totalsOf(uses) {
  const sum = (/** @type {(use: Use) => number | undefined} */ part) => uses.reduce((total, use) => total + (part(use) ?? 0), 0);
  const isKnown = uses.length > 0 && uses.every(({ cost }) => cost !== undefined);
  return { read: sum(({ read }) => read), written: sum(({ written }) => written), cached: sum(({ cached }) => cached), cost: isKnown ? sum(({ cost }) => cost) : undefined, ms: sum(({ ms }) => ms) };
}
