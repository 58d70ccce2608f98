// @ts-check
// The approvals: what waits for a person and the question that is chosen, what was answered, what holds for later calls.

import { LineState } from "../../ui/LineState.js";
import { count } from "../../dom/format.js";
import { fill, h, say } from "../../dom/h.js";
import { onEnd, signal, watch } from "../../dom/live.js";
import { addStyles } from "../../dom/styles.js";
import { visible } from "../../dom/visible.js";
import { useTicker } from "../../dom/useTicker.js";
import { addressOf } from "../../router.js";
import { mayAnswer } from "../../state/inbox.js";
import { Answered } from "./Answered.js";
import { Holding } from "./Holding.js";
import { openQuestions } from "./openQuestions.js";
import { Waiting } from "./Waiting.js";

const TABS = [["", "Waiting"], ["mine", "Mine"], ["answered", "Answered"], ["holding", "What holds"]];
const ORDERS = [["", "Oldest first"], ["newest", "Newest first"], ["expiry", "Least time left"]];

const isList = (/** @type {string} */ tab) => !tab || tab === "mine";

/** Return the view of approvals. */
export function open(/** @type {any} */ app) {
  addStyles("/static/style/approvals.css");
  const tab = signal(""), id = signal(""), query = signal(/** @type {Record<string, string>} */ ({}));
  const clock = signal(Date.now());
  onEnd(useTicker(() => { clock.value = Date.now(); }));
  const questions = openQuestions(app.feed.board);
  const note = (/** @type {number | null} */ number) => {
    app.nav.questions = number;
    app.noteRuns([]);
  };
  watch(() => note(questions.isKnown() && !questions.hasMore() ? questions.list().filter(mayAnswer).length : null));
  onEnd(() => note(null));
  const waiting = new Waiting({ app, questions, query, clock });
  const line = new LineState({ onRetry: () => app.feed.hurry() });
  watch(() => line.show(app.line.value));
  const body = h("div.approvals-body");
  watch(() => {
    if (tab.value === "answered") fill(body, new Answered({ app, clock }).element);
    else if (tab.value === "holding") fill(body, new Holding({ app, clock }).element);
    else fill(body, waiting.element);
  });
  const element = h("div.view-frame.view-approvals.answering", {}, h("header.view-head", {}, h("h1", {}, "Approvals"), tabs(tab, questions), filters({ app, tab, query, questions }), line.element), body);
  watch(() => { element.dataset.screen = waiting.choice.isTogether() ? "review" : id.value ? "question" : "list"; });
  return {
    title: "Approvals",
    element,
    keys: waiting.keys,
    commands: () => TABS.map(([name, words]) => [`Approvals: ${words}`, () => { location.hash = addressOf("/approvals", {}, { tab: name }); }]),
    show: (/** @type {import("../../router.js").Route} */ { params, query: words }) => {
      const name = TABS.some(([each]) => each === words.tab) ? words.tab : "";
      tab.value = params.approvalId && !isList(name) ? "" : name;
      query.value = { agent: words.agent ?? "", order: words.order ?? "", tab: words.tab === "mine" ? "mine" : "" };
      id.value = params.approvalId ?? "";
      if (isList(tab.value)) waiting.show(id.value, words.review === "yes");
    },
  };
}

/** @type {(tab: any, questions: import("./openQuestions.js").OpenQuestions) => HTMLElement} */
function tabs(tab, questions) {
  const total = h("small");
  watch(() => {
    const number = questions.list().filter(mayAnswer).length;
    say(total, number ? `${count(number)}${questions.hasMore() ? "+" : ""}` : "");
  });
  const links = TABS.map(([name, words]) => h("a", { href: addressOf("/approvals", {}, { tab: name }), dataset: { tab: name } }, words, !name && total));
  watch(() => {
    for (const link of links) {
      if (link.dataset.tab === tab.value) link.setAttribute("aria-current", "page");
      else link.removeAttribute("aria-current");
    }
  });
  return h("nav.view-tabs", { "aria-label": "Lists of questions" }, links);
}

/** @type {(given: {app: any, tab: any, query: any, questions: import("./openQuestions.js").OpenQuestions}) => HTMLElement} */
function filters({ app, tab, query, questions }) {
  const put = (/** @type {string} */ name, /** @type {string} */ value) => { location.hash = addressOf("/approvals", {}, { ...query.peek(), [name]: value }); };
  const agent = h("select", { "aria-label": "Agent", onchange: () => put("agent", agent.value) });
  const order = h("select", { "aria-label": "Order", onchange: () => put("order", order.value) }, ORDERS.map(([value, words]) => h("option", { value }, words)));
  watch(() => {
    const ids = [...new Set([...questions.list().map((/** @type {any} */ each) => each.agent), ...(query.value.agent ? [query.value.agent] : [])])].sort();
    if (agent.dataset.shown !== ids.join("\n")) fill(agent, h("option", { value: "" }, "All agents"), ids.map((id) => h("option", { value: id }, visible(app.nameOf(id)))));
    agent.dataset.shown = ids.join("\n");
    agent.value = query.value.agent;
    order.value = ORDERS.some(([name]) => name === query.value.order) ? query.value.order : "";
  });
  const element = h("div.filters", {}, agent, order);
  watch(() => { element.hidden = !isList(tab.value); });
  return element;
}
