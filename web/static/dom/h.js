// @ts-check
// Elements are made here and nowhere else: only createElement and text nodes, never markup from a string.

/** @typedef {string | number | Node | null | undefined | false} Leaf */
/** @typedef {Leaf | {readonly [at: number]: Child, readonly flat: Function}} Child What an element can be given: lists, in lists too, are flattened; null, undefined and false are left out. */
/** @template {string} S @typedef {S extends `${infer Tag}.${string}` ? Tagged<Tag> : Tagged<S>} Made The element that `h` makes of a text such as `button.quiet.copy`. */
/** @template {string} Tag @typedef {Tag extends keyof HTMLElementTagNameMap ? HTMLElementTagNameMap[Tag] : Tag extends "" ? HTMLDivElement : HTMLElement} Tagged */
/** @typedef {{[Name in keyof HTMLElementEventMap as `on${Name}`]?: ((event: HTMLElementEventMap[Name]) => void) | null | false}} Handlers */
/** @typedef {Handlers & {dataset?: Record<string, string | number | boolean>} & Record<string, unknown>} Props Attributes, handlers and `value`; what is null, undefined or false is left out, true is an attribute without a value. */

const SVG = "http://www.w3.org/2000/svg";

/**
 * Return a new element: `h("p.note", {title: "x", onclick: f}, "text", child, null)`. Empty children are left out.
 *
 * @template {string} S
 * @param {S} spec
 * @param {Props} [props]
 * @param {Child[]} children
 * @returns {Made<S>}
 */
export function h(spec, props = {}, ...children) {
  const [tag, ...classes] = spec.split(".");
  const element = document.createElement(tag || "div");
  if (classes.length) element.className = classes.join(" ");
  // Children first: an element with `dir="auto"` reads all its text again for each child it is given.
  put(element, children);
  for (const [name, value] of Object.entries(props)) setProp(element, name, value);
  return /** @type {any} */ (element);
}

/**
 * Append children; strings become text nodes, null, undefined and false are left out.
 *
 * @template {Element | DocumentFragment} E
 * @param {E} element
 * @param {readonly Child[]} children
 * @returns {E}
 */
export function put(element, children) {
  for (const child of /** @type {any[]} */ (children).flat(Infinity)) {
    if (child === null || child === undefined || child === false) continue;
    element.append(child);
  }
  return element;
}

/**
 * Give the element new children.
 *
 * @template {Element | DocumentFragment} E
 * @param {E} element
 * @param {Child[]} children
 * @returns {E}
 */
export function fill(element, ...children) {
  element.replaceChildren();
  return put(element, children);
}

