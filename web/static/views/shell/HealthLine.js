// @ts-check
import { fill, h, say } from "../../dom/h.js";
import { visible } from "../../dom/visible.js";
import { fleetOf, fleetWords, isStarting } from "../../state/fleet.js";

/** @import { Health } from "../../../../clients/typescript/src/types.js" */
/** @typedef {ReturnType<typeof fleetOf>} Fleet */

/** The state of the system in one line; problems come first. */
export class HealthLine {
  constructor() {
    this.element = h("p.health", { dataset: { health: "unknown" } }, "…");
    // Where the rail is a closed drawer the line is hidden: problems are shown beside the composer, too.
    this.trouble = h("p.dock-trouble", { role: "status" });
  }

  /** Show what the server says of itself; `null` when it says nothing, with the reason `gone`. */
  show(/** @type {Health | null} */ health, gone = "server does not answer") {
    const fleet = fleetOf(health);
    const trouble = health === null ? [gone] : troubles(health, fleet);
    const isLate = /^observer /.test(trouble[0]); // and nothing worse, which would stand before it
    this.element.dataset.health = this.trouble.dataset.health = isLate ? "late" : trouble.length ? "bad" : isStarting(fleet) ? "starting" : "good";
    say(this.trouble, trouble.length ? visible(sentence(trouble)) : "");
    this.element.title = this.trouble.title = visible(causes(health ?? {}).join(" "));
    fill(this.element, h("span.health-dot", { "aria-hidden": "true" }), h(isLate ? "a" : "span", isLate ? { href: "#/observers" } : {}, trouble.length ? visible(trouble.join(" · ")) : capital(fleetWords(fleet))));
  }
}

function sentence(/** @type {string[]} */ trouble) {
  return `${capital(trouble.join(" · "))}.`;
}

function capital(/** @type {string} */ words) {
  return words[0].toUpperCase() + words.slice(1);
}

/** @type {(health: Health, fleet: Fleet) => string[]} */
function troubles(health, fleet) {
  const parts = [[health.redis, "Redis"], [health.database, "database"]].filter(([part]) => isBad(part)).map(([, name]) => `${name} does not answer`);
  if (fleet.alive === 0 && !isStarting(fleet)) parts.push(fleetWords(fleet));
  parts.push(...lateObserver(health.slowest_observer));
  return parts.length || isFine(health.status) || isStarting(fleet) ? parts : [`health: ${health.status ?? "unknown"}`];
}

// An observer is late where people wait for what it delivers; runs do not wait for it.
function lateObserver(/** @type {Health["slowest_observer"]} */ observer) {
  if (!observer?.is_late) return [];
  const { name, state, behind_s, dead_letters } = observer;
  const behind = behind_s && `${behind_s < 90 ? `${Math.round(behind_s)} s` : `${Math.round(behind_s / 60)} min`} behind`;
  const letters = dead_letters && `left with ${dead_letters} dead ${dead_letters === 1 ? "letter" : "letters"}`;
  return [`observer ${name} is ${[state !== "running" && state, behind || letters].filter(Boolean).join(", ")}`];
}

// What the server names to those who may know of machines. A key that no worker has does not degrade it.
function causes(/** @type {Partial<Health>} */ { detail, redis, workers = 0, missing_keys: keys = {} }) {
  const uneven = Object.entries(keys).filter(([, entry]) => entry.workers < workers);
  return [
    detail && sentence([detail.replace(/\.$/, "")]),
    isBad(redis) && sentence([`Redis: ${redis.replaceAll("_", " ")}`]),
    ...uneven.map(([name, entry]) => sentence([`${name} is not set in ${entry.workers} of ${workers} workers; needed by ${entry.agents.join(", ")}`])),
  ].filter(Boolean);
}

// `none` is a Redis that is not needed: everything runs in one process.
/** @type {(part: string | null | undefined) => part is string} */
function isBad(part) {
  return part !== undefined && part !== null && !/^(ok|none)$/.test(part);
}

function isFine(/** @type {string | undefined} */ status) {
  return status === undefined || status === "ok";
}
