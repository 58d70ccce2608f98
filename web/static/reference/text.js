// @ts-check
// Descriptions come from docstrings: paragraphs, with code between backquotes.

import { h } from "../dom/h.js";

/** @type {(text: string | null | undefined) => HTMLElement[]} Returns a description as paragraphs. */
export function paragraphs(text) {
  return String(text ?? "").split(/\n{2,}/).filter(Boolean).map((part) => h("p", {}, inline(part)));
}

/** @type {(text: string | null | undefined) => import("../dom/h.js").Child[]} Returns a text with its code marked. */
export function inline(text) {
  /** @type {(others: (part: string) => import("../dom/h.js").Child) => (part: string, index: number) => import("../dom/h.js").Child} */
  const coded = (others) => (part, index) => (index % 2 ? h("code", {}, part) : others(part));
  const plain = (/** @type {string} */ part) => part.split("`").map(coded((one) => one));
  return String(text ?? "").split("``").map(coded(plain));
}
