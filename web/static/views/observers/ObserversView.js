// @ts-check
// The observers that tail the log: how far each is, who feeds it, and what it did not take.

import { h } from "../../dom/h.js";
import { listObservers } from "../../services/admin.js";
import { resource } from "../../services/resource.js";
import { lagWords } from "../../state/observers.js";
import { catalogue, styles } from "../catalogue.js";
import { ObserverDetail } from "./ObserverDetail.js";

export { styles };

const REFRESH_MS = 5000;
const SIGNS = /** @type {Record<string, string>} */ ({ running: "running", paused: "waiting", stopped: "cancelled" });

/** Return the view. */
export function open() {
  return catalogue({
    name: "observers",
    title: "Observers",
    noun: "observer",
    param: "name",
    list: resource((abort) => listObservers("", abort), { everyMs: REFRESH_MS }),
    rowsOf: (rows) => rows.map(rowOf),
    find: (rows, name) => rows.find((/** @type {any} */ row) => row.name === name),
    open: (name, given) => ObserverDetail({ name, ...given }),
    empty: () => [h("p", {}, "No observer tails the log."), h("p.faint", {}, "One that is started gets every run's events, each at least once; to begin with the metrics:"), h("pre", {}, "./callboard observe metrics")],
  });
}

/** @type {(row: any) => import("../../ui/List.js").ListRow} */
function rowOf(row) {
  const { name, state, is_late: isLate, class_path: path } = row;
  return { key: name, title: name, code: state, note: lagWords(row), words: path, href: `#/observers/${encodeURIComponent(name)}`, sign: isLate ? "dead" : SIGNS[state], signWords: isLate ? "needs a look" : state };
}
