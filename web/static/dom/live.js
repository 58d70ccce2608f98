// @ts-check
// Values that the page follows: work that has read a signal is done again, at most once a frame, after it has changed.

import { paintSoon } from "./paint.js";

/** @typedef {{sources: Set<Set<Watcher>>, wake: () => void}} Watcher */
/** @template T @typedef {{value: T, peek: () => T}} Signal */

/** @type {Watcher | null} */
let watcher = null;
/** @type {(() => void)[] | null} */
let ends = null;

/**
 * Return a signal: reading `value` in a `watch` follows it, `peek()` does not; setting an equal value changes nothing.
 *
 * @template T
 * @param {T} value
 * @returns {Signal<T>}
 */
export function signal(value) {
  /** @type {Set<Watcher>} */
  const watchers = new Set();
  return {
    get value() {
      if (watcher) watcher.sources.add(watchers.add(watcher));
      return value;
    },
    set value(next) {
      if (Object.is(next, value)) return;
      value = next;
      for (const each of watchers) each.wake();
    },
    peek: () => value,
  };
}

/**
 * Do the work now, and again in the frame after a signal that it has read changed, until the scope ends.
 *
 * @param {() => void} work
 */
export function watch(work) {
  let isOver = false;
  let endLast = () => {};
  /** @type {Watcher} */
  const own = { sources: new Set(), wake: () => paintSoon(run) };
  const forget = () => {
    endLast();
    for (const watchers of own.sources) watchers.delete(own);
    own.sources.clear();
  };
  const run = () => {
    if (isOver) return;
    forget();
    within(own, null, () => { endLast = scope(work); });
  };
  onEnd(() => {
    isOver = true;
    forget();
  });
  run();
}

/**
 * Do the work and return a function that ends what it has begun: watches, keyed lists, and what it gave to `onEnd`.
 *
 * @param {() => void} work
 * @returns {() => void}
 */
export function scope(work) {
  /** @type {(() => void)[]} */
  const own = [];
  const end = () => own.splice(0).reverse().forEach((each) => each());
  try {
    within(watcher, own, work);
  } catch (error) {
    end();
    throw error;
  }
  return end;
}

/**
 * Call `work` when the present scope ends; outside of every scope it is never called.
 *
 * @param {() => void} work
 */
export function onEnd(work) {
  ends?.push(work);
}

/**
 * Keep one child of `parent` for each row, in their order; keys are unique. `make(row)` gets a signal of the row once for
 * each key, and what it began ends when the key is gone. A child in its place is not moved, and the focus is kept.
 *
 * @template T
 * @param {Element} parent
 * @param {() => readonly T[]} rows
 * @param {(row: T) => string} keyOf
 * @param {(row: Signal<T>) => Element} make
 */
export function each(parent, rows, keyOf, make) {
  /** @type {Map<string, {row: Signal<T>, element: Element, end: () => void}>} */
  let children = new Map();
  onEnd(() => children.forEach(({ end }) => end()));
  watch(() => {
    const list = rows();
    const next = new Map();
    // What a child reads while it is made is followed by the child, not by the list.
    within(null, null, () => list.forEach((row) => next.set(keyOf(row), renewed(children.get(keyOf(row)), row, make))));
    for (const [key, { element, end }] of children) if (!next.has(key)) end(), element.remove();
    children = next;
    place(parent, [...next.values()].map(({ element }) => element));
  });
}

/** @type {(follower: Watcher | null, list: (() => void)[] | null, work: () => void) => void} */
function within(follower, list, work) {
  const outer = { watcher, ends };
  [watcher, ends] = [follower, list];
  try {
    work();
  } finally {
    ({ watcher, ends } = outer);
  }
}

/** @type {<T>(child: {row: Signal<T>, element: Element, end: () => void} | undefined, value: T, make: (row: Signal<T>) => Element) => {row: Signal<T>, element: Element, end: () => void}} */
function renewed(child, value, make) {
  if (child) return (child.row.value = value), child;
  const row = signal(value);
  /** @type {Element[]} */
  const made = [];
  const end = scope(() => { made.push(make(row)); });
  return { row, element: made[0], end };
}

// Each child is a row's, so that one which is passed over gets its place when its own turn comes.
/** @type {(parent: Element, elements: Element[]) => void} */
function place(parent, elements) {
  const focused = parent.contains(document.activeElement) ? /** @type {HTMLElement} */ (document.activeElement) : null;
  let at = parent.firstElementChild;
  for (const element of elements) {
    if (element === at || element === at?.nextElementSibling) at = element.nextElementSibling;
    else parent.insertBefore(element, at);
  }
  if (focused && document.activeElement !== focused) focused.focus({ preventScroll: true });
}
