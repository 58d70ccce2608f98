// Where each node and edge of a workflow is drawn. Pure: it makes no element, and the same workflow gets the same places.

import { placeInLayers } from "./graphLayers.js";

const NODE_HEIGHT = 46;
const END_HEIGHT = 32;
const LEVEL_HEIGHT = 92;
const NARROWEST = 168;
const WIDEST = 246;
/** The share of nodes that have one width, so that they stand below each other. */
const ALIKE = 0.85;
const ICONS_WIDTH = 72;
const CHAR_WIDTH = 7.3;
const LABEL_CHAR_WIDTH = 6.4;
const LABEL_HEIGHT = 18;
const MOST_LABEL_CHARS = 28;
const MARGIN = 12;
const PADDING = 16;
const LANE = 18;

/**
 * Return {width, height, nodes, frames, edges} for the nodes and edges of a workflow.
 *
 * Nodes and frames are {id, x, y, width, height}; a frame is named by its FOR_EACH and holds it with its body. Edges are
 * {source, target, handles, points, isBack} and, where a handle names them, {label: {text, x, y, width}}: edges between the
 * same two nodes are one. Points of an edge that leads on are connected by curves, those of one that leads back by lines.
 */
export function layout({ nodes, edges }) {
  const known = new Map(nodes.map((node) => [node.id, node]));
  const joined = join(edges.filter(({ source, target }) => known.has(source) && known.has(target) && source !== target));
  const bodies = bodiesOf(nodes, edges);
  const drawn = { nodes: [], frames: [], edges: [] };
  const whole = placeGroup(groupsOf(nodes, joined, bodies), null);
  const { width, height } = draw(whole, MARGIN, MARGIN, drawn);
  const order = new Map(nodes.map(({ id }, i) => [id, i]));
  drawn.nodes.sort((a, b) => order.get(a.id) - order.get(b.id));
  return { width: width + 2 * MARGIN, height: height + 2 * MARGIN, ...drawn };
}

/** Return the ids of each body by its FOR_EACH: what `foreach-body` leads to, without what comes behind the FOR_EACH. */
export function bodiesOf(nodes, edges) {
  const following = new Map(nodes.map(({ id }) => [id, []]));
  for (const edge of edges) following.get(edge.source)?.push(edge);
  const reach = (start, isEntry) => {
    const seen = new Set();
    const queue = following.get(start).filter((edge) => (edge.source_handle === "foreach-body") === isEntry).map(({ target }) => target);
    for (const id of queue) {
      if (id === start || seen.has(id) || !following.has(id)) continue;
      seen.add(id);
      queue.push(...following.get(id).map(({ target }) => target));
    }
    return seen;
  };
  const loops = nodes.filter(({ id }) => following.get(id).some((edge) => edge.source_handle === "foreach-body"));
  return new Map(loops.map(({ id }) => {
    const behind = reach(id, false);
    return [id, new Set([...reach(id, true)].filter((each) => !behind.has(each)))];
  }));
}

function join(edges) {
  const joined = new Map();
  for (const { source, target, source_handle: handle } of edges) {
    const key = JSON.stringify([source, target]);
    if (!joined.has(key)) joined.set(key, { source, target, handles: [] });
    if (handle) joined.get(key).handles.push(handle);
  }
  return [...joined.values()];
}

// --- groups: the whole, and within it each FOR_EACH with its body ------------------------------------------

function groupsOf(nodes, edges, bodies) {
  const bySize = [...bodies].sort((a, b) => a[1].size - b[1].size);
  const outer = (id, least) => bySize.find(([loop, body]) => loop !== id && body.size > least && body.has(id))?.[0] ?? null;
  // From the whole to the node: the loops that it stands in, then itself.
  const chains = new Map(nodes.map(({ id }) => {
    const chain = [id];
    for (let loop = bodies.has(id) ? id : outer(id, 0); loop; loop = outer(loop, bodies.get(loop).size)) chain.unshift(`frame:${loop}`);
    return [id, chain];
  }));
  return { nodes, edges, chains, sizes: sizesOf(nodes) };
}

function placeGroup(groups, loop) {
  const isHere = (chain) => loop === null || chain.includes(`frame:${loop}`);
  const depthOf = (chain) => (loop === null ? 0 : chain.indexOf(`frame:${loop}`) + 1);
  const units = new Map();
  for (const node of groups.nodes) {
    const chain = groups.chains.get(node.id);
    if (!isHere(chain)) continue;
    const id = chain[depthOf(chain)];
    if (!units.has(id)) units.set(id, id === node.id ? { id, ...groups.sizes.get(id) } : frameOf(groups, id));
  }
  const edges = groups.edges.map((edge) => lifted(edge, groups.chains, units, depthOf)).filter(Boolean);
  const { leading, back } = withoutCycles([...units.values()], edges, units.get(loop));
  const { levels, lines } = units.size ? placeInLayers([...units.values()], leading) : { levels: [], lines: [] };
  return { units: [...units.values()], levels, lines, back, head: units.get(loop) };
}

