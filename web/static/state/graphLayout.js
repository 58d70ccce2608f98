// @ts-check
// Where each node and edge of a workflow is drawn. Pure: it makes no element, and the same workflow gets the same places.

import { LANE, PADDING, bodiesOf, boxOf, chainsOf, placeGroup } from "./graphGroups.js";

/** @typedef {import("./graphGroups.js").Group} Group */
/** @typedef {import("./graphGroups.js").GroupEdge} GroupEdge */
/** @typedef {import("./graphGroups.js").JoinedEdge} JoinedEdge */
/** @typedef {{id: string, x: number, y: number, width: number, height: number}} Place Of a node or a frame: its left, its top and its size. */
/** @typedef {[x: number, y: number]} Point */
/** @typedef {JoinedEdge & {points: Point[], isBack: boolean, label?: {text: string, width: number, x: number, y: number}}} DrawnEdge */
/** @typedef {{nodes: Place[], frames: Place[], edges: DrawnEdge[]}} Drawn */
/** @typedef {Drawn & {width: number, height: number}} Drawing */

const MARGIN = 12;

/**
 * Return where the nodes and edges of a workflow are drawn.
 *
 * A frame is named by its FOR_EACH and holds it with its body. Edges between the same two nodes are one, with a label where
 * a handle names them. Points of an edge that leads on are connected by curves, those of one that leads back by lines.
 *
 * @param {import("./graphGroups.js").Workflow} workflow
 * @returns {Drawing}
 */
export function layout({ nodes, edges }) {
  const known = new Map(nodes.map((node) => [node.id, node]));
  const joined = join(edges.filter(({ source, target }) => known.has(source) && known.has(target) && source !== target));
  const bodies = bodiesOf(nodes, edges);
  const drawn = /** @type {Drawn} */ ({ nodes: [], frames: [], edges: [] });
  const whole = placeGroup(chainsOf(nodes, joined, bodies), null);
  const { width, height } = draw(whole, MARGIN, MARGIN, drawn);
  const order = /** @type {import("./graphOrder.js").Whole<string, number>} */ (new Map(nodes.map(({ id }, i) => [id, i])));
  drawn.nodes.sort((a, b) => order.get(a.id) - order.get(b.id));
  return { width: width + 2 * MARGIN, height: height + 2 * MARGIN, ...drawn };
}

function join(/** @type {import("./graphGroups.js").WorkflowEdge[]} */ edges) {
  const /** @type {import("./graphOrder.js").Whole<string, JoinedEdge>} */ joined = new Map();
  for (const { source, target, source_handle: handle } of edges) {
    const key = JSON.stringify([source, target]);
    if (!joined.has(key)) joined.set(key, { source, target, handles: [] });
    if (handle) joined.get(key).handles.push(handle);
  }
  return [...joined.values()];
}

// From places within a group to places in the whole.
/** @type {(group: Group, left: number, top: number, drawn: Drawn) => {width: number, height: number}} */
function draw(group, left, top, drawn) {
  const box = boxOf(group);
  const shift = { x: left - box.left, y: top };
  for (const unit of group.units) {
    const place = { x: Math.round(shift.x + unit.x - unit.width / 2), y: Math.round(shift.y + unit.y), width: unit.width, height: unit.height };
    if (!unit.inside) {
      drawn.nodes.push({ id: unit.id, ...place });
      continue;
    }
    drawn.frames.push({ id: unit.id, ...place });
    draw(unit.inside, place.x + PADDING, place.y + PADDING, drawn);
  }
  for (const line of group.lines) drawn.edges.push(edgeOf(line, group, shift));
  for (const edge of group.back) drawn.edges.push(backEdgeOf(edge, box.right + LANE * (box.lanes.indexOf(edge.target) + 1), group, shift));
  return { width: box.width, height: box.bottom };
}

/** @type {(line: import("./graphLayers.js").Line<GroupEdge>, group: Group, shift: {x: number, y: number}) => DrawnEdge} */
function edgeOf({ edge: { edge, source, target, label }, path }, { levels }, shift) {
  const /** @type {Point[]} */ points = [];
  const add = (/** @type {number} */ x, /** @type {number} */ y) => {
    const point = /** @type {Point} */ ([Math.round(x + shift.x), Math.round(y + shift.y)]);
    if (points.at(-1)?.join() !== point.join()) points.push(point);
  };
  add(source.x + (source.exitX ?? 0), source.y + source.height);
  add(source.x + (source.exitX ?? 0), levels[source.foot.rank].bottom);
  for (const { x, rank, height } of path.slice(1, -1)) {
    if (rank % 2 && !height) continue; // one curve from level to level
    add(x, levels[rank].top);
    add(x, levels[rank].bottom);
  }
  add(target.x + (target.inX ?? 0), levels[target.rank].top);
  add(target.x + (target.inX ?? 0), target.y + (target.inside && edge.target === target.id ? PADDING : 0));
  const chip = label && { text: label.text, width: label.width, x: Math.round(path[1].x + shift.x), y: Math.round((levels[path[1].rank].top + levels[path[1].rank].bottom) / 2 + shift.y) };
  return { ...edge, points, isBack: false, ...(chip ? { label: chip } : {}) };
}

// From below the source to a lane on the right, up, and in from the side.
/** @type {(edge: GroupEdge, lane: number, group: Group, shift: {x: number, y: number}) => DrawnEdge} */
function backEdgeOf({ edge, source, target }, lane, { levels }, shift) {
  const below = levels[source.foot.rank].bottom + PADDING / 2 + 1;
  const into = target.y + target.height / 2;
  const points = [[source.x, source.y + source.height], [source.x, below], [lane, below], [lane, into], [target.x + target.width / 2, into]];
  return { ...edge, points: points.map(([x, y]) => [Math.round(x + shift.x), Math.round(y + shift.y)]), isBack: true };
}
