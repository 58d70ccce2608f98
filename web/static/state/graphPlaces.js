// @ts-check
// The coordinates of units whose levels and order are known.

import { mean } from "./graphOrder.js";

/** @typedef {import("./graphOrder.js").Unit} Unit */
/** @typedef {import("./graphOrder.js").Level} Level */
/** @typedef {import("./graphOrder.js").Side} Side */
/** @typedef {{x: number, weight: number}} Wish Where a unit would stand best, and how much that counts. */
/** @typedef {{unit: Unit, shift: number}[]} Row Units that follow each other alone, each with its `shift` from the first. */

const GAP = 26;
const LINE_GAP = 14;
const LEVEL_GAP = 15;
const MOST_LEVEL_GAP = 44;
const PASSES = 60;
// Long edges are straight before short ones are, as Gansner, Koutsofios, North and Vo weigh them (1993); and so is what
// leads from one unit to one other.
const STRAIGHTNESS = [1, 2, 8];
const ALONE = 8;

/**
 * Give each unit of the levels its `x`, the place of its middle.
 *
 * Each level in turn comes as close to what it is connected with as its order lets it: the least squares of all edges.
 * Then what stands in a row, without forks and joins, is made straight.
 */
export function placeAcross(/** @type {Level[]} */ levels) {
  for (const level of levels) spread(level.units, level.units.map(() => 0), level.units.map(() => 1));
  for (let pass = 0; pass < PASSES; pass += 1) {
    const isDown = pass % 2 === 0;
    // The first pass of each direction looks back alone, so that what is far away counts as well.
    const sides = /** @type {Side[]} */ (pass === 0 ? ["above"] : pass === 1 ? ["below"] : ["above", "below"]);
    for (const { units } of isDown ? levels : [...levels].reverse()) {
      const wishes = units.map((unit) => wish(pulls(unit, sides)) ?? { x: unit.x, weight: 0.01 });
      spread(units, wishes.map(({ x }) => x), wishes.map(({ weight }) => weight));
    }
  }
  straighten(levels);
  for (const { units } of levels) for (const unit of units) unit.x = Math.round(unit.x);
}

/** @type {(unit: Unit, sides: Side[]) => (Wish & {other: Unit})[]} */
function pulls(unit, sides) {
  return sides.flatMap((side) => unit[side].map((other) => pull(unit, other, side)));
}

/** @type {(unit: Unit, other: Unit, side: Side) => Wish & {other: Unit}} */
function pull(unit, other, side) {
  const [leaves, meets] = side === "above" ? [other, unit] : [unit, other];
  const shift = side === "above" ? bend(leaves, meets) : -bend(leaves, meets);
  return { other, x: other.x + shift, weight: isAlone(leaves, meets) ? ALONE : STRAIGHTNESS[Number(Boolean(unit.isLine)) + Number(Boolean(other.isLine))] };
}

/** @type {(leaves: Unit, meets: Unit) => boolean} */
function isAlone(leaves, meets) {
  return leaves.below.length === 1 && meets.above.length === 1;
}

// How far the middle of what an edge reaches lies to the right of the middle of what it leaves, where it is straight.
/** @type {(leaves: Unit, meets: Unit) => number} */
function bend(leaves, meets) {
  return (leaves.outX ?? 0) - (meets.inX ?? 0);
}

/** @type {(own: Wish[]) => Wish | null} */
function wish(own) {
  const weight = own.reduce((sum, each) => sum + each.weight, 0);
  return weight ? { x: own.reduce((sum, each) => sum + each.x * each.weight, 0) / weight, weight } : null;
}

/** @type {(units: Unit[], wanted: number[], weights: number[]) => void} Gives each unit the `x` nearest to the one it wants that keeps the distances: isotonic regression by pooling. */
function spread(units, wanted, weights) {
  const /** @type {{sum: number, weight: number, members: [Unit, number][]}[]} */ blocks = [];
  let offset = 0;
  units.forEach((unit, i) => {
    offset += i ? distance(units[i - 1], unit) : 0;
    /** @type {typeof blocks[number]} */
    let block = { sum: (wanted[i] - offset) * weights[i], weight: weights[i], members: [[unit, offset]] };
    for (let last = blocks.at(-1); last && last.sum / last.weight >= block.sum / block.weight; last = blocks.at(-1)) {
      block = { sum: last.sum + block.sum, weight: last.weight + block.weight, members: [...last.members, ...block.members] };
      blocks.pop();
    }
    blocks.push(block);
  });
  for (const { sum, weight, members } of blocks) for (const [unit, shift] of members) unit.x = sum / weight + shift;
}

