// @ts-check
import { Notice } from "../../ui/Notice.js";
import { deadline, exactly } from "../../dom/format.js";
import { fill, h, icon, say } from "../../dom/h.js";
import { each, watch } from "../../dom/live.js";
import { visible } from "../../dom/visible.js";
import { threadHash } from "../../router.js";
import { endSticky, listSticky } from "../../services/approvals.js";
import { resource } from "../../services/resource.js";
import { lasting } from "../../state/inbox.js";
import { isMe, ownerOf, threadKey } from "../../state/me.js";
import { byWords, errorWords } from "../../state/words.js";

const REFRESH_MS = 15_000;
const MOST = 200;

/** The approvals that hold for later calls too, those that hold now first, each with a button that ends it. */
export class Holding {
  /** @param {{app: any, clock: any}} given */
  constructor({ app, clock }) {
    const { state, refresh } = resource((abort) => listSticky({ limit: MOST }, abort), { everyMs: REFRESH_MS });
    const list = h("ul.holding"), note = h("div.view-note", { role: "status" });
    const rows = () => [...(state.value.value?.sticky_approvals ?? [])].sort((a, b) => Number(b.is_valid) - Number(a.is_valid));
    each(list, rows, ({ sticky_id: id }) => id, (row) => holdingRow(row, app, clock, refresh));
    watch(() => {
      const { value, error } = state.value;
      fill(note, error ? Notice({ text: errorWords(error), code: error.code }) : !value ? h("p.faint", {}, "Reading the approvals") : !value.sticky_approvals.length && [h("p", {}, "No approval holds for later calls."), h("p.faint", {}, "Where a tool offers it, who approves a call can let the approval hold for its later calls, in the conversation or of the agent.")]);
    });
    this.element = h("div.view-scroll.pad", { tabindex: "-1" }, list, note);
  }
}

/** @type {(row: import("../../dom/live.js").Signal<any>, app: any, clock: any, onChange: () => void) => HTMLElement} */
function holdingRow(row, app, clock, onChange) {
  const { sticky_id: id, name, scope, agent, principal, thread_id: threadId, approved_by: by, created_at: at } = row.peek();
  const state = h("span"), problem = h("div", { role: "alert" });
  const where = scope === "thread" && threadId ? h("a.quiet", { href: threadHash(threadKey(threadId, principal)) }, "in one conversation") : "in all conversations";
  const end = h("button.btn", { type: "button", "aria-label": `End it, the approval of ${visible(name)}`, onclick: async () => {
    end.disabled = true;
    await endSticky(id).catch((error) => fill(problem, Notice({ text: errorWords(error), code: error.code })));
    end.disabled = false;
    onChange();
  } }, "End it");
  const mark = h("span.mark-place");
  const element = h("li.answer-row", {}, h("p.l1", {}, mark, h("span.clip", {}, h("code", {}, visible(name)), " of ", h("b", {}, visible(app.nameOf(agent))), " for ", h("b", {}, visible(ownerOf(principal))), ", ", where), end), h("p.l2", {}, state, h("span.faint", { title: exactly(at) }, `approved ${byWords({ by: visible(by), mine: isMe(by) })}`)), problem);
  watch(() => {
    const { is_valid: isValid, expires_at: until, revoked_at: ended, revoked_by: ender } = row.value;
    const left = Date.parse(until) - clock.value, holds = isValid && left > 0;
    say(state, holds ? `holds until ${deadline(until)}, ${lasting(left)} more` : ended ? `ended ${byWords({ by: visible(ender ?? ""), mine: isMe(ender) })}, ${exactly(ended)}` : `ended by itself, ${exactly(until)}`);
    if (mark.dataset.holds !== String(holds)) fill(mark, icon(holds ? "running" : "cancelled"));
    mark.dataset.holds = String(holds);
    end.hidden = !holds;
    element.classList.toggle("is-over", !holds);
  });
  return element;
}
