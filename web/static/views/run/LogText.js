// @ts-check
import { copyButton } from "../../dom/copyButton.js";
import { h, say } from "../../dom/h.js";
import { signal, watch } from "../../dom/live.js";
import { visible } from "../../dom/visible.js";
import { resource } from "../../services/resource.js";
import { getRunFile, save } from "../../services/runFiles.js";
import { Loaded } from "../../ui/Loaded.js";

const OF_OPEN_RUN_MS = 3000;

/** Return the lines that the logger observer writes of the run, with a field that finds some. */
export function LogText(/** @type {string} */ runId, /** @type {boolean} */ isOpen) {
  const words = signal("");
  const log = resource((abort) => getRunFile(runId, "log", abort), { everyMs: isOpen ? OF_OPEN_RUN_MS : 0 });
  const text = h("pre.log-text", { tabindex: "0", "aria-label": "The log" });
  watch(() => {
    const word = words.value.toLowerCase();
    const lines = (log.state.value.value ?? "").split("\n");
    say(text, visible(lines.filter((line) => !word || line.toLowerCase().includes(word)).join("\n")));
  });
  const command = `./callboard logs ${runId}${isOpen ? " -f" : ""}`;
  return h("div.run-tab", {}, h("div.tab-tools", {},
    h("input", { type: "search", placeholder: "Words of a line", "aria-label": "Find lines", dir: "auto", oninput: (/** @type {any} */ event) => { words.value = event.target.value; } }),
    copyButton(() => log.state.peek().value ?? "", "Copy"), h("button.quiet", { type: "button", onclick: () => save(`${runId}.log`, log.state.peek().value ?? "") }, "Download"),
    h("span.faint", {}, "At a terminal: ", h("code", {}, command))), Loaded(log, () => text, "the log"));
}
