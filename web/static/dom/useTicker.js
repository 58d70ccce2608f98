// @ts-check
// One clock for everything that counts seconds, and none while the page is hidden.

/** @type {Set<() => void>} */
const listeners = new Set();
let timer = 0;

/** @type {(work: () => void) => () => void} Calls `work` once a second while the page is seen; returns a function that ends it. */
export function useTicker(work) {
  listeners.add(work);
  timer ||= setInterval(tick, 1000);
  return () => listeners.delete(work);
}

function tick() {
  if (document.hidden) return;
  for (const work of listeners) work();
}
