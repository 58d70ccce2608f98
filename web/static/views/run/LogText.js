// @ts-check
import { copyButton } from "../../dom/copyButton.js";
import { h, say } from "../../dom/h.js";
import { onEnd, signal, watch } from "../../dom/live.js";
import { visible } from "../../dom/visible.js";
import { resource } from "../../services/resource.js";
import { getRunFile, save } from "../../services/runFiles.js";
import { Loaded } from "../../ui/Loaded.js";

/** Milliseconds in which events are gathered before the log is read again; twice that for so many characters of it. */
const PAUSE_MS = 2000;
const CHARS_OF_A_PAUSE = 100_000;

/**
 * Return the lines that the logger observer writes of the run, with a field that finds some.
 *
 * @param {{runId: string, lines: import("../../dom/live.js").Signal<number>, isOpen: boolean}} given `lines`: how many events with a line there are
 */
export function LogText({ runId, lines, isOpen }) {
  const words = signal("");
  const log = resource((abort) => getRunFile(runId, "log", abort));
  let timer = /** @type {any} */ (0), known = lines.peek();
  watch(() => {
    if (lines.value === known) return;
    known = lines.value;
    timer ||= setTimeout(() => { timer = 0; log.refresh(); }, PAUSE_MS * (1 + (log.state.peek().value?.length ?? 0) / CHARS_OF_A_PAUSE));
  });
  onEnd(() => clearTimeout(timer));
  const text = h("pre.log-text", { tabindex: "0", "aria-label": "The log" });
  watch(() => {
    const word = words.value.toLowerCase();
    const all = (log.state.value.value ?? "").split("\n");
    say(text, visible(all.filter((line) => !word || line.toLowerCase().includes(word)).join("\n")));
  });
  const command = `./callboard logs ${runId}${isOpen ? " -f" : ""}`;
  return h("div.run-tab", {}, h("div.tab-tools", {},
    h("input", { type: "search", placeholder: "Words of a line", "aria-label": "Find lines", dir: "auto", oninput: (/** @type {any} */ event) => { words.value = event.target.value; } }),
    copyButton(() => log.state.peek().value ?? "", "Copy"), h("button.quiet", { type: "button", onclick: () => save(`${runId}.log`, log.state.peek().value ?? "") }, "Download"),
    h("span.faint", {}, "At a terminal: ", h("code", {}, command))), Loaded(log, () => text, "the log"));
}
