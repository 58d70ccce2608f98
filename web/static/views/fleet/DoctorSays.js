// @ts-check
import { copyButton } from "../../dom/copyButton.js";
import { count, plural } from "../../dom/format.js";
import { fill, h } from "../../dom/h.js";
import { watch } from "../../dom/live.js";
import { visible } from "../../dom/visible.js";
import { sentence, withCode } from "../../ui/Notice.js";

/** What the server's checks found, the worst first, each with its command to copy. */
export class DoctorSays {
  /** @param {import("../../dom/live.js").Signal<{value: any}>} state */
  constructor(state) {
    this.element = h("div.doctor");
    watch(() => state.value.value && this.#show(state.value.value.findings));
  }

  /** @param {{check: string, state: string, sentence: string, remedy?: string}[]} findings */
  #show(findings) {
    const well = findings.filter(({ state }) => state === "ok");
    const others = [...findings.filter(({ state }) => state === "fail"), ...findings.filter(({ state }) => state === "warn")];
    fill(this.element,
      h("p.soft", {}, others.length ? `${plural(well.length, "check")} ${well.length === 1 ? "passes" : "pass"}, ${count(others.length)} ${others.length === 1 ? "does" : "do"} not.` : `All ${plural(well.length, "check")} pass.`),
      others.map(finding),
      h("details", {}, h("summary", {}, "What was checked"), h("ul", {}, well.map(({ check, sentence: text }) => h("li", {}, h("b", {}, check), " ", withCode(visible(text)))))));
  }
}

/** @type {(finding: {check: string, state: string, sentence: string, remedy?: string}) => HTMLElement} */
function finding({ check, state, sentence: text, remedy }) {
  return h(`div.finding.is-${state}`, {},
    h("p", {}, h("b", {}, `${state === "fail" ? "Fails" : "Warning"}, ${check}: `), withCode(visible(sentence(text)))),
    remedy && h("p.command", {}, h("code", {}, visible(remedy)), copyButton(() => remedy)));
}
