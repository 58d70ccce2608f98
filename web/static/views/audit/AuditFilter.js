// @ts-check
import { h, icon } from "../../dom/h.js";
import { watch } from "../../dom/live.js";

/** @type {Record<string, string>} What entries are found by, with what its field is called. */
export const AUDIT_FIELDS = { action: "Action", principal: "Who", target_id: "To what (id)", outcome: "Outcome" };
const ACTIONS = "sign_in sign_out key.created key.revoked grant.issued grant.used grant.revoked principal.changed access run.started call.started run.controlled approval.decided approval.linked approval.revoked originals.read mcp_login.created mcp_login.removed run.removed thread.removed retention agent.configured agent.promoted run.upgraded settings.changed".split(" ");

/** The fields that the log is filtered with; `onQuery(query)` gets what is in them with Enter, and with each choice. */
export class AuditFilter {
  /** @param {{query: () => Record<string, string>, onQuery: (query: Record<string, string>) => void}} given */
  constructor({ query, onQuery }) {
    const words = h("datalist", { id: "audit-actions" }, ACTIONS.map((action) => h("option", { value: action })));
    const text = (/** @type {string} */ name, more = {}) => h("input", { name, type: "search", placeholder: AUDIT_FIELDS[name], "aria-label": AUDIT_FIELDS[name], spellcheck: "false", autocomplete: "off", dir: "auto", maxlength: 200, ...more });
    const outcome = h("select", { name: "outcome", "aria-label": AUDIT_FIELDS.outcome, onchange: () => this.element.requestSubmit() }, [["", "done or refused"], ["done", "done"], ["refused", "refused"]].map(([value, title]) => h("option", { value }, title)));
    this.inputs = /** @type {HTMLInputElement[]} */ ([text("action", { list: "audit-actions" }), text("principal"), text("target_id"), outcome]);
    this.element = /** @type {HTMLFormElement} */ (h("form.bar.audit-filter", { role: "search", onsubmit: (/** @type {Event} */ event) => {
      event.preventDefault();
      onQuery(Object.fromEntries(this.inputs.map(({ name, value }) => [name, value.trim()]).filter(([, value]) => value)));
    } }, icon("search"), this.inputs, words, h("button.btn", { type: "submit" }, "Find"), h("a.quiet", { href: "#/audit" }, "Everything")));
    watch(() => { for (const input of this.inputs) input.value = query()[input.name] ?? ""; });
  }

  /** Put the cursor into the first field. */
  focus() {
    this.inputs[0].focus();
    this.inputs[0].select();
  }
}
