// @ts-check
// One input, two runs: the version that serves beside another one, both answers live.

import { LoadingIndicator } from "../../ui/LoadingIndicator.js";
import { count } from "../../dom/format.js";
import { fill, h } from "../../dom/h.js";
import { signal, watch } from "../../dom/live.js";
import { namesOf, pairOf } from "../../state/versions.js";
import { TryRun } from "./TryRun.js";

/** @param {{app: any, id: string, item: () => any, rows: () => any[], versions: any}} given */
export function TryOut({ app, id, item, rows, versions }) {
  const pair = signal(/** @type {number[]} */ ([0, 0]));
  watch(() => { if (rows().length && !pair.peek()[0]) pair.value = pairOf(rows(), item()?.version); });
  const input = /** @type {HTMLTextAreaElement} */ (h("textarea", { id: "try-input", rows: 3, required: true, dir: "auto", placeholder: "A message for both", onkeydown: (/** @type {KeyboardEvent} */ event) => (event.ctrlKey || event.metaKey) && event.key === "Enter" && form.requestSubmit() }));
  const runs = [0, 1].map((side) => new TryRun({ app, id, label: side ? "Answer of the other version" : "Answer of the first version" }));
  const submit = (/** @type {SubmitEvent} */ event) => {
    event.preventDefault();
    const text = input.value;
    if (!text.trim()) return input.focus();
    runs.forEach((run, side) => (side === 0 || pair.peek()[1]) && run.start(text, pair.peek()[side] || undefined));
  };
  const starters = h("p.try-starters");
  watch(() => void fill(starters, (item()?.starters ?? []).slice(0, 3).map((/** @type {string} */ text) => h("button.quiet", { type: "button", onclick: () => { input.value = text; input.focus(); } }, text))));
  const form = /** @type {HTMLFormElement} */ (h("form.try-form", { onsubmit: submit }, h("label", { for: "try-input" }, "What to ask"), input, starters, h("div.row", {}, h("button.btn.go", { type: "submit" }, "Try"), h("span.hint", {}, "Real runs: they cost what runs cost, and their tools do what they do."))));
  const heads = [0, 1].map((side) => headOf(rows, pair, side));
  const note = h("div.detail-note");
  watch(() => {
    const isLoading = versions.state.value.value === undefined && !versions.state.value.error;
    fill(note, isLoading ? LoadingIndicator("Reading the versions") : rows().length < 2 && h("p.faint", {}, "There is one version, so one run is started. Change its file, and both are tried side by side."));
  });
  const columns = h("div.try-columns", {}, runs.map((run, side) => h("section.try-column", {}, heads[side], run.element)));
  watch(() => columns.toggleAttribute("data-single", !pair.value[1]));
  return h("div.try-out", {}, note, form, columns);
}

/** @type {(rows: () => any[], pair: import("../../dom/live.js").Signal<number[]>, side: number) => HTMLElement} */
function headOf(rows, pair, side) {
  const select = /** @type {HTMLSelectElement} */ (h("select", { "aria-label": side ? "The other version" : "The first version", onchange: () => { pair.value = pair.peek().map((number, at) => (at === side ? Number(select.value) : number)); } }));
  watch(() => {
    fill(select, rows().map((version) => h("option", { value: String(version.version) }, [`version ${count(version.version)}`, ...namesOf(version)].join(" · "))));
    select.value = String(pair.value[side]);
    select.hidden = !pair.value[side];
  });
  return h("header", {}, select);
}
