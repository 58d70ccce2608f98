// @ts-check
// What the `node` events of a run say about its workflow: the state of each node, of each item of a FOR_EACH, of each edge.
// Pure; a story has of each node, and of each item that came to it, what the last event said.

import { isOver } from "./story.js";
import { bodiesOf } from "./graphGroups.js";

/** @typedef {import("./graphGroups.js").Workflow} Workflow */
/** @typedef {import("./graphGroups.js").WorkflowNode} WorkflowNode */
/** @typedef {import("./graphGroups.js").Bodies} Bodies */
/** @typedef {Parameters<typeof isOver>[0]} Story */
/** @typedef {Record<string, number>} Counts How many items have each status. */
/** @typedef {{counts?: Counts, seen?: number, isSpread?: boolean}} Counted `isSpread`: child runs work on the items. */
/**
 * @typedef {Counted & {status: string, loop?: string | null, total?: number, branch?: string, attempt?: number, content?: string, startedAt?: string, endedAt?: string, duration_ms?: number}} NodeState
 * A status is that of the node's last event, "ahead" before the first, and "stopped" where the run ended before the node did;
 * in a body, that of the items that have not ended, then the worst. `counts` is there for a FOR_EACH and for what is in its body;
 * `loop` is the innermost FOR_EACH that a node stands in.
 */
/** @typedef {Partial<NodeState> & {items?: Record<string, string>}} NodeEntry What a story has of a node: the fields of its last event, and the last state of each item. */
/** @typedef {"taken" | "dead" | "ahead"} EdgeState */
/** @typedef {import("./graphOrder.js").Whole<string, NodeState>} NodeStates */
/** @typedef {{scope: string, status: string}} Item */

/** In this order items are listed, and the first of them that an item has is its state. */
const WORST_FIRST = ["failed", "waiting", "started", "compensated", "done", "skipped"];
const ENDED = new Set(["done", "failed", "skipped", "compensated"]);
const REACHED = new Set(["started", "waiting", "done", "failed", "compensated", "stopped"]);

/** @type {(workflow: Workflow, story: Story) => {nodes: NodeStates, edges: EdgeState[]}} Returns the states of nodes by id, and of edges in the order of the workflow's. */
export function graphState({ nodes, edges }, story) {
  const bodies = bodiesOf(nodes, edges);
  const states = /** @type {NodeStates} */ (new Map(nodes.map(({ id }) => [id, nodeState(story.nodes?.[id], story, loopOf(id, bodies))])));
  for (const [loop, body] of bodies) Object.assign(states.get(loop), loopCounts(states.get(loop), [...itemsOf(loop, body, nodes, story).values()]));
  const derived = [...states.values()].filter(({ status }) => status === "ahead").map((state) => ({ state, status: unreached(state, states) }));
  for (const { state, status } of derived) state.status = status;
  const caught = new Set(edges.filter((edge) => edge.source_handle === "error").map(({ source }) => source));
  return { nodes: states, edges: edges.map((edge) => edgeState(edge, states, caught, isOver(story))) };
}

/** @type {(workflow: Workflow, story: Story, id: string) => Item[]} Returns the items of a FOR_EACH, or of a node in its body, the failed ones first. */
export function itemList({ nodes, edges }, story, id) {
  const body = bodiesOf(nodes, edges).get(id);
  const items = body ? itemsOf(id, body, nodes, story) : new Map(Object.entries(story.nodes?.[id]?.items ?? {}));
  const rows = [...items].map(([scope, status]) => ({ scope, status: seenIn(story, status) }));
  return rows.sort((a, b) => WORST_FIRST.indexOf(a.status) - WORST_FIRST.indexOf(b.status) || byIndex(a.scope, b.scope));
}

/** @type {(id: string, bodies: Bodies) => string | null} */
function loopOf(id, bodies) {
  const around = [...bodies].filter(([, body]) => body.has(id));
  return around.sort((a, b) => a[1].size - b[1].size)[0]?.[0] ?? null;
}

/** @type {(entry: NodeEntry | undefined, story: Story, loop: string | null) => NodeState} */
function nodeState(entry, story, loop) {
  if (!entry) return { status: "ahead", loop };
  const { items, ...own } = entry;
  const counted = items ? countsOf(Object.values(items)) : {};
  const { started, waiting, ...ended } = counted.counts ?? {};
  const status = own.status ?? (started ? "started" : waiting ? "waiting" : worst(Object.keys(ended)));
  const took = own.startedAt && own.endedAt ? Date.parse(own.endedAt) - Date.parse(own.startedAt) : undefined;
  return { duration_ms: took, ...own, ...counted, loop, status: seenIn(story, status) };
}

