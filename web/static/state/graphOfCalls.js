// @ts-check
// The graph of a blueprint, which has no drawing: the calls that its code has made so far, in their order.
//
// A call is named by its place: `2.charge_card` is the second one, `3.gather/0/1.load` the first in the first branch of the
// third, which made several at once.

/** @typedef {{place: string, rest: string[]}} Call `rest` is what of its place is not looked at yet. */
/** @typedef {{first: string[], last: string[]}} Ends The places of the first and the last calls. */
/** @typedef {import("./graphGroups.js").WorkflowEdge} WorkflowEdge */
/** @template K, V @typedef {import("./graphOrder.js").Whole<K, V>} Whole */

/** @type {(places: string[]) => import("./graphGroups.js").Workflow} Returns the calls with these places as a workflow with a drawing has its nodes. */
export function graphOfCalls(places) {
  const /** @type {WorkflowEdge[]} */ edges = [];
  connect(groupsOf(places.map((place) => ({ place, rest: place.split("/") }))), edges);
  return { nodes: places.map((id) => ({ id, type: "CAPABILITY", label: nameOf(id) })), edges };
}

/** Return the name of what was called. */
function nameOf(/** @type {string} */ place) {
  return place.slice(place.lastIndexOf("/") + 1).replace(/^\d+\./, "");
}

// What stands for one number each: a call, or the branches of those that were made at once.
function groupsOf(/** @type {Call[]} */ calls) {
  const /** @type {Whole<number, Call[]>} */ groups = new Map();
  for (const call of calls) {
    const number = parseInt(call.rest[0], 10);
    if (!groups.has(number)) groups.set(number, []);
    groups.get(number).push(call);
  }
  return [...groups].sort(([a], [b]) => a - b).map(([, group]) => group);
}

/** @type {(groups: Call[][], edges: WorkflowEdge[]) => Ends} Returns those of a row of groups, once each group leads to the next. */
function connect(groups, edges) {
  const parts = groups.map((group) => (group.length === 1 && group[0].rest.length === 1 ? { first: [group[0].place], last: [group[0].place] } : connectBranches(group, edges)));
  for (let i = 1; i < parts.length; i += 1) {
    for (const source of parts[i - 1].last) for (const target of parts[i].first) edges.push({ source, target });
  }
  return { first: parts[0]?.first ?? [], last: parts.at(-1)?.last ?? [] };
}

/** @type {(group: Call[], edges: WorkflowEdge[]) => Ends} */
function connectBranches(group, edges) {
  const /** @type {Whole<string, Call[]>} */ branches = new Map();
  for (const { place, rest: [, branch, ...rest] } of group) {
    if (!branches.has(branch)) branches.set(branch, []);
    branches.get(branch).push({ place, rest });
  }
  const parts = [...branches.values()].map((calls) => connect(groupsOf(calls), edges));
  return { first: parts.flatMap(({ first }) => first), last: parts.flatMap(({ last }) => last) };
}
