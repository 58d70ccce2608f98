// @ts-check
// Lists of runs that a reader has named, as this browser keeps them.

import { filterOf } from "./filter.js";

/** @typedef {{name: string, query: Record<string, string>}} SavedView */

const VERSION = 1;
const MOST = 20;
/** What the runs of a list can be grouped by, beside what there is to do about them. */
export const GROUPS = ["agent", "owner"];
const MOST_CHARS = 40;

/**
 * Return the views of what was kept, and a sentence where it cannot be used: it may be of another version of the page.
 *
 * @param {any} stored
 * @returns {{views: SavedView[], problem: string}}
 */
export function viewsOf(stored) {
  if (stored === undefined || stored === null) return { views: [], problem: "" };
  if (stored.version !== VERSION || !Array.isArray(stored.views)) return { views: [], problem: "The views that this browser keeps are of another version of the page, and are left out. Saving a view replaces them." };
  const views = /** @type {SavedView[]} */ (stored.views.filter(isView)).slice(0, MOST).map(({ name, query }) => ({ name: name.slice(0, MOST_CHARS), query: listOf(query) }));
  const isWhole = views.length === stored.views.length && views.every(({ query }) => Object.keys(query).length);
  return { views: views.filter(({ query }) => Object.keys(query).length), problem: isWhole ? "" : "Some of the views that this browser keeps cannot be read, and are left out." };
}

/**
 * Return what is kept of views.
 *
 * @param {SavedView[]} views
 */
export function storedOf(views) {
  return { version: VERSION, views };
}

/**
 * Return the views with one more, in place of an earlier one of its name; the oldest is dropped where they are too many.
 *
 * @param {SavedView[]} views
 * @param {string} name
 * @param {Record<string, string>} query
 */
export function withView(views, name, query) {
  const own = name.trim().slice(0, MOST_CHARS);
  if (!own) return views;
  return [...views.filter((view) => view.name !== own), { name: own, query: listOf(query) }].slice(-MOST);
}

/**
 * Return what of an address's query names a list: its filter, and what its runs are grouped by.
 *
 * @param {Record<string, string>} query
 * @returns {Record<string, string>}
 */
export function listOf(query) {
  return { ...filterOf(query), ...(GROUPS.includes(query.group) && { group: query.group }) };
}

/** @type {(view: any) => boolean} */
function isView(view) {
  return typeof view?.name === "string" && Boolean(view.name.trim()) && typeof view.query === "object" && view.query !== null && Object.values(view.query).every((value) => typeof value === "string");
}