// Where the FOR_EACH around it is over, no item has come to a node; or child runs have worked on all items.
/** @type {(state: NodeState, states: NodeStates) => string} */
function unreached({ loop }, states) {
  if (!loop) return "ahead";
  const around = states.get(loop);
  if (around.status === "ahead") return unreached(around, states);
  if (!ENDED.has(around.status)) return "ahead";
  return around.isSpread ? around.status : "skipped";
}

// Nothing is worked on while the run waits, or once it is over.
/** @type {(story: Story, status: string) => string} */
function seenIn(story, status) {
  if (isOver(story)) return ENDED.has(status) ? status : "stopped";
  return story.status === "waiting" && status === "started" ? "waiting" : status;
}

// Of items that child runs work on, the events of the node itself have the counts.
/** @type {(state: NodeState, statuses: string[]) => Counted} */
function loopCounts({ total, counts = {} }, statuses) {
  if (statuses.length || total === undefined) return countsOf(statuses);
  return { counts, seen: Object.values(counts).reduce((sum, n) => sum + n, 0), isSpread: true };
}

/** @type {(statuses: string[]) => Counted} */
function countsOf(statuses) {
  if (!statuses.length) return {};
  const /** @type {Counts} */ counts = {};
  for (const status of statuses) counts[status] = (counts[status] ?? 0) + 1;
  return { counts, seen: statuses.length };
}

// An item is as far as its nodes are; one that may fail fails no item.
/** @type {(loop: string, body: Set<string>, nodes: WorkflowNode[], story: Story) => Map<string, string>} */
function itemsOf(loop, body, nodes, story) {
  const items = new Map();
  for (const { id, on_error: onError = "fail" } of nodes) {
    if (!body.has(id)) continue;
    const entries = story.nodes?.[id]?.items ?? {};
    for (const scope in entries) {
      const item = ownScope(scope, loop);
      const known = items.get(item);
      const status = entries[scope] === "failed" && onError !== "fail" ? "done" : entries[scope];
      if (item && known !== status) items.set(item, known ? worst([known, status]) : status);
    }
  }
  return items;
}

// Of `customers/3/orders/2` the part that ends with this loop's index.
/** @type {(scope: string, loop: string) => string | null} */
function ownScope(scope, loop) {
  const start = scope.startsWith(`${loop}/`) ? 0 : scope.indexOf(`/${loop}/`) + 1;
  if (!start && !scope.startsWith(`${loop}/`)) return null;
  const end = scope.indexOf("/", start + loop.length + 1);
  return end < 0 ? scope : scope.slice(0, end);
}

function worst(/** @type {string[]} */ statuses) {
  return WORST_FIRST.find((status) => statuses.includes(status)) ?? "ahead";
}

/** @type {(a: string, b: string) => number} */
function byIndex(a, b) {
  return a.localeCompare(b, "en", { numeric: true });
}

// An edge is taken when its source has chosen it, and dead when nothing can come along it any more.
/** @type {(edge: import("./graphGroups.js").WorkflowEdge, states: NodeStates, caught: Set<string>, over: boolean) => EdgeState} */
function edgeState(edge, states, caught, over) {
  const source = states.get(edge.source);
  const target = states.get(edge.target);
  if (!source || !target) return "ahead";
  const chosen = isChosen(edge, source, target, caught.has(edge.source));
  if (chosen === undefined) return over ? "dead" : "ahead";
  return chosen ? "taken" : "dead";
}

// Within a body, items go different ways: an edge is taken by those that have reached its target.
/** @type {(edge: import("./graphGroups.js").WorkflowEdge, source: NodeState, target: NodeState, isCaught: boolean) => boolean | undefined} */
function isChosen({ source_handle: handle }, source, target, isCaught) {
  if (source.status === "skipped" || target.status === "skipped") return false;
  if (source.loop || handle === "foreach-body") return REACHED.has(target.status) && source.status !== "ahead" ? true : undefined;
  if (!ENDED.has(source.status)) return undefined;
  if (source.branch) return handle === source.branch;
  if (source.status === "failed") return isCaught ? handle === "error" : REACHED.has(target.status);
  return handle !== "error";
}
