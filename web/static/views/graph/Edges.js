// @ts-check
// The edges of a graph: lines with arrow heads and the names of their handles; those that are taken lie above the others.

import { visible } from "../../dom/visible.js";
import { svg } from "./signs.js";

/** @typedef {import("../../state/graphLayout.js").DrawnEdge} DrawnEdge */
/** @typedef {import("../../state/graphLayout.js").Point} Point */
/** @typedef {import("../../state/graphState.js").EdgeState} EdgeState */
/** @template K, V @typedef {import("../../state/graphOrder.js").Whole<K, V>} Whole */
/** @typedef {{lines: SVGElement, labels: SVGElement}} Level */

const HEAD = 5;
const ROUND = 7;
/** @type {EdgeState[]} */
const STATES = ["dead", "ahead", "taken"];

/** Draws the edges of a layout; `show` then changes what they look like, not where they are. */
export class Edges {
  #drawn;
  #levels;

  constructor(/** @type {import("../../state/graphLayout.js").Drawing} */ { width, height, edges }) {
    this.#levels = /** @type {Whole<EdgeState, Level>} */ (new Map(STATES.map((state) => [state, { lines: level(state), labels: level(state) }])));
    const levels = [...this.#levels.values()];
    this.element = svg("svg", { class: "graph-edges", width, height, viewBox: `0 0 ${width} ${height}`, "aria-hidden": "true", focusable: "false" }, ...levels.map(({ lines }) => lines), ...levels.map(({ labels }) => labels));
    this.#drawn = new Map(edges.map((edge) => [key(edge), { line: lineElement(edge), label: labelElement(edge), state: "" }]));
    this.show(new Map());
  }

  /** Show the states of edges, by the ids of their ends; where several edges have the same ends, the most alive of them. */
  show(/** @type {Map<string, EdgeState>} */ states) {
    for (const [ends, drawn] of this.#drawn) {
      const state = states.get(ends) ?? "ahead";
      if (drawn.state === state) continue;
      drawn.state = state;
      this.#levels.get(state).lines.append(drawn.line);
      if (drawn.label) this.#levels.get(state).labels.append(drawn.label);
    }
  }
}

/** @type {(edges: import("../../state/graphGroups.js").WorkflowEdge[], states: EdgeState[]) => Map<string, EdgeState>} Returns the states of a workflow's edges for `Edges.show`. */
export function joinStates(edges, states) {
  const /** @type {Map<string, EdgeState>} */ joined = new Map();
  edges.forEach((edge, i) => {
    const known = joined.get(key(edge)) ?? "dead";
    joined.set(key(edge), STATES[Math.max(STATES.indexOf(known), STATES.indexOf(states[i]))]);
  });
  return joined;
}

function key(/** @type {{source: string, target: string}} */ { source, target }) {
  return JSON.stringify([source, target]);
}

function level(/** @type {EdgeState} */ state) {
  return svg("g", { class: `edges is-${state}` });
}

function lineElement(/** @type {DrawnEdge} */ { points, isBack, handles }) {
  const isError = handles.length > 0 && handles.every((handle) => handle === "error");
  const line = svg("path", { class: "line", d: isBack ? cornered(points) : curved(points) });
  return svg("g", { class: `edge${isError ? " is-error" : ""}` }, line, svg("path", { class: "head", d: headAt(/** @type {Point} */ (points.at(-1)), isBack) }));
}

function labelElement(/** @type {DrawnEdge} */ { label }) {
  if (!label) return null;
  const { x, y, width, text } = label;
  return svg("g", { class: "chip" }, svg("rect", { x: x - width / 2, y: y - 8, width, height: 16, rx: 8 }), svg("text", { x, y: y + 4 }, visible(text)));
}

// Straight down within a level, a curve from one level to the next.
function curved(/** @type {Point[]} */ points) {
  const shortened = points.map(([x, y], i) => [x, points[i + 1] ? y : y - HEAD]);
  return shortened.map(([x, y], i) => {
    const [px, py] = shortened[i - 1] ?? [];
    if (!i) return `M${x} ${y}`;
    return px === x ? `L${x} ${y}` : `C${px} ${(py + y) / 2} ${x} ${(py + y) / 2} ${x} ${y}`;
  }).join("");
}

function cornered(/** @type {Point[]} */ points) {
  return points.map(([x, y], i) => {
    const [before, after] = [points[i - 1], points[i + 1]];
    if (!before) return `M${x} ${y}`;
    if (!after) return `L${x + HEAD} ${y}`;
    const near = (/** @type {Point} */ end) => {
      const length = Math.hypot(end[0] - x, end[1] - y) || 1;
      const share = Math.min(ROUND, length / 2) / length;
      return `${x + (end[0] - x) * share} ${y + (end[1] - y) * share}`;
    };
    return `L${near(before)}Q${x} ${y} ${near(after)}`;
  }).join("");
}

/** @type {(end: Point, isBack: boolean) => string} */
function headAt([x, y], isBack) {
  return isBack ? `M${x} ${y}l${HEAD + 2}-4v8z` : `M${x} ${y}l-4-${HEAD + 2}h8z`;
}
