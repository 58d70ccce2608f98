// @ts-check
import { h, icon, say } from "../dom/h.js";
import { onEnd, watch } from "../dom/live.js";

let number = 0;

/**
 * Return a button that opens a list of boxes (`isMany`) or of choices, of which `chosen` has the names; `onChoose(names)` gets
 * them after each change. Escape and a click elsewhere close it.
 *
 * @param {{label: () => string, title: string, items: {name: string, title: string}[], chosen: import("../dom/live.js").Signal<ReadonlySet<string>>, isMany?: boolean, onChoose: (names: Set<string>) => void}} given
 */
export function MenuButton({ label, title, items, chosen, isMany = false, onChoose }) {
  const id = `menu-${(number += 1)}`;
  const words = h("span");
  const button = h("button.btn.plain", { type: "button", "aria-expanded": "false", "aria-controls": id, onclick: () => open(panel.hidden) }, words, icon("chevron"));
  const boxes = items.map((item) => h("label", {}, h("input", { type: isMany ? "checkbox" : "radio", name: id, dataset: { name: item.name }, onchange: () => change() }), item.title));
  const panel = h("div.drop-panel", { id, role: isMany ? "group" : "radiogroup", "aria-label": title, hidden: true, onclick: picked }, boxes);
  const element = h("div.drop", { onkeydown: pressed, onfocusout: left }, button, panel);
  const inputs = /** @type {HTMLInputElement[]} */ (boxes.map((box) => box.firstElementChild));

  function open(/** @type {boolean} */ isOpen) {
    panel.hidden = !isOpen;
    button.setAttribute("aria-expanded", String(isOpen));
    if (isOpen) (inputs.find((input) => input.checked) ?? inputs[0])?.focus();
  }
  function change() {
    onChoose(new Set(inputs.filter((input) => input.checked).map((input) => input.dataset.name ?? "")));
  }
  // A pointer is done with one choice; the arrow keys, whose clicks have no detail, go through all of them.
  function picked(/** @type {MouseEvent} */ event) {
    if (!isMany && event.detail) open(false);
  }
  function pressed(/** @type {KeyboardEvent} */ event) {
    if (event.key !== "Escape" || panel.hidden) return;
    event.stopPropagation();
    open(false);
    button.focus();
  }
  function left(/** @type {FocusEvent} */ event) {
    if (event.relatedTarget && !element.contains(/** @type {Node} */ (event.relatedTarget))) open(false);
  }
  const outside = (/** @type {Event} */ event) => !element.contains(/** @type {Node} */ (event.target)) && open(false);
  document.addEventListener("pointerdown", outside);
  onEnd(() => document.removeEventListener("pointerdown", outside));
  watch(() => {
    say(words, label());
    for (const input of inputs) input.checked = chosen.value.has(input.dataset.name ?? "");
  });
  return element;
}
