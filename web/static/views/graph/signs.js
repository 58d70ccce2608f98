// @ts-check
// A drawing and a word for each type of node, and the marks that say how a node stands: shapes first, colours second.

const SVG = "http://www.w3.org/2000/svg";

/** @typedef {[tag: string, attributes: Record<string, string | number>]} Shape */

/** @type {Record<string, [words: string, path: string]>} */
const SIGNS = {
  START: ["start", "M5.5 3.8v8.4l6.5-4.2z"],
  END: ["end", "M4.5 4.5h7v7h-7z"],
  TRANSFORM: ["transform", "M6 3C4.5 3 5 5 4.7 6.5 4.5 7.5 3.5 8 3.5 8s1 .5 1.2 1.5C5 11 4.5 13 6 13M10 3c1.5 0 1 2 1.3 3.5.2 1 1.2 1.5 1.2 1.5s-1 .5-1.2 1.5C11 11 11.5 13 10 13"],
  FUNCTION: ["function", "M11.5 3.6C9.5 2.5 8.6 4 8.3 5.6L7 11c-.3 1.6-1.3 2.6-3 1.7M5.5 7.2h5"],
  LLM: ["model", "M8 2.2c.5 3.6 2.2 5.3 5.8 5.8-3.6.5-5.3 2.2-5.8 5.8-.5-3.6-2.2-5.3-5.8-5.8 3.6-.5 5.3-2.2 5.8-5.8z"],
  CHOICE: ["choice", "M8 2.3L13.7 8 8 13.7 2.3 8z"],
  CHOICE_LLM: ["model choice", "M8 2L14 8l-6 6-6-6zM8 5.8c.2 1.3.9 2 2.2 2.2-1.3.2-2 .9-2.2 2.2-.2-1.3-.9-2-2.2-2.2 1.3-.2 2-.9 2.2-2.2z"],
  SUB_WORKFLOW: ["workflow", "M2.5 2.5h5v4h-5zM8.5 9.5h5v4h-5zM5 6.5v5h3.5"],
  PARALLEL: ["parallel", "M8 2.5v3M3 13.5v-4c0-2 1-4 5-4s5 2 5 4v4M8 5.5v8"],
  WAIT: ["wait", "M8 2.5a5.5 5.5 0 1 0 0 11 5.5 5.5 0 0 0 0-11zM8 5v3l2 1.5"],
  APPROVAL_GATE: ["approval", "M6 7.2a2.2 2.2 0 1 0 0-4.4 2.2 2.2 0 0 0 0 4.4zM2 13.5c.3-2.8 1.7-4 4-4M8.3 11.3l1.8 1.9 3.6-4"],
  FOR_EACH: ["for each", "M12.8 6.5A5 5 0 0 0 3.5 6M3.2 9.5A5 5 0 0 0 12.5 10M13 3.5v3h-3M3 12.5v-3h3"],
  FILTER: ["filter", "M2.5 3.5h11L9.3 8.5v4.5l-2.6-1.5v-3z"],
  REDUCE: ["reduce", "M11.8 4.8V3H4.2L8 8l-3.8 5h7.6v-1.8"],
};
const OTHER = "M8 2.3l5 2.9v5.6l-5 2.9-5-2.9V5.2z";

/** @type {Record<string, Shape[]>} */
const MARKS = {
  started: [["circle", { cx: 8, cy: 8, r: 4.5, fill: "currentColor", stroke: "none" }]],
  waiting: [["circle", { cx: 8, cy: 8, r: 4.5 }], ["path", { d: "M8 3.5a4.5 4.5 0 0 1 0 9z", fill: "currentColor", stroke: "none" }]],
  done: [["path", { d: "M3.5 8.5l3 3 6-7" }]],
  failed: [["path", { d: "M4.2 4.2l7.6 7.6M11.8 4.2l-7.6 7.6" }]],
  skipped: [["path", { d: "M4 8h8" }]],
  compensated: [["path", { d: "M3.5 8a4.5 4.5 0 1 0 1.5-3.4M4.7 2v3h3" }]],
  stopped: [["rect", { x: 4, y: 4, width: 8, height: 8, rx: 1 }]],
};

/** @type {(tag: string, attributes?: Record<string, string | number>, ...children: (Node | string)[]) => SVGElement} Returns a new element. */
export function svg(tag, attributes = {}, ...children) {
  const element = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, String(value));
  element.append(...children);
  return element;
}

/** Return the drawing of a node's type; a type of a third party has one of its own kind. */
export function signOf(/** @type {string} */ type) {
  return drawing("sign", svg("path", { d: SIGNS[type]?.[1] ?? OTHER }));
}

/** Return the drawing of a node's state; none before the run has come to it. */
export function markOf(/** @type {string} */ status) {
  const shapes = (MARKS[status] ?? []).map(([tag, attributes]) => svg(tag, attributes));
  return drawing(`mark${status === "started" ? " is-pulsing" : ""}`, ...shapes);
}

/** Return the words for a type, `model choice` or those that a third party chose. */
export function typeWords(/** @type {string} */ type) {
  return SIGNS[type]?.[0] ?? type.toLowerCase().replaceAll("_", " ");
}

/** @type {(kind: string, ...shapes: SVGElement[]) => SVGElement} */
function drawing(kind, ...shapes) {
  return svg("svg", { viewBox: "0 0 16 16", class: `icon ${kind}`, "aria-hidden": "true", focusable: "false" }, ...shapes);
}
