// @ts-check
// The audit log of the tenant: who did what to what, found by its fields, and whether the chain is whole.

import { LoadingIndicator } from "../../ui/LoadingIndicator.js";
import { Notice } from "../../ui/Notice.js";
import { count } from "../../dom/format.js";
import { fill, h } from "../../dom/h.js";
import { asJson } from "../../dom/json.js";
import { signal, watch } from "../../dom/live.js";
import { addStyles } from "../../dom/styles.js";
import { visible } from "../../dom/visible.js";
import { addressOf } from "../../router.js";
import { listAudit } from "../../services/admin.js";
import { errorWords } from "../../state/words.js";
import { Table } from "../../ui/Table.js";
import { AuditFilter, AUDIT_FIELDS } from "./AuditFilter.js";
import { auditColumns } from "./columns.js";
import { ChainState } from "./ChainState.js";

export const styles = addStyles("/static/style/catalogue.css");

const PAGE = "200";

/** Return the view. */
export function open() {
  const query = signal(/** @type {Record<string, string> | null} */ (null));
  const rows = signal(/** @type {any[]} */ ([])), opened = signal(""), next = signal(0);
  const note = h("div.view-note", { role: "status" });
  let visit = 0;
  const read = async (/** @type {number} */ before) => {
    const own = (visit += 1);
    if (!before) rows.value = [];
    next.value = 0;
    fill(note, LoadingIndicator("Reading the log"));
    try {
      const page = await listAudit({ ...query.peek(), limit: PAGE, ...(before && { before: String(before) }) }, new AbortController().signal);
      if (own !== visit) return;
      rows.value = [...rows.peek(), ...page.entries.map((/** @type {any} */ entry) => ({ key: String(entry.number), entry }))];
      next.value = page.next ?? 0;
      fill(note, !rows.peek().length && [h("p", {}, Object.keys(query.peek() ?? {}).length ? "No entry fits." : "The log has no entry yet."), h("p.faint", {}, "Each entry is written with the change that it is about.")]);
    } catch (/** @type {any} */ error) {
      if (own === visit) fill(note, Notice({ title: error.status === 403 ? "The audit log is for administrators" : "The log could not be read", text: errorWords(error), code: error.code, actions: error.status === 403 ? [] : [["Try again", () => read(before)]] }));
    }
  };
  watch(() => { if (query.value) read(0); });

  const scroller = h("div.view-scroll");
  const table = new Table({ label: "Entries of the audit log", columns: auditColumns(opened), rows: () => rows.value, scroller });
  table.element.addEventListener("click", (/** @type {Event} */ { target }) => { // also on a row's facts, which are cut
    const key = /** @type {HTMLElement} */ (target).closest("tr")?.dataset.key;
    if (key) opened.value = opened.peek() === key ? "" : key;
  });
  const whole = h("pre.event", { tabindex: "0", "aria-label": "The entry", hidden: true });
  watch(() => {
    const row = rows.value.find(({ key }) => key === opened.value);
    whole.hidden = !row;
    fill(whole, row && visible(asJson(row.entry)));
  });
  const more = h("p.audit-more", {}, h("button.btn", { type: "button", onclick: () => read(next.peek()) }, "Older entries"));
  watch(() => { more.hidden = !next.value; });
  watch(() => { table.element.hidden = !rows.value.length; });
  const onQuery = (/** @type {Record<string, string>} */ words) => {
    const address = addressOf("/audit", {}, words);
    if (location.hash === address) read(0); // asked again: there may be newer entries
    else location.hash = address;
  };
  const filter = new AuditFilter({ query: () => query.value ?? {}, onQuery });
  const total = h("small");
  watch(() => void fill(total, rows.value.length > 0 && `${count(rows.value.length)}${next.value ? " and more" : ""}`));
  fill(scroller, table.element, note, more);
  return {
    title: "Audit log",
    element: h("div.view-frame.view-audit", {}, h("header.view-head", {}, h("h1", {}, "Audit log ", total), new ChainState().element), filter.element, h("div.event-columns", {}, scroller, whole)),
    keys: { "/": () => filter.focus(), j: () => table.step(1), k: () => table.step(-1) },
    show: (/** @type {import("../../router.js").Route} */ route) => {
      query.value = Object.fromEntries(Object.entries(route.query).filter(([name, value]) => value && Object.hasOwn(AUDIT_FIELDS, name)));
    },
  };
}
