// @ts-check
// The groups of a workflow: the whole, and within it each FOR_EACH with its body.

import { placeInLayers } from "./graphLayers.js";

/** @import { Workflow as Shown } from "../../../clients/typescript/src/types.js" */
/** @typedef {Shown["nodes"][number] & {label?: string}} WorkflowNode */
/** @typedef {Shown["edges"][number]} WorkflowEdge */
/** @typedef {{nodes: WorkflowNode[], edges: WorkflowEdge[]}} Workflow */
/** @typedef {Map<string, Set<string>>} Bodies The ids of the nodes in each body, by the id of its FOR_EACH. */
/** @typedef {{source: string, target: string, handles: string[]}} JoinedEdge All edges between two nodes. */
/** @typedef {import("./graphLayers.js").Box} Box */
/** @typedef {import("./graphLayers.js").Sized} Sized */
/** @typedef {{text: string, width: number, height: number}} Label */
/** @typedef {{source: Box, target: Box, label: Label | null, edge: JoinedEdge}} GroupEdge An edge between the boxes of one group. */
/** @typedef {{units: Box[], levels: import("./graphOrder.js").Level[], lines: import("./graphLayers.js").Line<GroupEdge>[], back: GroupEdge[], head: Box | undefined}} Group `back` is what leads back; `head` the FOR_EACH. */
/** @template K, V @typedef {import("./graphOrder.js").Whole<K, V>} Whole */
/** @typedef {{width: number, height: number}} Size */
/** @typedef {{nodes: WorkflowNode[], edges: JoinedEdge[], chains: Whole<string, string[]>, sizes: Whole<string, Size>}} Groups */

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
/** Between a frame and what is in it. */
export const PADDING = 16;
export const LANE = 18;

