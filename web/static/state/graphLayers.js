// Places units in layers from top to bottom, as Sugiyama, Tagawa and Toda do (1981). Pure: it makes no element, and the
// same graph gets the same places.
//
// Nodes have even ranks. The odd ranks between them hold the labels of edges, so that no two labels overlap.

import { orderAll } from "./graphOrder.js";
import { placeAcross, placeDown } from "./graphPlaces.js";

const LINE_WIDTH = 8;

/**
 * Give each unit its place: `x` is its middle, `y` its top. Return {levels, lines}.
 *
 * Units have {id, width, height} and, where edges do not meet them in their middle, `inX` and `exitX` from there. Edges
 * have {source, target, label: {width, height} or null}, and are without cycles. A line has its edge and the units it
 * passes: the `foot` of its source, one of its own in each level between, target. A level has {units, top, bottom}.
 *
 * A unit with a `span` is so many nodes higher than others, and stands in as many levels more, so that the levels beside it
 * are not as high as it is; where that would have a line run through it, it stands in one.
 */
export function placeInLayers(units, edges, maySpan = true) {
  const ranks = ranksOf(units, edges, maySpan);
  const levels = [];
  const levelOf = (rank) => (levels[rank] ??= { units: [] });
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
function addFoot(unit, maySpan) {
  const ranks = maySpan ? 2 * (unit.span ?? 0) : 0;
  const parts = Array.from({ length: ranks }, (_, i) => ({ rank: unit.rank + 1 + i, body: unit, above: [], below: [], width: unit.width, height: 0 }));
  const foot = parts.at(-1) ?? unit;
  connect([unit, ...parts]);
  Object.assign(unit, { parts, foot, outX: 0 });
  foot.outX = unit.exitX ?? 0;
}

// Its parts are below each other, and no line comes from one side of it to the other.
function isWhole(unit, levels) {
  return unit.parts.every((part, i) => {
    const over = unit.parts[i - 1] ?? unit;
    const isLeft = ({ at }) => at < over.at;
    const crossed = levels[over.rank].units.some((other) => other !== over && other.below.some((below) => (below.at < part.at) !== isLeft(other)));
    return part.x === unit.x && !crossed;
  });
}

function connect(path) {
  for (let i = 1; i < path.length; i += 1) {
    path[i - 1].below.push(path[i]);
    path[i].above.push(path[i - 1]);
  }
}

// The longest path from above; then down to what it leads to, where more edges leave a unit than reach it.
function ranksOf(units, edges, maySpan) {
  const into = groupBy(units, edges, "target");
  const out = groupBy(units, edges, "source");
  const ranks = new Map();
  const order = [];
  const step = (unit) => 2 + (maySpan ? 2 * (unit.span ?? 0) : 0);
  const visit = (unit) => {
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

function groupBy(units, edges, end) {
  const groups = new Map(units.map((unit) => [unit, []]));
  for (const edge of edges) groups.get(edge[end]).push(edge);
  return groups;
}

function lineOf(edge) {
  const path = [edge.source.foot];
  for (let rank = edge.source.foot.rank + 1; rank < edge.target.rank; rank += 1) {
    const label = path.length === 1 ? edge.label : null;
    path.push({ rank, isLine: true, above: [], below: [], width: label?.width ?? LINE_WIDTH, height: label?.height ?? 0 });
  }
  path.push(edge.target);
  connect(path);
  return { edge, path };
}

// In the order of the definition: what comes first stands on the left.
function inDepth(units) {
  const seen = new Set();
  const visit = (unit) => {
    if (seen.has(unit)) return;
    seen.add(unit);
    unit.below.forEach(visit);
  };
  units.filter((unit) => !unit.above.length).forEach(visit);
  return [...seen];
}
