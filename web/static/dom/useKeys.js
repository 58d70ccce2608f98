// @ts-check
// Plain keys while no field has the focus, Esc while one has.

/**
 * Do what `actionOf(key)` returns for a key, if anything; typing ends with Esc and swallows everything else but Ctrl K.
 *
 * @param {(key: string) => ((event: KeyboardEvent) => void) | undefined} actionOf
 * @param {(typed: () => string) => Promise<unknown>} onPalette called with what gives the words typed until it resolves
 */
export function useKeys(actionOf, onPalette) {
  let typed = /** @type {string | null} */ (null); // while the palette is loaded: its first words, and no keys of the page
  addEventListener("keydown", (event) => {
    const isHeld = event.ctrlKey || event.metaKey;
    if (isHeld && !event.altKey && !event.shiftKey && event.key === "k") {
      event.preventDefault();
      typed = "";
      return onPalette(/** @type {() => string} */ (() => typed)).finally(() => { typed = null; });
    }
    if (typed !== null && !isHeld && event.key.length === 1) {
      event.preventDefault();
      typed += event.key;
    }
    if (isHeld || event.altKey || event.isComposing || event.defaultPrevented) return;
    if (isTyping(event.target)) {
      if (event.key === "Escape") event.target.blur();
      return;
    }
    const action = actionOf(event.key);
    if (!action || (document.querySelector("dialog[open]") && event.key !== "?")) return;
    event.preventDefault();
    action(event);
  });
}

/** @type {(target: EventTarget | null) => target is HTMLElement} */
function isTyping(target) {
  return target instanceof HTMLElement && /** @type {HTMLInputElement} */ (target).type !== "checkbox" && (target.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName));
}
