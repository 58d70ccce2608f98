// Descriptions come from docstrings: paragraphs, with code between backquotes.

import { h } from "../dom/h.js";

/** Return a description as paragraphs. */
export function paragraphs(text) {
  return String(text ?? "").split(/\n{2,}/).filter(Boolean).map((part) => h("p", {}, inline(part)));
}

/** Return a text with its code marked. */
export function inline(text) {
  const coded = (others) => (part, index) => (index % 2 ? h("code", {}, part) : others(part));
  const plain = (part) => part.split("`").map(coded((one) => one));
  return String(text ?? "").split("``").map(coded(plain));
}