/** @type {(nodes: WorkflowNode[], edges: WorkflowEdge[]) => Bodies} Returns what `foreach-body` leads to, without what comes behind the FOR_EACH. */
export function bodiesOf(nodes, edges) {
  const following = /** @type {Whole<string, WorkflowEdge[]>} */ (new Map(nodes.map(({ id }) => [id, []])));
  for (const edge of edges) following.get(edge.source)?.push(edge);
  const reach = (/** @type {string} */ start, /** @type {boolean} */ isEntry) => {
    const /** @type {Set<string>} */ seen = new Set();
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

/** @type {(nodes: WorkflowNode[], edges: JoinedEdge[], bodies: Bodies) => Groups} Returns what `placeGroup` needs to know of a workflow: the chain of groups that each node stands in, and each node's size. */
export function chainsOf(nodes, edges, bodies) {
  const bySize = [...bodies].sort((a, b) => a[1].size - b[1].size);
  const outer = (/** @type {string} */ id, /** @type {number} */ least) => bySize.find(([loop, body]) => loop !== id && body.size > least && body.has(id))?.[0] ?? null;
  // From the whole to the node: the loops that it stands in, then itself.
  const chains = /** @type {Groups["chains"]} */ (new Map(nodes.map(({ id }) => {
    const chain = [id];
    for (let loop = bodies.has(id) ? id : outer(id, 0); loop; loop = outer(loop, /** @type {Set<string>} */ (bodies.get(loop)).size)) chain.unshift(`frame:${loop}`);
    return [id, chain];
  })));
  return { nodes, edges, chains, sizes: sizesOf(nodes) };
}

/** @type {(groups: Groups, loop: string | null) => Group} Returns the group of a FOR_EACH, or the whole for null, with its units and frames in their places; the groups in it are placed by this. */
export function placeGroup(groups, loop) {
  const isHere = (/** @type {string[]} */ chain) => loop === null || chain.includes(`frame:${loop}`);
  const depthOf = (/** @type {string[]} */ chain) => (loop === null ? 0 : chain.indexOf(`frame:${loop}`) + 1);
  const /** @type {Map<string | null, Box>} */ units = new Map();
  for (const node of groups.nodes) {
    const chain = groups.chains.get(node.id);
    if (!isHere(chain)) continue;
    const id = chain[depthOf(chain)];
    if (!units.has(id)) units.set(id, /** @type {Box} */ (id === node.id ? { id, ...groups.sizes.get(id) } : frameOf(groups, id)));
  }
  const edges = groups.edges.flatMap((edge) => lifted(edge, groups.chains, units, depthOf) ?? []);
  const own = [...units.values()], head = units.get(loop);
  const { leading, back } = withoutCycles(own, edges, head);
  return { units: own, back, head, ...(own.length ? placeInLayers(own, leading) : { levels: [], lines: [] }) };
}

// The edge belongs to the innermost group that has both of its ends.
/** @type {(edge: JoinedEdge, chains: Groups["chains"], units: Map<string | null, Box>, depthOf: (chain: string[]) => number) => GroupEdge | null} */
function lifted(edge, chains, units, depthOf) {
  const [source, target] = [chains.get(edge.source), chains.get(edge.target)];
  const depth = depthOf(source);
  if (depth !== depthOf(target) || source.slice(0, depth).join() !== target.slice(0, depth).join()) return null;
  const [from, to] = [units.get(source[depth]), units.get(target[depth])];
  return from && to && from !== to ? { source: from, target: to, edge, label: labelOf(edge.handles) } : null;
}

/** @type {(groups: Groups, id: string) => Sized} */
function frameOf(groups, id) {
  const loop = id.slice("frame:".length);
  const inside = placeGroup(groups, loop);
  const box = boxOf(inside);
  const width = 2 * Math.ceil((box.width + 2 * PADDING) / 2);
  const x = Math.round(/** @type {Box} */ (inside.head).x - box.left + PADDING - width / 2);
  const height = box.bottom + 2 * PADDING;
  return { id: loop, inside, width, height, inX: x, exitX: x, span: Math.floor((height - NODE_HEIGHT) / LEVEL_HEIGHT) };
}

// What a depth-first search meets again on its way leads back; what leads to the group's FOR_EACH does so by its meaning.
/** @type {(units: Box[], edges: GroupEdge[], head: Box | undefined) => {leading: GroupEdge[], back: GroupEdge[]}} */
function withoutCycles(units, edges, head) {
  const back = new Set(edges.filter(({ target }) => target === head));
  const /** @type {Map<Box, "open" | "closed">} */ state = new Map();
  const visit = (/** @type {Box} */ unit) => {
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

function sizesOf(/** @type {WorkflowNode[]} */ nodes) {
  const widths = nodes.map(({ id, name = id, label = name }) => Math.min(WIDEST, 2 * Math.ceil((ICONS_WIDTH + CHAR_WIDTH * label.length) / 2)));
  const common = Math.max(NARROWEST, [...widths].sort((a, b) => a - b)[Math.floor(ALIKE * (widths.length - 1))] ?? 0);
  const sizeOf = (/** @type {WorkflowNode} */ { type }, /** @type {number} */ width) => (type === "START" || type === "END" ? { width, height: END_HEIGHT } : { width: Math.max(common, width), height: NODE_HEIGHT });
  return /** @type {Groups["sizes"]} */ (new Map(nodes.map((node, i) => [node.id, sizeOf(node, widths[i])])));
}

function labelOf(/** @type {string[]} */ handles) {
  const text = handles.join(", ").slice(0, MOST_LABEL_CHARS);
  return text ? { text, width: Math.ceil(text.length * LABEL_CHAR_WIDTH + 10), height: LABEL_HEIGHT } : null;
}

/** Return the sides of a group, the units that edges lead back to, which have a lane each beside it, and the width with these. */
export function boxOf(/** @type {Group} */ { levels, back }) {
  const units = levels.flatMap((level) => level.units);
  if (!units.length) return { left: 0, right: 0, bottom: 0, lanes: [], width: 0 };
  const left = Math.floor(Math.min(...units.map(({ x, width }) => x - width / 2)));
  const right = Math.ceil(Math.max(...units.map(({ x, width }) => x + width / 2)));
  const lanes = [...new Set(back.map(({ target }) => target))];
  return { left, right, bottom: /** @type {import("./graphOrder.js").Level} */ (levels.at(-1)).bottom, lanes, width: right - left + LANE * lanes.length };
}
