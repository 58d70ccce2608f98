// @ts-check
// What a workflow needs to start: a field for each property of its input.

import { h } from "../../dom/h.js";
import { newKey, startWorkflow } from "../../services/api.js";
import { errorWords } from "../../state/words.js";
import { Form } from "../../ui/Form.js";
import { Notice } from "../../ui/Notice.js";

/** Starts a workflow with what is filled in; `onStarted` gets {run_id, thread_id}. */
export class WorkflowForm {
  #input = "";
  #key = "";

  constructor(/** @type {{id: string, input?: any}} */ workflow, /** @type {(run: {run_id: string, thread_id: string}) => void} */ onStarted) {
    this.workflow = workflow;
    this.onStarted = onStarted;
    this.problem = h("div", { role: "alert" });
    this.form = new Form({ form: workflow.input ?? {}, words: ["Start"], onAnswer: (/** @type {any} */ input) => this.#start(input) });
    this.element = h("div.workflow-start", {}, this.form.element, this.problem);
  }

  async #start(/** @type {any} */ input) {
    // The same input sent again is the same request, so that a lost reply starts nothing twice.
    const text = JSON.stringify(input);
    if (this.#input !== text) this.#key = newKey();
    this.#input = text;
    this.#busy(true);
    try {
      this.onStarted(await startWorkflow(this.workflow.id, input, this.#key));
    } catch (/** @type {any} */ error) {
      this.problem.replaceChildren(Notice({ title: "Not started", text: errorWords(error), code: error.code }));
    } finally {
      this.#busy(false);
    }
  }

  #busy(/** @type {boolean} */ on) {
    this.element.setAttribute("aria-busy", String(on));
    /** @type {HTMLButtonElement} */ (this.element.querySelector("[type=submit]")).disabled = on;
  }
}
