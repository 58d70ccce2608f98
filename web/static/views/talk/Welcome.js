// @ts-check
import { h, icon } from "../../dom/h.js";
import { visible } from "../../dom/visible.js";
import { isShared } from "../../state/agents.js";
import { LoadingIndicator } from "../../ui/LoadingIndicator.js";
import { Notice } from "../../ui/Notice.js";

// More agents than these stand in two columns, where there is room.
const FEW = 6;
// And more than these scroll, below a field that finds some.
const MANY = 8;
/** @type {Map<string, {key: string, element: HTMLElement}>} */
const cards = new Map();
// Once it is loaded, the field is there in the moment the list is.
/** @type {typeof import("./AgentFinder.js").addFinder | null} */
let addFinder = null;

/** @typedef {(run: {run_id: string, thread_id: string}) => void} OnStarted */
/** @typedef {{onAgent: (id: string) => void, onStarter: (text: string) => void, onStarted: OnStarted, onRetry: () => void}} Handlers */

/** @param {{agents: any[] | null, workflows?: any[], problems?: any[], chosen: string, error: any} & Handlers} given The empty conversation: who can be asked, and what to ask them. */
export function Welcome({ agents, workflows = [], problems = [], chosen, error, onAgent, onStarter, onStarted, onRetry }) {
  if (error) return h("div.welcome", {}, Notice({ title: "The agents could not be read", text: error.message, code: error.code, actions: [["Try again", onRetry]] }));
  if (!agents) return h("div.welcome", {}, LoadingIndicator("Loading the agents"));
  if (!agents.length) return h("div.welcome", {}, Notice({ tone: "wait", title: "No agent is configured", text: "Put a file such as `config/agents/assistant.yaml` in the agents folder; `./callboard agents` checks it." }), problems.map((problem) => Notice({ title: problem.id, text: problem.detail, code: problem.code })));
  const agent = agents.find((each) => each.id === chosen) ?? agents[0];
  const isLong = agents.length > MANY, finder = h("div.finder");
  const list = h(`div.agents${agents.length > FEW ? ".is-many" : ""}${isLong ? ".is-long" : ""}`, { role: "radiogroup", "aria-label": "Agent", onkeydown: arrowKeys }, agents.map((each) => agentCard(each, each === agent, isShared(agents, each.id, each.name ?? each.id), onAgent)));
  if (isLong && addFinder) addFinder(list, finder);
  else if (isLong) import("./AgentFinder.js").then((module) => (addFinder = module.addFinder)(list, finder), () => {});
  return h("div.welcome", {},
    h("h2", {}, "Whom do you want to call?"),
    isLong && finder,
    list,
    agent.starters?.length > 0 && h("div.starters", {}, h("p.caps", {}, "Begin with"), agent.starters.slice(0, 4).map((/** @type {string} */ text) => h("button.starter", { type: "button", onclick: () => onStarter(text) }, visible(text)))),
    problems.map((problem) => Notice({ tone: "wait", title: `${visible(problem.id)} ${agents.some((each) => each.id === problem.id) ? "answers as an earlier version" : "cannot be asked"}`, text: problem.detail, code: problem.code })),
    workflows.length > 0 && h("div.workflows", {}, h("p.caps", {}, "Or run a workflow"), workflows.map((each) => workflowCard(each, onStarted))));
}

// The list is drawn anew with each choice of an agent; what is typed into a form stays.
/** @type {(workflow: any, onStarted: OnStarted) => HTMLElement} */
function workflowCard(workflow, onStarted) {
  const key = JSON.stringify(workflow);
  if (cards.get(workflow.id)?.key !== key) cards.set(workflow.id, { key, element: newCard(workflow, (run) => { cards.delete(workflow.id); onStarted(run); }) });
  return /** @type {{element: HTMLElement}} */ (cards.get(workflow.id)).element;
}

// Few start one here: its form is not part of the first load.
/** @type {(workflow: any, onStarted: OnStarted) => HTMLElement} */
function newCard(workflow, onStarted) {
  const place = h("div.workflow-form", {}, LoadingIndicator("Loading its form"));
  const fillIn = async () => {
    const { WorkflowForm } = await import("../workflows/WorkflowForm.js");
    place.replaceChildren(new WorkflowForm(workflow, onStarted).element);
  };
  const summary = h("summary", {}, icon("chevron"), h("span.agent-name", {}, visible(workflow.name ?? workflow.id)), h("span.agent-what", {}, visible(workflow.description ?? "")));
  const failed = (/** @type {any} */ error) => place.replaceChildren(Notice({ text: error.message, actions: [["Try again", () => fillIn().catch(failed)]] }));
  return h("details.workflow", { dataset: { workflow: workflow.id }, ontoggle: () => place.querySelector("form") || fillIn().catch(failed) }, summary, place);
}

/** @type {(agent: any, chosen: boolean, shared: boolean, onAgent: (id: string) => void) => HTMLElement} */
function agentCard(agent, chosen, shared, onAgent) {
  return h("button.agent", { type: "button", role: "radio", "aria-checked": String(chosen), tabindex: chosen ? "0" : "-1", dataset: { agent: agent.id }, onclick: () => onAgent(agent.id) },
    h("span.agent-name", {}, visible(agent.name ?? agent.id), shared && h("code.agent-id", {}, visible(agent.id))),
    h("span.agent-what", { title: visible(agent.problem ?? agent.description ?? "") || null }, visible(agent.problem ?? agent.description ?? "")),
    h("span.agent-model", {}, visible(agent.model ?? "")));
}

function arrowKeys(/** @type {KeyboardEvent} */ event) {
  const step = { ArrowDown: 1, ArrowRight: 1, ArrowUp: -1, ArrowLeft: -1 }[event.key];
  if (!step) return;
  event.preventDefault();
  const cards = /** @type {HTMLElement[]} */ ([.../** @type {HTMLElement} */ (event.currentTarget).children]).filter((card) => !card.hidden);
  const next = cards[(cards.indexOf(/** @type {HTMLElement} */ (document.activeElement)) + step + cards.length) % cards.length];
  next.click();
  // The choice draws the cards anew.
  /** @type {HTMLElement | null} */ (document.querySelector(`[data-agent="${CSS.escape(/** @type {string} */ (next.dataset.agent))}"]`))?.focus();
}