// The edge belongs to the innermost group that has both of its ends.
function lifted(edge, chains, units, depthOf) {
  const [source, target] = [chains.get(edge.source), chains.get(edge.target)];
  const depth = depthOf(source);
  if (depth !== depthOf(target) || source.slice(0, depth).join() !== target.slice(0, depth).join()) return null;
  const ends = { source: units.get(source[depth]), target: units.get(target[depth]) };
  return ends.source && ends.target && ends.source !== ends.target ? { ...ends, edge, label: labelOf(edge.handles) } : null;
}

function frameOf(groups, id) {
  const inside = placeGroup(groups, id.slice("frame:".length));
  const box = boxOf(inside);
  const lanes = lanesOf(inside);
  const width = 2 * Math.ceil((box.right - box.left + 2 * PADDING + lanes) / 2);
  const x = Math.round(inside.head.x - box.left + PADDING - width / 2);
  const height = box.bottom + 2 * PADDING;
  return { id, inside, width, height, inX: x, exitX: x, span: Math.floor((height - NODE_HEIGHT) / LEVEL_HEIGHT) };
}

// What a depth-first search meets again on its way leads back; what leads to the group's FOR_EACH does so by its meaning.
function withoutCycles(units, edges, head) {
  const back = new Set(edges.filter(({ target }) => target === head));
  const state = new Map();
  const visit = (unit) => {
    state.set(unit, "open");
    for (const edge of edges) {
      if (edge.source !== unit || back.has(edge)) continue;
      if (state.get(edge.target) === "open") back.add(edge);
      else if (!state.has(edge.target)) visit(edge.target);
    }
    state.set(unit, "closed");
  };
  for (const unit of units) if (!state.has(unit)) visit(unit);
  return { leading: edges.filter((edge) => !back.has(edge)), back: [...back] };
}

function sizesOf(nodes) {
  const widths = nodes.map(({ id, name = id, label = name }) => Math.min(WIDEST, 2 * Math.ceil((ICONS_WIDTH + CHAR_WIDTH * label.length) / 2)));
  const common = Math.max(NARROWEST, [...widths].sort((a, b) => a - b)[Math.floor(ALIKE * (widths.length - 1))] ?? 0);
  const sizeOf = ({ type }, width) => (type === "START" || type === "END" ? { width, height: END_HEIGHT } : { width: Math.max(common, width), height: NODE_HEIGHT });
  return new Map(nodes.map((node, i) => [node.id, sizeOf(node, widths[i])]));
}

function labelOf(handles) {
  const text = handles.join(", ").slice(0, MOST_LABEL_CHARS);
  return text ? { text, width: Math.ceil(text.length * LABEL_CHAR_WIDTH + 10), height: LABEL_HEIGHT } : null;
}

function boxOf({ levels }) {
  const units = levels.flatMap((level) => level.units);
  if (!units.length) return { left: 0, right: 0, bottom: 0 };
  const left = Math.floor(Math.min(...units.map(({ x, width }) => x - width / 2)));
  const right = Math.ceil(Math.max(...units.map(({ x, width }) => x + width / 2)));
  return { left, right, bottom: levels.at(-1).bottom };
}

// --- drawing: from places within a group to places in the whole --------------------------------------------

function draw(group, left, top, drawn) {
  const box = boxOf(group);
  const shift = { x: left - box.left, y: top };
  for (const unit of group.units) {
    const place = { x: Math.round(shift.x + unit.x - unit.width / 2), y: Math.round(shift.y + unit.y), width: unit.width, height: unit.height };
    if (!unit.inside) {
      drawn.nodes.push({ id: unit.id, ...place });
      continue;
    }
    drawn.frames.push({ id: unit.id.slice("frame:".length), ...place });
    draw(unit.inside, place.x + PADDING, place.y + PADDING, drawn);
  }
  for (const line of group.lines) drawn.edges.push(edgeOf(line, group, shift));
  const targets = targetsOf(group);
  for (const edge of group.back) drawn.edges.push(backEdgeOf(edge, box.right + LANE * (targets.indexOf(edge.target) + 1), group, shift));
  return { width: box.right - box.left + lanesOf(group), height: box.bottom };
}

// What leads back to the same unit shares a lane.
function targetsOf({ back }) {
  return [...new Set(back.map(({ target }) => target))];
}

function lanesOf(group) {
  return LANE * targetsOf(group).length;
}

function edgeOf({ edge: { edge, source, target, label }, path }, { levels }, shift) {
  const points = [];
  const add = (x, y) => {
    const point = [Math.round(x + shift.x), Math.round(y + shift.y)];
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
  add(target.x + (target.inX ?? 0), target.y + (target.inside && edge.target === target.id.slice("frame:".length) ? PADDING : 0));
  const chip = label && { text: label.text, width: label.width, x: Math.round(path[1].x + shift.x), y: Math.round((levels[path[1].rank].top + levels[path[1].rank].bottom) / 2 + shift.y) };
  return { ...edge, points, isBack: false, ...(chip ? { label: chip } : {}) };
}

// From below the source to a lane on the right, up, and in from the side.
function backEdgeOf({ edge, source, target }, lane, { levels }, shift) {
  const below = levels[source.foot.rank].bottom + PADDING / 2 + 1;
  const into = target.y + target.height / 2;
  const points = [[source.x, source.y + source.height], [source.x, below], [lane, below], [lane, into], [target.x + target.width / 2, into]];
  return { ...edge, points: points.map(([x, y]) => [Math.round(x + shift.x), Math.round(y + shift.y)]), isBack: true };
}
