// @ts-check
// The rows of GET /v1/metrics as series over time: a place for each slot, also for those in which nothing was counted.

/**
 * @typedef {{at: string, started: number, runs: Record<string, number>, input_tokens: number, output_tokens: number, cost_usd: number, first_token_p50_s?: number, first_token_p95_s?: number}} MetricRow
 * @typedef {{slotS: number, times: number[], started: number[], well: number[], stopped: number[], failed: number[], p50: (number | null)[], p95: (number | null)[], rate: number[], cost: number[]}} Series
 */

/** The lengths of time that can be looked at, in ms. */
export const LENGTHS = /** @type {Record<string, number>} */ ({ "1h": 3_600_000, "6h": 21_600_000, "24h": 86_400_000 });

/**
 * Return the series of the time up to now; `times` are the beginnings of the slots, in seconds since 1970.
 *
 * @param {MetricRow[]} rows
 * @param {number} slotS
 * @param {number} lengthMs
 * @param {number} nowMs
 * @returns {Series}
 */
export function seriesOf(rows, slotS, lengthMs, nowMs) {
  const known = new Map(rows.map((row) => [Math.floor(Date.parse(row.at) / 1000), row]));
  const last = Math.floor(nowMs / 1000 / slotS) * slotS;
  const number = Math.ceil(lengthMs / 1000 / slotS);
  const times = Array.from({ length: number }, (_, i) => last - (number - 1 - i) * slotS);
  const slots = times.map((time) => known.get(time));
  const seconds = times.map((time) => Math.max(1, Math.min(slotS, nowMs / 1000 - time))); // the last slot is not over
  return {
    slotS,
    times,
    started: slots.map((row) => row?.started ?? 0),
    well: slots.map((row) => row?.runs.succeeded ?? 0),
    stopped: slots.map((row) => row?.runs.cancelled ?? 0),
    failed: slots.map((row) => (row?.runs.failed ?? 0) + (row?.runs.dead ?? 0)),
    p50: slots.map((row) => row?.first_token_p50_s ?? null),
    p95: slots.map((row) => row?.first_token_p95_s ?? null),
    rate: slots.map((row, i) => (row?.output_tokens ?? 0) / seconds[i]),
    cost: slots.map((row) => row?.cost_usd ?? 0),
  };
}

/**
 * Return the sum of some numbers of a series, all or those of the slots that begin within a range of seconds.
 *
 * @param {Series} series
 * @param {readonly number[]} values
 * @param {{from: number, to: number} | null} [range]
 */
export function sumOf({ times }, values, range = null) {
  return values.reduce((sum, value, i) => (range && (times[i] < range.from || times[i] >= range.to) ? sum : sum + value), 0);
}

/**
 * Return the largest number of a series, or null where it has none.
 *
 * @param {readonly (number | null)[]} values
 */
export function highest(values) {
  return values.reduce((/** @type {number | null} */ most, value) => (value === null || (most !== null && most >= value) ? most : value), null);
}

/**
 * Return at most `most` numbers in place of many: the highest of each stretch; stretches are equally long.
 *
 * @param {readonly (number | null)[]} values
 * @param {number} most
 */
export function thinned(values, most) {
  if (values.length <= most) return [...values];
  return Array.from({ length: most }, (_, i) => highest(values.slice(Math.floor((i * values.length) / most), Math.floor(((i + 1) * values.length) / most))));
}

/**
 * Return between which numbers eight of ten lie, or null where there are none.
 *
 * @param {readonly (number | null)[]} values
 * @returns {[number, number] | null}
 */
export function usual(values) {
  const known = /** @type {number[]} */ (values.filter((value) => value !== null)).sort((a, b) => a - b);
  return known.length ? [known[Math.floor(0.1 * (known.length - 1))], known[Math.ceil(0.9 * (known.length - 1))]] : null;
}
