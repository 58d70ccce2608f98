// @ts-check
import { plural } from "../../dom/format.js";
import { fill, h } from "../../dom/h.js";
import { watch } from "../../dom/live.js";
import { visible } from "../../dom/visible.js";

/** @typedef {{name: string, state: "ok" | "warn" | "bad", words: string}} Part */

const REDIS = /** @type {Record<string, Part>} */ ({
  ok: { name: "Redis", state: "ok", words: "answers" },
  none: { name: "Redis", state: "ok", words: "none: one process" },
  unreachable: { name: "Redis", state: "bad", words: "does not answer" },
  refuses_writes: { name: "Redis", state: "bad", words: "refuses writes" },
  shared: { name: "Redis", state: "bad", words: "shared with another installation" },
});
const WORDS = { ok: "well", warn: "look at it", bad: "broken" };

/** What Callboard is made of, and how each part is. */
export class Parts {
  /** @param {import("../../dom/live.js").Signal<{value: any}>} state */
  constructor(state) {
    this.element = h("ul.parts");
    watch(() => fill(this.element, state.value.value ? partsOf(state.value.value).map(({ name, state: own, words }) => h("li", { dataset: { state: own } }, h(`i.dot.is-${own}`, {}, h("span.offscreen", {}, WORDS[own])), h("span.part-name.clip", { title: name }, name), h("span", { title: words }, words))) : []));
  }
}

/**
 * Return the parts that the server's health tells of; what it does not name to this reader is left out.
 *
 * @param {Record<string, any>} health
 * @returns {Part[]}
 */
export function partsOf({ database, redis, workers, viewers, mcp_servers: servers = {} }) {
  const parts = [database && { name: "Database", state: database === "ok" ? "ok" : "bad", words: database === "ok" ? "takes writes" : visible(database) }, redis && REDIS[redis], workers !== undefined && { name: "Workers", state: workers ? "ok" : "warn", words: workers ? `${workers} alive` : "none is alive" }, viewers !== undefined && { name: "This web process", state: "ok", words: plural(viewers, "viewer") }];
  for (const [name, server] of Object.entries(servers)) if (server.state !== "disabled") parts.push({ name: `MCP ${visible(name)}`, state: ["ready", "idle", "configured", "starting"].includes(server.state) ? "ok" : "warn", words: server.state.replace(/_/g, " ") });
  return /** @type {Part[]} */ (parts.filter(Boolean));
}