/** @type {(left: Unit, right: Unit) => number} */
function distance(left, right) {
  return Math.ceil((left.width + right.width) / 2) + (left.isLine || right.isLine ? LINE_GAP : GAP);
}

function straighten(/** @type {Level[]} */ levels) {
  const rows = aligned(rowsOf(levels), levels);
  for (let pass = 0; pass < PASSES; pass += 1) {
    for (const row of rows) {
      const own = row.flatMap(({ unit, shift }) => pulls(unit, ["above", "below"]).filter(({ other }) => !row.some((each) => each.unit === other)).map(({ x, weight }) => ({ x: x - shift, weight })));
      const { x } = wish(own) ?? {};
      if (x !== undefined) move(row, x, levels);
    }
  }
}

// The longest rows first.
function rowsOf(/** @type {Level[]} */ levels) {
  const /** @type {Row[]} */ rows = [];
  const isNext = (/** @type {Unit} */ unit) => unit.above.length === 1 && isAlone(unit.above[0], unit);
  for (const first of levels.flatMap(({ units }) => units).filter((unit) => !isNext(unit))) {
    const row = [{ unit: first, shift: 0 }];
    for (let unit = first, shift = 0; unit.below.length && isNext(unit.below[0]); unit = unit.below[0]) row.push({ unit: unit.below[0], shift: shift += bend(unit, unit.below[0]) });
    rows.push(row);
  }
  return rows.sort((a, b) => b.length - a.length);
}

// Rows that have no room to be straight are tried again when others have moved; those that still have none become two.
/** @type {(rows: Row[], levels: Level[]) => Row[]} */
function aligned(rows, levels) {
  const /** @type {Row[]} */ straight = [];
  let bent = rows;
  for (let before = Infinity; bent.length < before;) {
    before = bent.length;
    bent = bent.filter((row) => !(move(row, middleOf(row), levels) && straight.push(row)));
  }
  const halves = bent.flatMap((row) => [row.slice(0, Math.ceil(row.length / 2)), row.slice(Math.ceil(row.length / 2))]);
  return halves.length ? [...straight, ...aligned(halves, levels)] : straight;
}

function middleOf(/** @type {Row} */ row) {
  return mean(row.map(({ unit, shift }) => unit.x - shift));
}

/** @type {(row: Row, x: number, levels: Level[]) => boolean} Moves a row as near to `x` as its neighbours let it; returns false where they do not let it be straight. */
function move(row, x, levels) {
  let [least, most] = [-Infinity, Infinity];
  for (const { unit, shift } of row) {
    const { units } = levels[unit.rank];
    const [left, right] = [units[unit.at - 1], units[unit.at + 1]];
    if (left) least = Math.max(least, left.x + distance(left, unit) - shift);
    if (right) most = Math.min(most, right.x - distance(unit, right) - shift);
  }
  if (least > most + 1e-6) return false;
  const to = Math.min(most, Math.max(least, x));
  for (const { unit, shift } of row) unit.x = to + shift;
  return true;
}

/** Give each unit its `y`, and each level its top and bottom: where lines go far to the side they get more height, so that they do not run flat. */
export function placeDown(/** @type {Level[]} */ levels) {
  let top = 0;
  levels.forEach((level, i) => {
    for (const part of level.units) if (part.body?.foot === part) part.height = Math.max(0, part.body.y + part.body.height - top);
    const height = Math.max(0, ...level.units.map((unit) => (unit.parts?.length ? 0 : unit.height)));
    Object.assign(level, { top, bottom: top + height });
    for (const unit of level.units) unit.y = top + (unit.isLine ? 0 : Math.max(0, Math.min(6, (height - unit.height) / 2)));
    const far = Math.max(0, ...level.units.flatMap((unit) => unit.below.map((other) => Math.abs(other.x - unit.x - bend(unit, other)))));
    top = level.bottom + (i < levels.length - 1 ? Math.min(MOST_LEVEL_GAP, LEVEL_GAP + Math.round(far / 12)) : 0);
  });
}
