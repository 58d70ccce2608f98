import { fill, h, say } from "../dom/h.js";
import { plural } from "../dom/format.js";
import { visible } from "../dom/visible.js";
import { workersOf } from "../hooks/useHealth.js";

/** How the system is, in one line; what is wrong is said first. */
export class HealthLine {
  constructor() {
    this.element = h("p.health", { dataset: { health: "unknown" } }, "…");
    // Where the rail is a drawer nobody sees the line: what is wrong stands beside the composer, too.
    this.trouble = h("p.dock-trouble", { role: "status" });
  }

  /** Show what the server says of itself; `null` when it says nothing, with the reason `gone`. */
  show(health, gone = "server does not answer") {
    const workers = workersOf(health);
    const trouble = health === null ? [gone] : troubles(health, workers);
    this.element.dataset.health = trouble.length ? "bad" : "good";
    say(this.trouble, trouble.length ? visible(sentence(trouble)) : "");
    this.element.title = health?.detail ?? "";
    fill(this.element, h("span.health-dot", { "aria-hidden": "true" }), h("span", {}, trouble.length ? visible(trouble.join(" · ")) : calm(workers)));
  }
}

function sentence(trouble) {
  const said = trouble.join(" · ");
  return `${said[0].toUpperCase()}${said.slice(1)}.`;
}

function calm(workers) {
  return workers === undefined ? "All is well" : `${plural(workers, "worker")} on duty`;
}

function troubles(health, workers) {
  const parts = [["redis", "Redis"], ["database", "database"]].filter(([key]) => isBad(health[key])).map(([, name]) => `${name} does not answer`);
  if (workers === 0) parts.push("no worker is alive");
  return parts.length || isFine(health.status) ? parts : [`health: ${health.status ?? "unknown"}`];
}

// `none` is a Redis that is not needed: everything runs in one process.
function isBad(part) {
  return part !== undefined && part !== null && !/^(ok|none)$/.test(part);
}

function isFine(status) {
  return status === undefined || status === "ok";
}
