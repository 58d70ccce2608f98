// @ts-check
import { h, say } from "./h.js";

/** @type {(text: () => string | Promise<string>, what?: string) => HTMLButtonElement} Returns a button that copies what `text()` gives, at once or later, and says whether it did. */
export function copyButton(text, what = "Copy") {
  const button = h("button.quiet.copy", { type: "button", onclick: copy }, what);
  async function copy(/** @type {Event} */ event) {
    event.stopPropagation();
    say(button, (await toClipboard(text).catch(() => false)) ? "Copied" : "Not allowed");
    setTimeout(() => say(button, what), 1600);
  }
  return button;
}

/** @type {(find: () => string | Promise<string>) => Promise<boolean>} Copies what `find()` gives, and returns whether that was possible. */
async function toClipboard(find) {
  const text = await find();
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return viaSelection(text);
  }
}

// Without HTTPS there is no clipboard interface outside the machine itself.
/** @type {(text: string) => boolean} */
function viaSelection(text) {
  const area = h("textarea.offscreen", { "aria-hidden": "true", tabindex: "-1" });
  const focused = /** @type {HTMLElement} */ (document.activeElement);
  area.value = text;
  document.body.append(area);
  area.select();
  const done = document.execCommand("copy");
  area.remove();
  focused.focus({ preventScroll: true }); // it went with the area
  return done;
}
