// All runs the caller may see, in lanes: what the board shows.

import { OVER } from "./story.js";

const KEPT = 500;

/** Holds run summaries; `apply` takes the board feed's events. */
export class BoardState {
  #runs = new Map();

  /** Take a `snapshot` or a `run` event; returns the summaries that changed. */
  apply(event, data) {
    if (event === "snapshot") {
      this.#runs = new Map((data.runs ?? []).map((run) => [run.run_id, run]));
      return data.runs ?? [];
    }
    if (event !== "run" || !data.run_id) return [];
    this.#runs.set(data.run_id, data);
    this.#forgetOldest();
    return [this.#runs.get(data.run_id)];
  }

  get size() {
    return this.#runs.size;
  }

  /** Return one summary, if the board has it. */
  get(runId) {
    return this.#runs.get(runId);
  }

  /** Return {running, waiting, ended}, each with the latest first. */
  lanes() {
    const lanes = { running: [], waiting: [], ended: [] };
    for (const run of this.#runs.values()) lanes[laneOf(run)].push(run);
    lanes.running.sort((a, b) => stamp(b.started_at ?? b.created_at) - stamp(a.started_at ?? a.created_at));
    // Who waits longest stands first: it is the one to look at.
    lanes.waiting.sort((a, b) => stamp(a.created_at) - stamp(b.created_at));
    lanes.ended.sort((a, b) => stamp(b.ended_at ?? b.created_at) - stamp(a.ended_at ?? a.created_at));
    return lanes;
  }

  #forgetOldest() {
    if (this.#runs.size <= KEPT * 1.2) return;
    for (const run of this.lanes().ended.slice(KEPT)) this.#runs.delete(run.run_id);
  }
}

/** Return the lane a run stands in. */
export function laneOf(run) {
  return OVER.has(run.status) ? "ended" : run.status === "running" ? "running" : "waiting";
}

function stamp(at) {
  return Date.parse(at) || 0;
}
