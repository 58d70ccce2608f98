// @ts-check
// The field above many agents on the start page. The page makes their list anew with each choice: what was typed, and how
// far the list was scrolled, stays.

import { h, say } from "../../dom/h.js";

const field = /** @type {HTMLInputElement} */ (h("input.search", { type: "search", "aria-label": "Find an agent", dir: "auto", spellcheck: "false", autocomplete: "off", maxlength: "200", oninput: () => find(), onkeydown: press }));
const none = h("p.faint", { role: "status" });
let list = /** @type {HTMLElement | null} */ (null);
let top = -1; // not known: the chosen one is in view

/** @type {(agents: HTMLElement, place: HTMLElement) => void} Puts the field into its place above the list. */
export function addFinder(agents, place) {
  const wasHeld = document.activeElement === field;
  list = agents;
  field.placeholder = `Find one of ${agents.children.length} agents`;
  place.replaceChildren(field, none);
  find();
  queueMicrotask(() => resume(agents, wasHeld)); // when the list is on the page
  for (const type of ["scroll", "click"]) agents.addEventListener(type, () => { if (agents.isConnected) top = agents.scrollTop; }, { capture: true, passive: true });
}

/** @type {(agents: HTMLElement, wasHeld: boolean) => void} */
function resume(agents, wasHeld) {
  const chosen = /** @type {HTMLElement | null} */ (agents.querySelector("[aria-checked=true]"));
  agents.scrollTop = top < 0 && chosen ? chosen.offsetTop - agents.offsetTop : top;
  if (wasHeld) field.focus({ preventScroll: true });
  else if (agents.contains(document.activeElement)) document.activeElement?.scrollIntoView({ block: "nearest" });
}

function cards() {
  return /** @type {HTMLElement[]} */ ([...(list?.children ?? [])]);
}

// Where the chosen one is not found, Tab leads to the first that is.
function find() {
  const words = field.value.toLocaleLowerCase().split(/\s+/).filter(Boolean);
  for (const card of cards()) {
    const text = `${card.textContent} ${card.dataset.agent}`.toLocaleLowerCase();
    card.hidden = !words.every((word) => text.includes(word));
  }
  const found = cards().filter((card) => !card.hidden);
  const chosen = found.find((card) => card.getAttribute("aria-checked") === "true") ?? found[0];
  for (const card of cards()) card.tabIndex = card === chosen ? 0 : -1;
  say(none, found.length ? "" : "No agent has these words.");
}

// Enter takes the first that is found, the arrow goes there; Escape finds all again.
function press(/** @type {KeyboardEvent} */ event) {
  const first = cards().find((card) => !card.hidden);
  if (event.key === "Escape" && field.value) event.stopPropagation(), field.value = "", find();
  else if (event.key === "ArrowDown") first?.focus();
  else if (event.key === "Enter") first?.click();
  else return;
  event.preventDefault();
}
