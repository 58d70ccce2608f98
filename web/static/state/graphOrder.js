// @ts-check
// The order of the units within each level: with few crossings of the lines between them.

/**
 * @typedef {{width: number, height: number, x: number, y: number, rank: number, at: number, above: Unit[], below: Unit[], isLine?: boolean, body?: import("./graphLayers.js").Box, parts?: Unit[], inX?: number, outX?: number}} Unit
 * What stands in a level, the `at`-th in it: a box, a part of a box that reaches over several levels, which has it as its `body`, or
 * what a line passes. `x` is its middle, `y` its top; `above` and `below` are those that lines lead from and to.
 */
/** @typedef {{units: Unit[], top: number, bottom: number}} Level */
/** @typedef {"above" | "below"} Side */
/** @template K, V @typedef {{get: (key: K) => V} & Map<K, V>} Whole A map that has each key it is asked for. */

const SWEEPS = 12;

/** Number the units of each level by their `at`, in an order that has few crossings. */
export function orderAll(/** @type {Level[]} */ levels) {
  levels.forEach(number);
  let best = levels.map(({ units }) => units);
  let fewest = crossings(levels);
  for (let sweep = 0; sweep < SWEEPS && fewest; sweep += 1) {
    const isDown = sweep % 2 === 0;
    for (const level of isDown ? levels : [...levels].reverse()) sortByMiddle(level, isDown ? "above" : "below");
    const crossed = crossings(levels);
    if (crossed >= fewest) continue;
    fewest = crossed;
    best = levels.map(({ units }) => units);
  }
  levels.forEach((level, i) => {
    level.units = best[i];
    number(level);
  });
}

function number(/** @type {Level} */ { units }) {
  units.forEach((unit, i) => { unit.at = i; });
}

/** @type {(level: Level, side: Side) => void} */
function sortByMiddle(level, side) {
  const middle = /** @type {Whole<Unit, number>} */ (new Map(level.units.map((unit) => [unit, unit[side].length ? mean(unit[side].map(({ at }) => at)) : unit.at])));
  level.units = [...level.units].sort((a, b) => middle.get(a) - middle.get(b) || a.at - b.at);
  number(level);
}

function crossings(/** @type {Level[]} */ levels) {
  let count = 0;
  for (const { units } of levels) {
    const ends = units.flatMap((unit) => unit.below.map(({ at }) => at).sort((a, b) => a - b));
    for (let i = 0; i < ends.length; i += 1) for (let j = i + 1; j < ends.length; j += 1) count += ends[i] > ends[j] ? 1 : 0;
  }
  return count;
}

/** Return the mean of some numbers. */
export function mean(/** @type {number[]} */ numbers) {
  return numbers.reduce((sum, each) => sum + each, 0) / numbers.length;
}
