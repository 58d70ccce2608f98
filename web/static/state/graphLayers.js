// Places units in layers from top to bottom, as Sugiyama, Tagawa and Toda do (1981). Pure: it makes no element, and the
// same graph gets the same places.
//
// Nodes have even ranks. The odd ranks between them hold the labels of edges, so that no two labels overlap.

const GAP = 26;
const LINE_GAP = 14;
const LINE_WIDTH = 8;
const LEVEL_GAP = 15;
const MOST_LEVEL_GAP = 44;
const SWEEPS = 12;
const PASSES = 60;
// Long edges are straight before short ones are, as Gansner, Koutsofios, North and Vo weigh them (1993); and so is what
// leads from one unit to one other.
const STRAIGHTNESS = [1, 2, 8];
const ALONE = 8;

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

// --- the order within each level ---------------------------------------------------------------------------

function orderAll(levels) {
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

function number({ units }) {
  units.forEach((unit, i) => { unit.at = i; });
}

function sortByMiddle(level, side) {
  const middle = new Map(level.units.map((unit) => [unit, unit[side].length ? mean(unit[side].map(({ at }) => at)) : unit.at]));
  level.units = [...level.units].sort((a, b) => middle.get(a) - middle.get(b) || a.at - b.at);
  number(level);
}

function crossings(levels) {
  let count = 0;
  for (const { units } of levels) {
    const ends = units.flatMap((unit) => unit.below.map(({ at }) => at).sort((a, b) => a - b));
    for (let i = 0; i < ends.length; i += 1) for (let j = i + 1; j < ends.length; j += 1) count += ends[i] > ends[j] ? 1 : 0;
  }
  return count;
}

// --- coordinates -------------------------------------------------------------------------------------------

// Each level in turn comes as close to what it is connected with as its order lets it: the least squares of all edges.
// Then what stands in a row, without forks and joins, is made straight.
function placeAcross(levels) {
  for (const level of levels) spread(level.units, level.units.map(() => 0), level.units.map(() => 1));
  for (let pass = 0; pass < PASSES; pass += 1) {
    const isDown = pass % 2 === 0;
    // The first pass of each direction looks back alone, so that what is far away counts as well.
    const sides = pass === 0 ? ["above"] : pass === 1 ? ["below"] : ["above", "below"];
    for (const { units } of isDown ? levels : [...levels].reverse()) {
      const wishes = units.map((unit) => wish(pulls(unit, sides)) ?? { x: unit.x, weight: 0.01 });
      spread(units, wishes.map(({ x }) => x), wishes.map(({ weight }) => weight));
    }
  }
  straighten(levels);
  for (const { units } of levels) for (const unit of units) unit.x = Math.round(unit.x);
}

function pulls(unit, sides) {
  return sides.flatMap((side) => unit[side].map((other) => pull(unit, other, side)));
}

function pull(unit, other, side) {
  const [leaves, meets] = side === "above" ? [other, unit] : [unit, other];
  const shift = side === "above" ? bend(leaves, meets) : -bend(leaves, meets);
  return { other, x: other.x + shift, weight: isAlone(leaves, meets) ? ALONE : STRAIGHTNESS[Number(Boolean(unit.isLine)) + Number(Boolean(other.isLine))] };
}

function isAlone(leaves, meets) {
  return leaves.below.length === 1 && meets.above.length === 1;
}

// How far the middle of what an edge reaches lies to the right of the middle of what it leaves, where it is straight.
function bend(leaves, meets) {
  return (leaves.outX ?? 0) - (meets.inX ?? 0);
}

function wish(own) {
  const weight = own.reduce((sum, each) => sum + each.weight, 0);
  return weight ? { x: own.reduce((sum, each) => sum + each.x * each.weight, 0) / weight, weight } : null;
}

/** Give each unit the `x` nearest to the one it wants that keeps the distances: isotonic regression by pooling. */
function spread(units, wanted, weights) {
  const blocks = [];
  let offset = 0;
  units.forEach((unit, i) => {
    offset += i ? distance(units[i - 1], unit) : 0;
    let block = { sum: (wanted[i] - offset) * weights[i], weight: weights[i], members: [[unit, offset]] };
    while (blocks.length && blocks.at(-1).sum / blocks.at(-1).weight >= block.sum / block.weight) {
      const { sum, weight, members } = blocks.pop();
      block = { sum: sum + block.sum, weight: weight + block.weight, members: [...members, ...block.members] };
    }
    blocks.push(block);
  });
  for (const { sum, weight, members } of blocks) for (const [unit, shift] of members) unit.x = sum / weight + shift;
}

function distance(left, right) {
  return Math.ceil((left.width + right.width) / 2) + (left.isLine || right.isLine ? LINE_GAP : GAP);
}

function straighten(levels) {
  const rows = aligned(rowsOf(levels), levels);
  for (let pass = 0; pass < PASSES; pass += 1) {
    for (const row of rows) {
      const own = row.flatMap(({ unit, shift }) => pulls(unit, ["above", "below"]).filter(({ other }) => !row.some((each) => each.unit === other)).map(({ x, weight }) => ({ x: x - shift, weight })));
      const { x } = wish(own) ?? {};
      if (x !== undefined) move(row, x, levels);
    }
  }
}

// The longest rows of units that follow each other alone, each with its `shift` from the first.
function rowsOf(levels) {
  const rows = [];
  const isNext = (unit) => unit.above.length === 1 && isAlone(unit.above[0], unit);
  for (const first of levels.flatMap(({ units }) => units).filter((unit) => !isNext(unit))) {
    const row = [{ unit: first, shift: 0 }];
    for (let unit = first; unit.below.length && isNext(unit.below[0]); unit = unit.below[0]) row.push({ unit: unit.below[0], shift: row.at(-1).shift + bend(unit, unit.below[0]) });
    rows.push(row);
  }
  return rows.sort((a, b) => b.length - a.length);
}

// Rows that have no room to be straight are tried again when others have moved; those that still have none become two.
function aligned(rows, levels) {
  const straight = [];
  let bent = rows;
  for (let before = Infinity; bent.length < before;) {
    before = bent.length;
    bent = bent.filter((row) => !(move(row, middleOf(row), levels) && straight.push(row)));
  }
  const halves = bent.flatMap((row) => [row.slice(0, Math.ceil(row.length / 2)), row.slice(Math.ceil(row.length / 2))]);
  return halves.length ? [...straight, ...aligned(halves, levels)] : straight;
}

function middleOf(row) {
  return mean(row.map(({ unit, shift }) => unit.x - shift));
}

/** Move a row as near to `x` as its neighbours let it; returns false where they do not let it be straight. */
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

// Where lines go far to the side they get more height, so that they do not run flat.
function placeDown(levels) {
  let top = 0;
  levels.forEach((level, i) => {
    for (const part of level.units.filter((unit) => unit.body?.foot === unit)) part.height = Math.max(0, part.body.y + part.body.height - top);
    const height = Math.max(0, ...level.units.map((unit) => (unit.parts?.length ? 0 : unit.height)));
    Object.assign(level, { top, bottom: top + height });
    for (const unit of level.units) unit.y = top + (unit.isLine ? 0 : Math.max(0, Math.min(6, (height - unit.height) / 2)));
    const far = Math.max(0, ...level.units.flatMap((unit) => unit.below.map((other) => Math.abs(other.x - unit.x - bend(unit, other)))));
    top = level.bottom + (i < levels.length - 1 ? Math.min(MOST_LEVEL_GAP, LEVEL_GAP + Math.round(far / 12)) : 0);
  });
}

function mean(numbers) {
  return numbers.reduce((sum, each) => sum + each, 0) / numbers.length;
}
