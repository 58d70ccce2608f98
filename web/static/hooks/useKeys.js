// Plain keys while no field has the focus, Esc while one has.

/** Do what `actionOf(key)` returns for a key, if anything; typing ends with Esc and swallows everything else but Ctrl K. */
export function useKeys(actionOf, onPalette) {
  addEventListener("keydown", (event) => {
    if ((event.ctrlKey || event.metaKey) && !event.altKey && !event.shiftKey && event.key === "k") {
      event.preventDefault();
      return onPalette();
    }
    if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing || event.defaultPrevented) return;
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

function isTyping(target) {
  return target instanceof HTMLElement && (target.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName));
}
