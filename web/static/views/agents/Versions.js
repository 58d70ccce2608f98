// @ts-check
// The versions of an agent: when each was first seen, who promoted which, what differs between two of them.

import { LoadingIndicator } from "../../ui/LoadingIndicator.js";
import { Notice } from "../../ui/Notice.js";
import { ago, count, exactly } from "../../dom/format.js";
import { fill, h } from "../../dom/h.js";
import { signal, watch } from "../../dom/live.js";
import { visible } from "../../dom/visible.js";
import { ownerOf } from "../../state/me.js";
import { namesOf, pairOf, servingOf } from "../../state/versions.js";
import { errorWords } from "../../state/words.js";
import { Promotion } from "./Promotion.js";
import { VersionDiff } from "./VersionDiff.js";

/** @param {{app: any, id: string, item: () => any, rows: () => any[], versions: any, onChange: () => void}} given */
export function Versions({ app, id, item, rows, versions, onChange }) {
  const pair = signal(/** @type {[number, number]} */ ([0, 0]));
  watch(() => {
    const [serving, other] = pairOf(rows(), item()?.version);
    const [before, after] = [Math.min(serving, other), Math.max(serving, other)];
    if (other && !pair.peek()[0]) pair.value = [before, after];
  });
  const promotion = new Promotion({ app, id, rows, onChange });
  const table = h("div.table-wrap"), note = h("div.detail-note"), diff = h("div");
  watch(() => {
    const { value, error } = versions.state.value;
    fill(note, error ? Notice({ text: errorWords(error), code: error.code, actions: [["Try again", versions.refresh]] }) : value === undefined ? LoadingIndicator("Reading the versions") : !value.length && h("p.faint", {}, "It has no version: its file was never usable."));
  });
  watch(() => void fill(table, rows().length > 0 && tableOf(rows(), servingOf(rows(), item()?.version), promotion)));
  watch(() => {
    const numbers = rows().map((/** @type {any} */ { version }) => version);
    fill(diff, numbers.length > 1 ? VersionDiff({ id, numbers, pair }) : numbers.length === 1 && h("p.faint", {}, "There is one version. Change its file, and the second one stands here with what differs."));
  });
  return h("div.versions", {}, note, promotion.element, table, diff);
}

/** @type {(rows: any[], serving: number, promotion: Promotion) => HTMLElement} */
function tableOf(rows, serving, promotion) {
  const row = (/** @type {any} */ version) => {
    const isServing = version.version === serving;
    return h("tr", isServing ? { "aria-current": "true" } : {},
      h("td.n", { dataset: { label: "version" } }, count(version.version)),
      h("td", {}, isServing && h("b", {}, "serves"), namesOf(version).map((name) => h("span.tag", {}, name))),
      h("td.one-line", { title: exactly(version.created_at), dataset: { label: "first seen" } }, ago(version.created_at)),
      h("td", {}, Object.entries(version.promoted).map(([alias, { by, at }]) => h("div", { title: exactly(at) }, `${alias} by `, visible(ownerOf(by)), `, ${ago(at)}`))),
      h("td", {}, h("code", { title: version.digest }, version.digest.slice(0, 8))),
      h("td", {}, promotion.buttonsOf(version, isServing)));
  };
  const heads = ["Version", "Names", "First seen", "Promoted", "Digest"];
  return h("table.plain-table", { "aria-label": "Versions" }, h("thead", {}, h("tr", {}, heads.map((title) => h("th", { scope: "col" }, title)), h("th", {}, h("span.offscreen", {}, "What can be done")))), h("tbody", {}, rows.map(row)));
}
