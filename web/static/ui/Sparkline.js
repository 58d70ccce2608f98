// @ts-check
// A small drawing of numbers over time, without axes; the words beside it say what they are.

import { highest, thinned } from "../state/metrics.js";

const SVG = "http://www.w3.org/2000/svg";
const MOST = 32;

/**
 * Return {element, show}: `show(values)` draws them from left to right, as bars or as a line; null is a gap.
 *
 * @param {{kind?: "bars" | "line", tone?: string, width?: number, height?: number}} [given]
 */
export function Sparkline({ kind = "bars", tone = "", width = 76, height = 20 } = {}) {
  const element = document.createElementNS(SVG, "svg");
  const frame = { viewBox: `0 0 ${width} ${height}`, width, height, class: `spark is-${kind} ${tone}`.trim(), "aria-hidden": "true", focusable: "false" };
  for (const [name, value] of Object.entries(frame)) element.setAttribute(name, String(value));
  return {
    element,
    show(/** @type {readonly (number | null)[]} */ values) {
      const points = thinned(values, MOST), most = highest(points) ?? 0;
      element.toggleAttribute("hidden", !points.some((value) => value));
      element.replaceChildren(...(kind === "line" ? lines(points, most, width, height) : bars(points, most, width, height)));
    },
  };
}

/** @type {(points: (number | null)[], most: number, width: number, height: number) => SVGElement[]} */
function bars(points, most, width, height) {
  const step = width / Math.max(points.length, 1);
  return points.map((value, i) => {
    const tall = most && value ? Math.max(1, (value / most) * height) : 0.6;
    return shape("rect", { x: (i * step).toFixed(1), y: (height - tall).toFixed(1), width: Math.max(1, step * 0.7).toFixed(1), height: tall.toFixed(1) });
  });
}

// Each stretch between gaps is a line of its own; one point alone is a dot.
/** @type {(points: (number | null)[], most: number, width: number, height: number) => SVGElement[]} */
function lines(points, most, width, height) {
  const place = (/** @type {number} */ value, /** @type {number} */ i) => [((i / Math.max(points.length - 1, 1)) * (width - 3) + 1.5).toFixed(1), (height - 2 - (most ? (value / most) * (height - 4) : 0)).toFixed(1)];
  const stretches = /** @type {string[][][]} */ ([]);
  points.forEach((value, i) => {
    if (value === null) return;
    if (i === 0 || points[i - 1] === null) stretches.push([]);
    stretches[stretches.length - 1].push(place(value, i));
  });
  return stretches.map((stretch) => (stretch.length === 1 ? shape("circle", { cx: stretch[0][0], cy: stretch[0][1], r: 1.3 }) : shape("polyline", { points: stretch.map((pair) => pair.join(",")).join(" ") })));
}

/** @type {(name: string, attributes: Record<string, string | number>) => SVGElement} */
function shape(name, attributes) {
  const element = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, String(value));
  return element;
}
