// @ts-check
// What the views of agents, tools, workflows and observers share: a list, and beside it the chosen thing.

import { LoadingIndicator } from "../ui/LoadingIndicator.js";
import { Notice } from "../ui/Notice.js";
import { count } from "../dom/format.js";
import { fill, h, say } from "../dom/h.js";
import { each, signal, watch } from "../dom/live.js";
import { addStyles } from "../dom/styles.js";
import { visible } from "../dom/visible.js";
import { addressOf } from "../router.js";
import { errorWords } from "../state/words.js";
import { List } from "../ui/List.js";
import { Split } from "../ui/Split.js";

/** @typedef {import("../router.js").Route} Route */

/** Resolves when the sheet of these views applies. */
export const styles = addStyles("/static/style/catalogue.css");

/**
 * Return a view. `list` is a resource of an array; `rowsOf(items)` makes the rows of the list; `open(key, {item, query})` the
 * element of the one with this key, once for each visit: `item()` is the newest of the list's, `query()` the address's.
 *
 * @param {{name: string, title: string, noun: string, param: string, list: {state: import("../dom/live.js").Signal<any>, refresh: () => void}, rowsOf: (items: any) => import("../ui/List.js").ListRow[], find: (items: any, key: string) => any, open: (key: string, given: {item: () => any, query: () => Record<string, string>}) => HTMLElement, empty: () => any[], keys?: Record<string, () => void>}} given
 */
export function catalogue({ name, title, noun, param, list, rowsOf, find, open, empty, keys = {} }) {
  const route = signal(/** @type {Route | null} */ (null));
  const isWide = matchMedia("(min-width: 761px)");
  const key = signal(""), rows = signal(/** @type {import("../ui/List.js").ListRow[]} */ ([]));
  const named = () => route.value?.params[param] ?? "";
  const newest = signal(/** @type {any} */ (undefined));
  const item = () => newest.value;
  watch(() => renew(newest, list.state.value.value && find(list.state.value.value, key.value)));
  watch(() => renew(rows, list.state.value.value ? rowsOf(list.state.value.value) : []));
  watch(() => { key.value = named() || (isWide.matches && rows.value.find(({ isHeading, sign }) => !isHeading && sign !== "failed")?.key) || ""; });

  const detail = h("div.detail"), note = h("div.view-note"), total = h("small");
  const isThere = signal(false);
  watch(() => { isThere.value = item() !== undefined; });
  const visits = () => (key.value && list.state.value.value !== undefined ? [{ key: key.value, isThere: isThere.value }] : []);
  each(detail, visits, (visit) => JSON.stringify(visit), (visit) => (visit.peek().isThere ? open(visit.peek().key, { item, query: () => route.value?.query ?? {} }) : nothing(noun, visit.peek().key)));
  watch(() => showNote(note, list, rows.value.length > 0, empty));
  watch(() => say(total, rows.value.length ? count(rows.value.filter(({ isHeading, sign }) => !isHeading && sign !== "failed").length) : ""));

  const index = new List({ label: title, hint: `Find ${article(noun)} ${noun}`, rows: () => rows.value, chosen: () => key.value });
  const split = Split({ list: index.element, detail, isOpen: () => named() !== "", back: { href: addressOf(`/${name}`), words: `‹ ${title}` } });
  watch(() => { split.hidden = !rows.value.length && !named(); });
  return {
    title,
    element: h(`div.view-frame.view-catalogue.view-${name}`, {}, h("header.view-head", {}, h("h1", {}, title, " ", total)), note, split),
    keys: { "/": () => index.focus(), j: () => index.step(1), k: () => index.step(-1), ...keys },
    show: (/** @type {Route} */ next) => { route.value = next; },
  };
}

/** @type {(note: HTMLElement, list: {state: any, refresh: () => void}, hasRows: boolean, empty: () => any[]) => void} */
function showNote(note, { state, refresh }, hasRows, empty) {
  const { value, error, isLoading } = state.value;
  if (error) fill(note, Notice({ title: value ? "This may be old" : "This could not be read", text: errorWords(error), code: error.code, actions: [["Try again", refresh]] }));
  else if (value === undefined) fill(note, isLoading && LoadingIndicator("Reading"));
  else fill(note, hasRows ? null : empty());
}

/**
 * Return the rows of definitions: first those that cannot be used, each with the place in its file and what is wrong there.
 *
 * @param {any[]} usable sorted by name
 * @param {any[]} problems
 * @param {(id: string) => string} hrefOf
 * @param {(each: any) => string} [wordsOf]
 * @returns {import("../ui/List.js").ListRow[]}
 */
export function definitionRows(usable, problems, hrefOf, wordsOf = () => "") {
  const ids = new Set(usable.map(({ id }) => id)), names = usable.map(({ name }) => name.trim().toLocaleLowerCase());
  const broken = problems.filter(({ id }) => !ids.has(id)).map(({ id, detail }) => ({ key: id, title: id, note: detail.replace(/^\S*\//, ""), href: hrefOf(id), sign: "failed", signWords: "cannot be used" }));
  const rows = usable.map((each, at) => ({
    key: each.id,
    title: each.name,
    code: names[at] === each.id && names.indexOf(names[at]) === names.lastIndexOf(names[at]) ? "" : each.id,
    note: each.problem ? "its file cannot be used" : each.description,
    words: wordsOf(each),
    href: hrefOf(each.id),
    ...(each.problem && { sign: "waiting", signWords: "serves an earlier version" }),
  }));
  return [...(broken.length ? [{ key: " broken", title: "Cannot be used", isHeading: true }, ...broken, { key: " usable", title: "Can be used", isHeading: true }] : []), ...rows];
}

/** Return the one with this id; one whose file is broken may serve as an earlier version: then it is in both lists. */
export function definitionOf(/** @type {any[]} */ usable, /** @type {any[]} */ problems, /** @type {string} */ id) {
  const [item, broken] = [usable, problems].map((list) => list.find((each) => each.id === id));
  return (item || broken) && { ...item, broken };
}

/** Return what is wrong with the file of one, or nothing. */
export function troubleOf(/** @type {any} */ { broken, name, problem } = {}) {
  if (!broken) return problem && Notice({ tone: "wait", text: problem });
  return Notice({ title: name === undefined ? "Its file cannot be used" : "Its file cannot be used, so an earlier version serves", text: broken.detail, code: broken.code });
}

// What says the same is not drawn again: it may have the focus.
/** @type {(kept: import("../dom/live.js").Signal<any>, value: any) => void} */
export function renew(kept, value) {
  if (JSON.stringify(value) !== JSON.stringify(kept.peek())) kept.value = value;
}

/** @type {(noun: string, key: string) => HTMLElement} */
function nothing(noun, key) {
  return h("div.view-note", {}, Notice({ tone: "plain", title: `There is no ${noun} “${visible(key)}”`, text: "It may be mistyped, removed, or not yours to see." }));
}

/** @type {(noun: string) => string} */
function article(noun) {
  return /^[aeiou]/.test(noun) ? "an" : "a";
}
