// @ts-check
// Places units in layers from top to bottom, as Sugiyama, Tagawa and Toda do (1981). Pure: it makes no element, and the
// same graph gets the same places.
//
// Nodes have even ranks. The odd ranks between them hold the labels of edges, so that no two labels overlap.

import { orderAll } from "./graphOrder.js";
import { placeAcross, placeDown } from "./graphPlaces.js";

/** @typedef {import("./graphOrder.js").Unit} Unit */
/** @typedef {import("./graphOrder.js").Level} Level */
/** @template K, V @typedef {import("./graphOrder.js").Whole<K, V>} Whole */
/**
 * @typedef {{id: string, width: number, height: number, inX?: number, exitX?: number, span?: number, inside?: import("./graphGroups.js").Group}} Sized
 * A node or a frame before it has a place, with `inX` and `exitX` where edges do not meet it in its middle, from there.
 */
/** @typedef {Sized & Unit & {parts: Unit[], foot: Unit}} Box A node or a frame in its place; edges leave it from its `foot`. */
/** @typedef {{source: Box, target: Box, label: {width: number, height: number} | null}} Edge */
/** @template {Edge} E @typedef {{edge: E, path: Unit[]}} Line An edge and the units that it passes: the foot of its source, one of its own in each level between, its target. */

const LINE_WIDTH = 8;

/**
 * Give each unit, which has come as `Sized`, its place. Return {levels, lines}.
 *
 * The edges are without cycles. A unit with a `span` is so many nodes higher than others, and stands in as many levels more,
 * so that the levels beside it are not as high as it is; where that would have a line run through it, it stands in one.
 *
 * @template {Edge} E
 * @param {Box[]} units
 * @param {E[]} edges
 * @param {boolean} [maySpan]
 * @returns {{levels: Level[], lines: Line<E>[]}}
 */
export function placeInLayers(units, edges, maySpan = true) {
  const ranks = ranksOf(units, edges, maySpan);
  const /** @type {Level[]} */ levels = [];
  const levelOf = (/** @type {number} */ rank) => (levels[rank] ??= { units: [], top: 0, bottom: 0 });
  for (const unit of units) Object.assign(unit, { above: [], below: [], rank: ranks.get(unit) });
  for (const unit of units) addFoot(unit, maySpan);
  const lines = edges.map((edge) => lineOf(edge));
  for (let rank = Math.max(...units.map(({ foot }) => foot.rank)); rank >= 0; rank -= 1) levelOf(rank);
  for (const unit of inDepth(units)) levelOf(unit.rank).units.push(unit);
  orderAll(levels);
  placeAcross(levels);
  if (!units.every((unit) => isWhole(unit, levels))) return placeInLayers(units, edges, false);
  placeDown(levels);
  return { levels, lines };
}

// What stands for the unit in each level that it reaches into; edges leave it from the last one.
/** @type {(unit: Box, maySpan: boolean) => void} */
function addFoot(unit, maySpan) {
  const ranks = maySpan ? 2 * (unit.span ?? 0) : 0;
  const parts = Array.from({ length: ranks }, (_, i) => unitIn(unit.rank + 1 + i, unit.width, 0, { body: unit }));
  const foot = parts.at(-1) ?? unit;
  connect([unit, ...parts]);
  Object.assign(unit, { parts, foot, outX: 0 });
  foot.outX = unit.exitX ?? 0;
}

/** @type {(rank: number, width: number, height: number, more: Partial<Unit>) => Unit} */
function unitIn(rank, width, height, more) {
  return { rank, width, height, x: 0, y: 0, at: 0, above: [], below: [], ...more };
}

// Its parts are below each other, and no line comes from one side of it to the other.
/** @type {(unit: Box, levels: Level[]) => boolean} */
function isWhole(unit, levels) {
  return unit.parts.every((part, i) => {
    const over = unit.parts[i - 1] ?? unit;
    const isLeft = (/** @type {Unit} */ { at }) => at < over.at;
    const crossed = levels[over.rank].units.some((other) => other !== over && other.below.some((below) => (below.at < part.at) !== isLeft(other)));
    return part.x === unit.x && !crossed;
  });
}

function connect(/** @type {Unit[]} */ path) {
  for (let i = 1; i < path.length; i += 1) {
    path[i - 1].below.push(path[i]);
    path[i].above.push(path[i - 1]);
  }
}

// The longest path from above; then down to what it leads to, where more edges leave a unit than reach it.
/** @type {(units: Box[], edges: Edge[], maySpan: boolean) => Whole<Box, number>} */
function ranksOf(units, edges, maySpan) {
  const into = groupBy(units, edges, "target");
  const out = groupBy(units, edges, "source");
  const /** @type {Whole<Box, number>} */ ranks = new Map();
  const /** @type {Box[]} */ order = [];
  const step = (/** @type {Box} */ unit) => 2 + (maySpan ? 2 * (unit.span ?? 0) : 0);
  const visit = (/** @type {Box} */ unit) => {
    if (ranks.has(unit)) return;
    ranks.set(unit, 0);
    for (const { source } of into.get(unit)) visit(source);
    ranks.set(unit, Math.max(0, ...into.get(unit).map(({ source }) => ranks.get(source) + step(source))));
    order.push(unit);
  };
  units.forEach(visit);
  for (const unit of order.reverse()) {
    const following = out.get(unit);
    if (following.length > into.get(unit).length) ranks.set(unit, Math.min(...following.map(({ target }) => ranks.get(target) - step(unit))));
  }
  return ranks;
}

/** @type {(units: Box[], edges: Edge[], end: "source" | "target") => Whole<Box, Edge[]>} */
function groupBy(units, edges, end) {
  const groups = /** @type {Whole<Box, Edge[]>} */ (new Map(units.map((unit) => [unit, []])));
  for (const edge of edges) groups.get(edge[end]).push(edge);
  return groups;
}

/** @type {<E extends Edge>(edge: E) => Line<E>} */
function lineOf(edge) {
  const path = [edge.source.foot];
  for (let rank = edge.source.foot.rank + 1; rank < edge.target.rank; rank += 1) {
    const label = path.length === 1 ? edge.label : null;
    path.push(unitIn(rank, label?.width ?? LINE_WIDTH, label?.height ?? 0, { isLine: true }));
  }
  path.push(edge.target);
  connect(path);
  return { edge, path };
}

// In the order of the definition: what comes first stands on the left.
function inDepth(/** @type {Unit[]} */ units) {
  const /** @type {Set<Unit>} */ seen = new Set();
  const visit = (/** @type {Unit} */ unit) => {
    if (seen.has(unit)) return;
    seen.add(unit);
    unit.below.forEach(visit);
  };
  units.filter((unit) => !unit.above.length).forEach(visit);
  return [...seen];
}
