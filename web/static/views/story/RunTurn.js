// @ts-check
import { fill, h, say } from "../../dom/h.js";
import { paintSoon } from "../../dom/paint.js";
import { visible } from "../../dom/visible.js";
import { ownerOf } from "../../state/me.js";
import { ArgumentList } from "../../ui/ArgumentList.js";
import { parseStructured } from "./LLMResponse.js";
import { MessageBubble } from "./MessageBubble.js";
import { TurnFoot } from "./TurnFoot.js";
import { TurnItems, untilLoaded } from "./TurnItems.js";

const LONG_INPUT = 1200;

// Few conversations run a workflow: its graph is not part of the first load.
/** @type {Promise<typeof import("../graph/GraphView.js")> | null} */
let graphs = null;

/** @typedef {import("../../state/story.js").Story} Story */
/** @typedef {ReturnType<typeof import("../../state/fleet.js").fleetOf>} Fleet */
/** @typedef {{nameOf: import("../../state/definitions.js").NameOf, fleet: () => Fleet, act: import("../../state/useTurnActions.js").Act | null, isBehind: (story: Story) => boolean, onAgain: ((story: Story) => void) | null, onEdit: ((story: Story) => void) | null}} TurnContext The last two are null but for a turn of the conversation itself. */

/** One run in the conversation: what the person said, what the agent did, how it ended. */
export class RunTurn {
  /** @type {import("../graph/GraphView.js").GraphView | Promise<unknown> & {update?: undefined} | null} */ #graph = null;
  #input = "";

  constructor(/** @type {Story} */ story, /** @type {TurnContext} */ given) {
    this.story = story;
    this.given = given;
    this.you = new MessageBubble({ who: "you", role: "user" });
    this.agent = new MessageBubble({ who: "", role: "agent" });
    this.items = new TurnItems(this);
    this.foot = new TurnFoot(this);
    this.agent.body.append(this.items.element, this.foot.element);
    this.element = h("article.run-turn", { "aria-label": "Run" }, this.you.element, this.agent.element);
    this.#paint();
  }

  /** What tries the run again, or null. */
  get again() {
    const { onAgain } = this.given;
    return onAgain && (() => onAgain(this.story));
  }

  /** Whether the run is a workflow's, from the first word of that. */
  get isWorkflow() {
    return this.story.kind === "workflow" || Boolean(this.story.nodes);
  }

  /** Show what changed, with the next frame. */
  touch(/** @type {import("../../state/story.js").Item[]} */ items = []) {
    this.items.note(items);
    paintSoon(this.#paint);
  }

  #paint = () => {
    const { story } = this;
    if (story.run_id) this.element.dataset.run = story.run_id;
    this.element.dataset.status = story.status;
    this.element.toggleAttribute("data-undone", Boolean(story.undone));
    this.#showInput(story);
    say(this.you.who, visible(ownerOf(story.principal)));
    say(this.agent.who, story.unsent ? "" : visible(this.given.nameOf(story.agent, story.agent_name)));
    this.items.paint();
    if (this.isWorkflow) this.#showGraph(story);
    this.foot.show();
  };

  // Above what the nodes did.
  #showGraph(/** @type {Story} */ story) {
    graphs ??= untilLoaded(() => import("../graph/GraphView.js"));
    this.#graph ??= graphs.then(({ GraphView }) => {
      this.#graph = new GraphView(story);
      this.items.element.before(this.#graph.element);
      return this.#graph;
    });
    this.#graph.update?.();
  }

  #showInput(/** @type {Story} */ story) {
    const key = `${story.kind} ${story.input}`;
    if (this.#input === key) return;
    this.#input = key;
    this.you.element.hidden = !story.input;
    const args = story.kind === "workflow" && parseStructured(story.input);
    if (args) return fill(this.you.body, Object.keys(args).length ? ArgumentList(args) : h("p.faint", {}, "No input."));
    const long = story.input.length > LONG_INPUT || story.input.split("\n").length > 16;
    const text = h(`p${long ? ".is-clamped" : ""}`, { dir: "auto" }, visible(story.input));
    fill(this.you.body, text);
    if (long) this.you.body.append(h("button.quiet", { type: "button", onclick: (/** @type {Event} */ event) => unclamp(event, text) }, "Show all"));
  }
}

/** @type {(event: Event, text: HTMLElement) => void} */
function unclamp(event, text) {
  const clamped = text.classList.toggle("is-clamped");
  say(/** @type {HTMLElement} */ (event.currentTarget), clamped ? "Show all" : "Show less");
}
