// @ts-check
// One observer: its state, what to do about it, who feeds it, and its failed deliveries.

import { Notice } from "../../ui/Notice.js";
import { copyButton } from "../../dom/copyButton.js";
import { ago, count, exactly, plural } from "../../dom/format.js";
import { fill, h } from "../../dom/h.js";
import { signal, watch } from "../../dom/live.js";
import { visible } from "../../dom/visible.js";
import { listObservers } from "../../services/admin.js";
import { resource } from "../../services/resource.js";
import { lagWords, remediesOf } from "../../state/observers.js";
import { errorWords } from "../../state/words.js";

const REFRESH_MS = 5000;

/** @param {{name: string, item: () => any}} given */
export function ObserverDetail({ name, item }) {
  const head = h("header.detail-head"), remedies = h("div"), facts = h("div"), letters = h("div");
  const detail = resource((abort) => listObservers(name, abort), { everyMs: REFRESH_MS });
  const shown = signal("");
  watch(() => {
    const observer = item();
    if (!observer) return;
    fill(head, h("div.detail-title", {}, h("h2.is-code", {}, visible(name))), h("p.detail-facts", {}, h("b", {}, observer.state), h("span", {}, lagWords(observer))));
    fill(facts, factsOf(observer));
  });
  watch(() => { shown.value = JSON.stringify({ remedies: item() ? remediesOf(item()) : [], letters: detail.state.value.value?.[0]?.letters, error: detail.state.value.error && { text: errorWords(detail.state.value.error), code: detail.state.value.error.code } }); });
  watch(() => {
    const given = JSON.parse(shown.value);
    fill(remedies, given.remedies.map((/** @type {string[]} */ [why, command]) => h("div.remedy", {}, h("p", {}, why), h("pre", {}, visible(command)), copyButton(() => command))));
    fill(letters, given.error ? Notice(given.error) : given.letters?.length ? lettersOf(given.letters) : h("p.faint", {}, "No delivery has failed."));
  });
  return h("article.detail-body", { "aria-label": `Observer ${visible(name)}` }, head, remedies, facts, h("section.block", {}, h("h3.caps", {}, "Failed deliveries"), letters));
}

/** @type {(observer: any) => any} */
function factsOf({ class_path: path, delivery, delivered, dropped, position, behind, selection, threads }) {
  const feeders = new Map();
  for (const { host, pid, version } of threads) feeders.set(`${host} process ${pid}, release ${version}`, (feeders.get(`${host} process ${pid}, release ${version}`) ?? 0) + 1);
  const rows = /** @type {[string, any][]} */ ([
    ["class", h("code", {}, visible(path))],
    ["delivery", visible(delivery)],
    ...Object.entries(selection).map(([part, names]) => [part, visible(names.join(", "))]),
    ["delivered", plural(delivered, "event")],
    ["dropped", dropped > 0 && plural(dropped, "event")],
    ["position", `${count(position)}${behind ? `, ${count(behind)} before the end of the log` : ", the end of the log"}`],
    ["fed by", feeders.size ? [...feeders].map(([feeder, number]) => h("div", {}, visible(feeder), number > 1 && `, ${plural(number, "thread")}`)) : "no process"],
  ]).filter(([, value]) => value);
  return h("section.block", {}, h("h3.caps", {}, "How it is"), h("dl.fields", {}, rows.map(([title, value]) => [h("dt", {}, title), h("dd", {}, value)])));
}

/** @type {(letters: any[]) => HTMLElement} */
function lettersOf(letters) {
  const row = (/** @type {any} */ { id, run_id: runId, seq, type, attempts, error, first_at: first, next_at: next }) => h("tr", {},
    h("td.n", {}, String(id)),
    h("td", {}, h("a", { href: `#/run/${encodeURIComponent(runId)}?tab=events` }, h("code", {}, `…${visible(runId.slice(-6))}`)), ` event ${seq}, ${visible(type)}`),
    h("td", {}, next ? `again ${exactly(next)}` : h("b.bad", {}, "dead"), `, ${plural(attempts, "attempt")}`),
    h("td", { dir: "auto" }, visible(error)),
    h("td.n", { title: exactly(first) }, ago(first)));
  return h("table.plain-table", { "aria-label": "Failed deliveries" }, h("thead", {}, h("tr", {}, ["Letter", "Of", "State", "Why", "First"].map((title) => h("th", { scope: "col" }, title)))), h("tbody", {}, letters.map(row)));
}
