// @ts-check
// Everything that changes the page often asks for a frame here, so that the page is painted at most once a frame.

/** @type {Set<() => void>} */
let jobs = new Set();
let frame = 0;

/** @type {(job: () => void) => void} Runs `job` in the next frame; asking twice runs it once. */
export function paintSoon(job) {
  jobs.add(job);
  if (!frame) frame = requestAnimationFrame(flush);
}

function flush() {
  const now = jobs;
  jobs = new Set();
  frame = 0;
  for (const job of now) {
    try {
      job();
    } catch (error) {
      // A job that raises does not keep the others from running.
      reportError(error);
    }
  }
}

/** True when the reader asked the system for less motion. */
export function prefersStill() {
  return matchMedia("(prefers-reduced-motion: reduce)").matches;
}
