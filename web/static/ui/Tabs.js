// @ts-check
// Tabs of one thing: arrow keys move between them, and the chosen one's panel is shown.

import { h } from "../dom/h.js";
import { onEnd, scope, watch } from "../dom/live.js";

/** @typedef {{name: string, title: string, make: () => HTMLElement, more?: HTMLElement}} Tab */

let groups = 0;

/**
 * Return {bar, panels}: the row of tabs, and the panels, each made when it is first chosen and kept until the scope ends.
 *
 * @param {{label: string, tabs: Tab[], chosen: () => string, onChoose: (name: string) => void}} given `chosen` may read signals; an unknown name is the first tab
 */
export function Tabs({ label, tabs, chosen, onChoose }) {
  const group = `tabs-${(groups += 1)}`;
  const nameNow = () => (tabs.some(({ name }) => name === chosen()) ? chosen() : tabs[0].name);
  const buttons = tabs.map(({ name, title, more }) => h("button.tab", { type: "button", role: "tab", id: `${group}-${name}`, "aria-controls": `${group}-${name}-panel`, onclick: () => onChoose(name) }, title, more));
  const panels = tabs.map(({ name }) => h("div.tab-panel", { role: "tabpanel", id: `${group}-${name}-panel`, "aria-labelledby": `${group}-${name}`, hidden: true }));
  const bar = h("div.view-tabs", { role: "tablist", "aria-label": label, onkeydown: (/** @type {KeyboardEvent} */ event) => move(event, buttons, (at) => onChoose(tabs[at].name)) }, buttons);
  /** @type {(() => void)[]} */
  const ends = [];
  onEnd(() => ends.forEach((end) => end()));
  watch(() => {
    const now = nameNow();
    for (const [at, { name, make }] of tabs.entries()) {
      const isChosen = name === now;
      buttons[at].setAttribute("aria-selected", String(isChosen));
      buttons[at].tabIndex = isChosen ? 0 : -1;
      panels[at].hidden = !isChosen;
      if (isChosen && !panels[at].firstChild) ends.push(scope(() => { panels[at].append(make()); }));
    }
  });
  return { bar, panels };
}

/** @type {(event: KeyboardEvent, buttons: HTMLElement[], choose: (at: number) => void) => void} */
function move(event, buttons, choose) {
  const at = buttons.indexOf(/** @type {HTMLElement} */ (document.activeElement));
  const next = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: buttons.length - 1 }[event.key];
  if (at < 0 || next === undefined) return;
  event.preventDefault();
  const to = (next + buttons.length) % buttons.length;
  choose(to);
  buttons[to].focus();
}
