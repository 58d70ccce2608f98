// @ts-check
import { h } from "../dom/h.js";
import { watch } from "../dom/live.js";

/**
 * Return a list beside what is chosen in it; on a phone they are two screens, and a link leads back to the list.
 *
 * @param {{list: HTMLElement, detail: HTMLElement, isOpen: () => boolean, back: {href: string, words: string}}} given `isOpen` may read signals: whether the address names something of the list
 */
export function Split({ list, detail, isOpen, back }) {
  const element = h("div.split", {}, h("div.split-list", {}, list), h("div.split-detail", {}, h("a.split-back.quiet", { href: back.href }, back.words), detail));
  watch(() => element.toggleAttribute("data-open", isOpen()));
  return element;
}
