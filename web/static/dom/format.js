// @ts-check
// Numbers and times as people read them.

const COUNT = new Intl.NumberFormat("en");
const DAY = new Intl.DateTimeFormat("en", { day: "numeric", month: "long" });
const UNTIL = new Intl.DateTimeFormat("en", { weekday: "long", day: "numeric", month: "long", hour: "2-digit", minute: "2-digit", hourCycle: "h23" });
const WHEN = new Intl.DateTimeFormat("en", { dateStyle: "medium", timeStyle: "medium" });

/** @type {(ms: number) => string} Returns `340 ms`, `4.2 s`, `3 min 12 s` or `2 h 5 min`. */
export function duration(ms) {
  if (ms < 1000) return `${Math.max(0, Math.round(ms))} ms`;
  if (ms < 59_950) return `${(ms / 1000).toFixed(1)} s`;
  return ticking(ms);
}

const MIN_WAIT_MS = 1000;
const MIN_WAIT_SHARE = 0.1;

/** @type {(run: {duration_ms: number, work_ms?: number}) => string} Returns how long a run took, with the time of work where it waited for some of it: `2 min 03 s, 5.0 s at work`. */
export function took({ duration_ms, work_ms }) {
  const isWait = work_ms !== undefined && duration_ms - work_ms >= Math.max(MIN_WAIT_MS, MIN_WAIT_SHARE * duration_ms);
  return isWait ? `${duration(duration_ms)}, ${duration(work_ms)} at work` : duration(duration_ms);
}

/** @type {(ms: number) => string} Returns a running time in whole units, which change once a second at most. */
export function ticking(ms) {
  const seconds = Math.max(0, Math.floor(ms / 1000));
  if (seconds < 60) return `${seconds} s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return `${minutes} min ${String(seconds % 60).padStart(2, "0")} s`;
  const hours = Math.floor(minutes / 60);
  return hours < 48 ? `${hours} h ${String(minutes % 60).padStart(2, "0")} min` : `${Math.floor(hours / 24)} d`;
}

/** @type {(at: string, now?: number) => string} Returns `just now`, `5 min ago`, `3 h ago` or the day. */
export function ago(at, now = Date.now()) {
  const seconds = (now - Date.parse(at)) / 1000;
  if (!Number.isFinite(seconds)) return "";
  if (seconds < 60) return "just now";
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ago`;
  if (seconds < 86_400) return `${Math.floor(seconds / 3600)} h ago`;
  return DAY.format(new Date(at));
}

/** @type {(at: string, now?: Date) => string} Returns the heading a day's threads stand under. */
export function dayName(at, now = new Date()) {
  const then = new Date(at);
  const days = Math.round((startOfDay(now) - startOfDay(then)) / 86_400_000);
  if (!Number.isFinite(days)) return "Earlier";
  return days <= 0 ? "Today" : days === 1 ? "Yesterday" : days < 7 ? "This week" : "Earlier";
}

/** @type {(at: string) => string} Returns a date and time in full, for titles. */
export function exactly(at) {
  const date = new Date(at);
  return Number.isNaN(date.getTime()) ? "" : WHEN.format(date);
}

/** @type {(at: string) => string} Returns a date and a time to the minute, for deadlines. */
export function deadline(at) {
  const date = new Date(at);
  return Number.isNaN(date.getTime()) ? "" : UNTIL.format(date);
}

/** @type {(seconds: number) => string} Returns `for 45 s`, `for 30 min`, `for 2 h` or `for 3 d`: a length of time, rounded down. */
export function span(seconds) {
  const [unit, name] = /** @type {[number, string][]} */ ([[86_400, "d"], [3600, "h"], [60, "min"]]).find(([size]) => seconds >= size) ?? [1, "s"];
  return `for ${Math.floor(seconds / unit)} ${name}`;
}

/** @type {(n: number) => string} Returns `1,234`. */
export function count(n) {
  return COUNT.format(n);
}

/** @type {(usd: number | null | undefined) => string} Returns dollars with two significant digits below a dollar: `$0.0007`, `$1.24`. */
export function cost(usd) {
  if (!usd) return "$0";
  if (usd >= 0.995) return `$${usd.toFixed(2)}`;
  return `$${Number(usd.toPrecision(2)).toFixed(8).replace(/(\.\d\d\d*?)0+$/, "$1")}`;
}

/** @type {(read: number, written: number) => string} Returns `139 tokens in, 44 out`, as cli/output/transcript.py says it. */
export function tokens(read, written) {
  return `${plural(read, "token")} in, ${count(written)} out`;
}

/** @type {(n: number, one: string, many?: string) => string} Returns `1 run`, `2 runs`. */
export function plural(n, one, many = `${one}s`) {
  return `${count(n)} ${n === 1 ? one : many}`;
}

/** @type {(date: Date) => number} */
function startOfDay(date) {
  return new Date(date.getFullYear(), date.getMonth(), date.getDate()).getTime();
}
