// One clock for everything that counts seconds, and none while the page is hidden.

const listeners = new Set();
let timer = 0;

/** Call `work` once a second while the page is seen; returns a function that ends it. */
export function useTicker(work) {
  listeners.add(work);
  timer ||= setInterval(tick, 1000);
  return () => listeners.delete(work);
}

function tick() {
  if (document.hidden) return;
  for (const work of listeners) work();
}
