// @ts-check
// What plain keys do: they act on what is shown, or lead to a place.

import { useKeys } from "../../dom/useKeys.js";

/** @typedef {import("./App.js").App} App */
/** @typedef {Record<string, (event: KeyboardEvent) => void>} Keys */

/** Follow the keys while no field has the focus. */
export function bindKeys(/** @type {App} */ app) {
  const /** @type {Keys} */ ofTalk = { j: () => app.board.step(1), k: () => app.board.step(-1), ...app.talk.keys };
  const /** @type {Keys} */ keys = {
    "/": () => (document.body.dataset.page === "view" ? showPalette(app) : search(app)),
    n: () => { location.hash = "#/"; },
    b: () => { location.hash = document.body.dataset.page === "talk" ? "#/board" : app.talk.hash; },
    "?": showShortcuts,
    Escape: () => app.menu(false),
  };
  useKeys((/** @type {string} */ key) => (document.body.dataset.page === "talk" ? ofTalk : app.views.view?.keys)?.[key] ?? keys[key], (/** @type {() => string} */ typed) => showPalette(app, typed));
}

/** Load the palette and open it with what was typed meanwhile. */
export async function showPalette(/** @type {App} */ app, typed = () => "") {
  const { openPalette } = await import("../../ui/Palette.js");
  await openPalette(app, typed);
}

async function showShortcuts() {
  const { toggleShortcuts } = await import("./Shortcuts.js");
  toggleShortcuts();
}

function search(/** @type {App} */ { menu, place, threads }) {
  if (matchMedia("(max-width: 1120px)").matches) menu(true);
  if (matchMedia("(max-width: 760px)").matches) place.tab("threads");
  threads.search.focus();
}
