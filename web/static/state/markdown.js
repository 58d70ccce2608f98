// @ts-check
// A conversation as Markdown: who said what, each call of a tool in one line.

import { duration } from "../dom/format.js";
import { visible } from "../dom/visible.js";
import { ownerOf } from "./me.js";

const MOST_CHARS = 160;
/** @typedef {import("./definitions.js").NameOf} NameOf */

/** Return what an agent answered: its texts as it wrote them, or its structured answer. */
export function answerOf(/** @type {any} */ story) {
  const texts = story.items.filter(isText).map((/** @type {any} */ item) => item.text.trim()).filter(Boolean);
  const { output } = story.end ?? {};
  if (texts.length || output === null || output === undefined) return texts.join("\n\n");
  return typeof output === "string" ? output : fenced(JSON.stringify(output, null, 2));
}

/** @type {(conversation: {title: string, stories: any[]}, nameOf: NameOf) => string} Returns a whole conversation. */
export function conversationOf({ title, stories }, nameOf) {
  const turns = stories.filter((story) => !story.unsent).flatMap((story) => turnOf(story, nameOf));
  return [`# ${lineOf(title || "Conversation")}`, ...turns].join("\n\n") + "\n";
}

/** @type {(story: any, nameOf: NameOf) => string[]} */
function turnOf(story, nameOf) {
  const items = story.items.filter((/** @type {any} */ item) => !item.withdrawn);
  /** @type {string[]} */
  const parts = [];
  let hadCall = false;
  for (const item of items) {
    const isCall = item.kind === "tool" && !item.routed;
    const text = isCall ? callOf(item) : isText(item) ? item.text.trim() : item.kind === "error" ? `> ${lineOf(item.message ?? item.code)}` : "";
    if (text && isCall && hadCall) parts.push(`${parts.pop()}\n${text}`);
    else if (text) parts.push(text);
    if (text) hadCall = isCall;
  }
  if (!items.some(isText)) parts.push(answerOf(story));
  const { status } = story.end ?? story;
  if (status !== "succeeded") parts.push(`*(${status})*`);
  const said = parts.filter(Boolean);
  return [story.input && `**${lineOf(ownerOf(story.principal))}**`, story.input, said.length && `**${lineOf(nameOf(story.agent, story.agent_name))}**`, ...said].filter(Boolean);
}

/** @type {(item: any) => string} */
function callOf({ name, arguments: args = {}, outcome, result, duration_ms: ms }) {
  const given = Object.entries(args).map(([key, value]) => `${key}: ${brief(value)}`).join(", ");
  const facts = [outcome && outcome !== "done" && outcome, ms !== undefined && duration(ms)].filter(Boolean).join(", ");
  return `- ${code(`${name ?? "tool"}(${given})`)}${result === undefined || result === null || result === "" ? "" : ` → ${code(brief(result))}`}${facts && ` (${facts})`}`;
}

function isText(/** @type {any} */ item) {
  return item.kind === "text" && !item.withdrawn && Boolean(item.text.trim());
}

/** @type {(value: unknown) => string} */
function brief(value) {
  const text = (typeof value === "string" ? value : JSON.stringify(value) ?? "").replace(/\s+/g, " ").trim();
  return visible(text.length > MOST_CHARS ? `${text.slice(0, MOST_CHARS)}…` : text);
}

// What stands in code may have backticks of its own: the fence has one more.
/** @type {(text: string) => string} */
function code(text) {
  const fence = "`".repeat(1 + longest(text));
  return fence.length > 1 ? `${fence} ${text} ${fence}` : `${fence}${text}${fence}`;
}

/** @type {(text: string) => string} */
function fenced(text) {
  const fence = "`".repeat(Math.max(3, 1 + longest(text)));
  return `${fence}json\n${text}\n${fence}`;
}

/** @type {(text: string) => number} */
function longest(text) {
  return Math.max(0, ...(text.match(/`+/g) ?? []).map((run) => run.length));
}

// A name or a title is one line, and no markup.
/** @type {(text: string) => string} */
function lineOf(text) {
  return visible(String(text)).replace(/\s+/g, " ").replace(/[\\`*_[\]<>#|]/g, "\\$&").trim();
}
