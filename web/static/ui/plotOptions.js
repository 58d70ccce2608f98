// @ts-check
// How uPlot draws: times below, numbers at the right, quiet lines, the colours of the page.

const CLOCK = new Intl.DateTimeFormat("en", { hour: "2-digit", minute: "2-digit", hourCycle: "h23" });
/** Beyond so many points those alone are marked that no line leads to. */
const MARKED = 24;
/** Pixels of the numbers at the right, and how far from the left edge a time needs to be to be whole. */
const NUMBERS = 52, EDGE = 16;

/** Return a time of the day, `11:24`, of seconds since 1970. */
export function clock(/** @type {number} */ seconds) {
  return CLOCK.format(new Date(seconds * 1000));
}

/**
 * Return the options of a chart without its size. `shown()` has its times now; `onSelect(from, to)` gets what was brushed.
 *
 * @param {any} uPlot
 * @param {{lines: import("./Plot.js").Line[], format: (value: number) => string, shown: () => import("./Plot.js").Shown, style: CSSStyleDeclaration, onSelect: (from: number, to: number) => void}} given
 */
export function plotOptions(uPlot, { lines, format, shown, style, onSelect }) {
  const ink = (/** @type {string} */ token) => style.getPropertyValue(`--${token}`).trim() || "gray";
  const font = `11px ${style.getPropertyValue("--sans") || "sans-serif"}`;
  const axis = { stroke: ink("faint"), font, ticks: { show: false } };
  const limits = () => {
    const { times, slotS } = shown();
    return times.length ? [times[0], times[times.length - 1] + slotS] : [0, 1];
  };
  const isCut = (/** @type {any} */ { width }, /** @type {number} */ at) => ((at - limits()[0]) / (limits()[1] - limits()[0])) * (width - NUMBERS) < EDGE;
  return {
    padding: [8, 0, 0, 0],
    legend: { show: false },
    cursor: { y: false, points: { show: false }, drag: { x: true, y: false, setScale: false } },
    scales: { x: { time: true, range: limits }, y: { range: (/** @type {any} */ _, /** @type {number | null} */ __, /** @type {number | null} */ most) => [0, (most || 1) * 1.08] } },
    axes: [
      { ...axis, grid: { show: false }, size: 24, space: 70, values: (/** @type {any} */ chart, /** @type {number[]} */ splits) => splits.map((at) => (isCut(chart, at) ? "" : clock(at))) },
      { ...axis, side: 1, size: NUMBERS, space: 34, grid: { stroke: ink("line"), width: 1 }, values: (/** @type {any} */ _, /** @type {number[]} */ splits) => splits.map((value) => (value && shown().values.flat().some(Boolean) ? format(value) : "")) },
    ],
    series: [{}, ...lines.map((line) => seriesOf(uPlot, line, line.share ? mixed(ink(line.token), ink("paper"), line.share) : ink(line.token)))],
    hooks: {
      setSelect: [(/** @type {any} */ chart) => {
        const { left, width } = chart.select;
        onSelect(chart.posToVal(left, "x"), chart.posToVal(left + width, "x"));
      }],
    },
  };
}

/** @type {(colour: string, ground: string, share: number) => string} Returns a colour of tokens.css with less of it; bars hide those behind them, so it is opaque. */
function mixed(colour, ground, share) {
  const [parts, grounds] = [colour, ground].map((text) => [1, 3, 5].map((at) => parseInt(text.slice(at, at + 2), 16)));
  return `rgb(${parts.map((part, i) => Math.round(part * share + grounds[i] * (1 - share))).join(" ")})`;
}

/** @type {(uPlot: any, line: import("./Plot.js").Line, colour: string) => Record<string, any>} */
function seriesOf(uPlot, { label, kind, dash }, colour) {
  if (kind === "bars") return { label, fill: colour, width: 0, paths: uPlot.paths.bars({ size: [0.8, 24], align: 1 }), points: { show: false } };
  const paths = kind === "steps" ? uPlot.paths.stepped({ align: 1 }) : undefined;
  return { label, stroke: colour, width: kind === "steps" ? 1 : 1.5, dash, ...(paths && { paths }), points: { show: kind === "line", size: 4, fill: colour, filter: alone } };
}

/** @type {(chart: any, number: number) => number[] | null} Returns the places of the points to mark; null: all. */
function alone(chart, number) {
  const values = chart.data[number];
  if (values.length <= MARKED) return null;
  const isGap = (/** @type {number} */ at) => (values[at] ?? null) === null;
  const places = [];
  for (let at = 0; at < values.length; at += 1) if (!isGap(at) && isGap(at - 1) && isGap(at + 1)) places.push(at);
  return places;
}
