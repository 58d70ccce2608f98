// Plain keys while no field has the focus, Esc while one has.

/** Bind {key: action}; `typing` ends with Esc and swallows everything else. */
export function useKeys(bindings) {
  addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing || event.defaultPrevented) return;
    if (isTyping(event.target)) {
      if (event.key === "Escape") event.target.blur();
      return;
    }
    const action = bindings[event.key];
    if (!action || (document.querySelector("dialog[open]") && event.key !== "?")) return;
    event.preventDefault();
    action(event);
  });
}

function isTyping(target) {
  return target instanceof HTMLElement && (target.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName));
}
