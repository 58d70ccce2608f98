// @ts-check
import { fill, h, icon, say } from "../../dom/h.js";
import { copyButton } from "../../dom/copyButton.js";
import { duration, ticking } from "../../dom/format.js";
import { useTicker } from "../../dom/useTicker.js";
import { asJson } from "../../dom/json.js";
import { visible } from "../../dom/visible.js";
import { ArgumentList, argumentLine } from "../../ui/ArgumentList.js";
import { ToolResult } from "./ToolResult.js";

/** @typedef {import("../../state/story.js").ToolItem} Item */

const SHOWN_LINES = 3;

/** @type {Record<string, string[]>} */
const LOOKS = {
  running: ["running", "is-live"],
  done: ["succeeded", "is-live"],
  failed: ["failed", "is-bad"],
  refused: ["refused", "is-wait"],
  unknown: ["unknown", "is-wait"],
  asked: ["waiting", "is-wait"],
  stopped: ["cancelled", "is-faint"],
  lost: ["waiting", "is-wait"],
};

/** @type {Record<string, string>} */
const MEANING = {
  refused: "Not run. A person rejected the call.",
  unknown: "The outcome is unknown: the worker was lost while the tool ran. Check before you repeat the call.",
};

/** A tool call: name, arguments, effect class, result and duration. */
export class ToolCard {
  #open = false;
  /** @type {Item} */ #item = /** @type {any} */ (null);
  /** @type {(() => void) | null} */ #end = null;

  constructor() {
    this.element = h("section.tool");
    this.clock = h("span");
  }

  update(/** @type {Item} */ item) {
    this.#item = item;
    this.#paint();
  }

  #paint() {
    const item = this.#item;
    const state = item.outcome === "cancelled" ? "stopped" : item.outcome ?? (item.closed ? "stopped" : item.asked ? "asked" : item.lost ? "lost" : "running");
    // While a person is asked about the call, the question is its card; the answer of a route is the run's text.
    this.element.hidden = state === "asked" || Boolean(item.routed && (state === "running" || state === "done"));
    this.element.className = `tool ${LOOKS[state]?.[1] ?? ""} is-${state}${item.withdrawn ? " is-withdrawn" : ""}`;
    this.element.setAttribute("aria-label", `Tool ${item.name}, ${stateWord(item, state)}`);
    const focused = this.element.contains(document.activeElement) && document.activeElement?.tagName === "BUTTON";
    fill(this.element, this.#header(item, state), this.#open && this.#details(item), meaningOf(item, state), policyOf(item, state), progressOf(item, state), this.#lines(item, state), ToolResult(item.result, this.#open, this.#toggle));
    this.#count(state === "running");
    if (focused) /** @type {HTMLElement | null} */ (this.element.querySelector("button.tool-head"))?.focus();
  }

  #header(/** @type {Item} */ item, /** @type {string} */ state) {
    return h("button.tool-head", { type: "button", "aria-expanded": String(this.#open), onclick: this.#toggle },
      icon(LOOKS[state]?.[0] ?? "unknown", state === "running" ? "is-pulsing" : ""),
      h("span.tool-name", {}, visible(item.name ?? "tool")),
      h("em", {}, this.#open ? "" : argumentLine(item.arguments)),
      h(`span.badge${item.effect === "unsafe" && state !== "done" ? ".is-unsafe" : ""}`, {}, badgeOf(item, state), this.clock));
  }

  // How long the call is under way, once a second, for as long as the card is there.
  #count(/** @type {boolean} */ isRunning) {
    const { startedAt } = this.#item;
    const tick = () => {
      if (!this.element.isConnected) this.#count(false);
      else say(this.clock, ` · ${ticking(Date.now() - Date.parse(/** @type {string} */ (startedAt)))}`);
    };
    if (!isRunning || !startedAt) {
      this.#end?.();
      this.#end = null;
      return say(this.clock, "");
    }
    this.#end ??= useTicker(tick);
    if (this.element.isConnected) tick();
  }

  #toggle = () => {
    this.#open = !this.#open;
    this.#paint();
  };

  #details(/** @type {Item} */ item) {
    return h("div.tool-args", {}, ArgumentList(item.arguments), h("div.row", {}, copyButton(() => asJson(item.arguments ?? {}), "Copy arguments")));
  }

  // What the tool logged: its last lines while it runs, all of them when the card is open.
  #lines(/** @type {Item} */ item, /** @type {string} */ state) {
    const lines = this.#open ? item.lines : state === "running" ? item.lines?.slice(-SHOWN_LINES) : null;
    if (!lines?.length) return null;
    return h("ol.tool-lines", { "aria-label": "What the tool logged" }, lines.map((line) => h("li", {},
      line.left_out && h("em", {}, `${line.left_out} lines before it are left out. `),
      h("b", {}, visible(line.logger ? `${line.level} ${line.logger}` : line.level)), " ", visible(line.message))));
  }
}

function badgeOf(/** @type {Item} */ item, /** @type {string} */ state) {
  const words = [item.edited && "edited", item.effect, stateWord(item, state)];
  return words.filter(Boolean).join(" · ");
}

function stateWord(/** @type {Item} */ item, /** @type {string} */ state) {
  if (state === "done") return item.duration_ms === undefined ? "done" : duration(item.duration_ms);
  if (state === "running") return item.arguments ? "running" : "preparing";
  if (state === "unknown") return "outcome unknown";
  if (state === "asked") return item.asked === "call" ? "waits for approval" : item.asked === "form" ? "waits for an answer" : "cut off";
  if (state === "lost") return "its worker was lost";
  return state === "failed" && item.duration_ms !== undefined ? `failed · ${duration(item.duration_ms)}` : state;
}

function meaningOf(/** @type {Item} */ item, /** @type {string} */ state) {
  // A result in words explains it better.
  const meaning = typeof item.result === "string" && item.result ? null : MEANING[state];
  return meaning && h("p.tool-meaning", {}, meaning);
}

function progressOf(/** @type {Item} */ { progress, name }, /** @type {string} */ state) {
  if (!progress || state !== "running") return null;
  const { done, total, message } = /** @type {Required<import("../../state/story.js").Progress>} */ (progress);
  const isMeasured = done >= 0 && total > 0;
  const words = done === undefined ? "" : total > 0 ? `${done} of ${total}` : String(done);
  return h("div.tool-progress", {},
    h("progress", { "aria-label": `Progress of ${name}`, ...(isMeasured ? { max: String(total), value: String(Math.min(done, total)) } : {}) }),
    h("span", {}, visible([words, message].filter(Boolean).join(" · "))));
}

/** @type {(call: Partial<Item>, state: string) => HTMLElement | null} Returns what the policy decided about a call, with the rule; a blocked call's result says why. */
export function policyOf({ policy, result }, state) {
  if (!policy) return null;
  const isSaid = state === "refused" && typeof result === "string" && result;
  const why = policy.reason && !isSaid ? ` ${visible(policy.reason)}` : "";
  return h("p.tool-policy", {}, `Policy: ${policyWords(policy)}.${why} `, h("code", { title: "The rule that decided" }, visible(policy.rule)));
}

function policyWords(/** @type {import("../../state/story.js").Policy} */ { verdict, changed }) {
  const names = (changed ?? []).map((name) => visible(name)).join(", ");
  if (verdict === "constrain") return names ? `changed ${names}` : "limited its time";
  const words = { require_approval: "needs an approval", block: "blocked", halt: "ended the run" }[verdict] ?? visible(verdict);
  return names && verdict === "require_approval" ? `${words}; changed ${names}` : words;
}