/** @type {(element: Node, text: string) => void} Sets the text only when it differs, so that nothing is laid out twice. */
export function say(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

/** @type {(element: HTMLElement, name: string, value: any) => void} */
function setProp(element, name, value) {
  if (value === null || value === undefined || value === false) return;
  if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
  else if (name === "dataset") Object.assign(element.dataset, value);
  else if (name === "value") /** @type {HTMLInputElement} */ (element).value = value;
  else element.setAttribute(name, value === true ? "" : String(value));
}

// 16 x 16, drawn with the current colour: a state is a shape first and a colour second. A text is one line that is drawn.
/** @type {Record<string, string | [string, Record<string, any>][]>} */
const PATHS = {
  queued: [["circle", { cx: 8, cy: 8, r: 4.5, fill: "none", "stroke-dasharray": "2.4 2.3" }]],
  running: [["circle", { cx: 8, cy: 8, r: 4.5, fill: "currentColor", stroke: "none" }]],
  waiting: [
    ["circle", { cx: 8, cy: 8, r: 4.5, fill: "none" }],
    ["path", { d: "M8 3.5a4.5 4.5 0 0 1 0 9z", fill: "currentColor", stroke: "none" }],
  ],
  succeeded: "M3.5 8.5l3 3 6-7",
  failed: "M4.2 4.2l7.6 7.6M11.8 4.2l-7.6 7.6",
  cancelled: [["rect", { x: 4, y: 4, width: 8, height: 8, rx: 1, fill: "none" }]],
  dead: "M8 2.5v11M4.8 5.8h6.4",
  refused: [
    ["circle", { cx: 8, cy: 8, r: 5, fill: "none" }],
    ["path", { d: "M4.6 11.4l6.8-6.8", fill: "none" }],
  ],
  unknown: "M5.6 6a2.4 2.4 0 1 1 3.4 2.2c-.7.4-1 .8-1 1.6M8 12.4v.1",
  again: "M12.5 8a4.5 4.5 0 1 1-1.5-3.4M11.3 2v3h-3",
  chevron: "M6 4l4 4-4 4",
  down: "M8 3v9.5M4 9l4 4 4-4",
  up: "M8 13V3.5M4 7l4-4 4 4",
  menu: "M2.5 4.5h11M2.5 8h11M2.5 11.5h7",
  plus: "M8 3v10M3 8h10",
  stop: [["rect", { x: 4, y: 4, width: 8, height: 8, rx: 1.5, fill: "currentColor", stroke: "none" }]],
  talk: "M2.5 3.5h11v7.5H7.5L4.5 13.5V11h-2z",
  search: [["circle", { cx: 7, cy: 7, r: 4, fill: "none" }], ["path", { d: "M10 10l3.5 3.5", fill: "none" }]],
  inbox: "M2.5 9.5l2-6h7l2 6v3.5h-11zM2.5 9.5h3.2c.3 1.3 1.1 2 2.3 2s2-.7 2.3-2h3.2",
  fleet: "M2 11h2.4l2-8 3 10 2-6H14",
  agent: "M5.5 5.5a2.5 2.5 0 1 0 5 0 2.5 2.5 0 1 0-5 0M3.5 13.5c.5-2.8 2.2-4 4.5-4s4 1.2 4.5 4",
  tool: "M9.8 6.2l3.4-3.4M13.5 5.5a3.3 3.3 0 0 1-4.6 3.7L4.5 13.5l-2-2 4.3-4.4A3.3 3.3 0 0 1 10.5 2.5",
  flow: "M3 3h4v3H3zM9 10h4v3H9zM5 6v5.5h4",
  eye: "M1.5 8c3-5.5 10-5.5 13 0-3 5.5-10 5.5-13 0M6.5 8a1.5 1.5 0 1 0 3 0 1.5 1.5 0 1 0-3 0",
  audit: "M4 2.5h8v11H4zM6.2 6h3.6M6.2 8.5h3.6M6.2 11h2",
  key: "M2.2 10.5a2.8 2.8 0 1 0 5.6 0 2.8 2.8 0 1 0-5.6 0M7 8.5l6-6M11 4.5l2 2",
  board: "M2.5 3h3.2v10H2.5zM6.9 3h3.2v6H6.9zM11.3 3h2.2v8h-2.2z",
};

/** @type {(name: string, extra?: string) => SVGSVGElement} Returns a small drawing; it says nothing to a screen reader, the words beside it do. */
export function icon(name, extra = "") {
  const svg = document.createElementNS(SVG, "svg");
  const frame = { viewBox: "0 0 16 16", class: `icon i-${name} ${extra}`.trim(), "aria-hidden": "true", focusable: "false" };
  for (const [key, value] of Object.entries(frame)) svg.setAttribute(key, value);
  const shapes = PATHS[name] ?? PATHS.unknown;
  for (const [tag, attributes] of /** @type {Exclude<typeof shapes, string>} */ (typeof shapes === "string" ? [["path", { d: shapes, fill: "none" }]] : shapes)) {
    const shape = document.createElementNS(SVG, tag);
    for (const [key, value] of Object.entries(attributes)) shape.setAttribute(key, value);
    svg.append(shape);
  }
  return svg;
}
