// @ts-check
import { duration } from "../../dom/format.js";
import { fill, h, icon } from "../../dom/h.js";
import { watch } from "../../dom/live.js";
import { visible } from "../../dom/visible.js";
import { getEvents } from "../../services/api.js";
import { resource } from "../../services/resource.js";
import { shortly } from "../../state/inbox.js";
import { applyEvent, newStory } from "../../state/story.js";

const MOST_EVENTS = 2000;
const MOST_ITEMS = 6;
const MOST_CHARS = 400;
const MARKS = /** @type {Record<string, string>} */ ({ done: "succeeded", failed: "failed", refused: "refused", unknown: "unknown", cancelled: "cancelled" });

/** What led to a question: the message of the run, and what the agent thought, said and did before it asked. */
export class Story {
  constructor(/** @type {any} */ question) {
    this.element = h("section.block", { hidden: true });
    const { state } = resource(() => getEvents(question.run_id, MOST_EVENTS));
    watch(() => {
      if (!state.value.value) return;
      const story = newStory();
      for (const event of state.value.value) applyEvent(story, event);
      const items = itemsBefore(story, question.approval_id);
      const input = story.input || question.title || "";
      this.element.hidden = !input && !items.length;
      fill(this.element, h("h3.caps", {}, "Why it wants to"), h("blockquote", {}, input && h("p.said-first", { dir: "auto" }, visible(shortened(input))), items));
    });
  }
}

/** @type {(story: any, approvalId: string) => any[]} */
function itemsBefore(story, approvalId) {
  const own = story.items.find((/** @type {any} */ item) => item.approval_id === approvalId);
  const end = own ? story.items.findIndex((/** @type {any} */ item) => item.kind === "tool" && item.call_id === own.call_id) : -1;
  const before = story.items.slice(0, end < 0 ? undefined : end).filter((/** @type {any} */ item) => !item.withdrawn);
  return before.map(lineOf).filter(Boolean).slice(-MOST_ITEMS);
}

/** @type {(item: any) => HTMLElement | null} */
function lineOf(item) {
  if (item.kind === "thinking") return h("p.thought", { dir: "auto" }, icon("chevron"), `Thought${item.startedAt && item.endedAt ? ` for ${duration(Date.parse(item.endedAt) - Date.parse(item.startedAt))}` : ""} — ${visible(shortened(item.text))}`);
  if (item.kind === "text") return h("p", { dir: "auto" }, visible(shortened(item.text)));
  if (item.kind !== "tool" || !item.outcome) return null;
  const args = Object.values(item.arguments ?? {}).map((value) => shortly(value).slice(0, 40)).join(", ");
  return h("p.did", {}, icon(MARKS[item.outcome] ?? "unknown"), h("span", {}, h("code", {}, visible(item.name)), ` (${visible(args.slice(0, 120))})`, item.result !== undefined && h("span.soft", { dir: "auto" }, ` → ${visible(shortly(item.result).slice(0, 160))}`)));
}

/** @type {(text: string) => string} */
function shortened(text) {
  return text.length > MOST_CHARS ? `${text.slice(0, MOST_CHARS)}…` : text;
}
