// @ts-check
// The views beside the conversation: each is loaded when it is first shown, and ends when another place is.

import { LoadingIndicator } from "../ui/LoadingIndicator.js";
import { Notice } from "../ui/Notice.js";
import { h } from "../dom/h.js";
import { scope } from "../dom/live.js";
import { addStyles } from "../dom/styles.js";
import { visible } from "../dom/visible.js";

/**
 * @typedef {import("../router.js").Route} Route
 * @typedef {{element: HTMLElement, title: string, keys?: Record<string, (event: KeyboardEvent) => void>, commands?: () => [string, () => void][], show: (route: Route) => void}} View
 */

/** @type {Record<string, () => Promise<any>>} Each module exports `open(app)`, which returns a View, and `styles` where it waits for its own. */
const MODULES = {
  unknown: async () => ({ open: () => ({ title: "", element: h("div.view-empty"), show: showNowhere }) }),
  board: () => import("./board/BoardView.js"),
  run: () => import("./run/RunView.js"),
  approvals: () => import("./approvals/ApprovalsView.js"),
  fleet: () => import("./fleet/FleetView.js"),
  agents: () => import("./agents/AgentsView.js"),
  tools: () => import("./tools/ToolsView.js"),
  workflows: () => import("./workflows/WorkflowsView.js"),
  observers: () => import("./observers/ObserversView.js"),
  audit: () => import("./audit/AuditView.js"),
  keys: () => import("./keys/KeysView.js"),
};
/** Milliseconds after which a view that is still loading says so. */
const PATIENCE_MS = 200;

/** The place on the page where the view of the address is shown. */
export class Views {
  #end = () => {};
  #visit = 0;
  #name = "";

  /** @param {any} app what views are given */
  constructor(app) {
    this.app = app;
    this.element = h("section.view", { id: "view", role: "main", tabindex: "-1", hidden: true });
    /** @type {View | null} The view that is shown. */
    this.view = null;
  }

  /** The heading of the view that is shown, or the view's own name before it has one. */
  get title() {
    return this.element.querySelector("h1")?.textContent || (this.view?.title ?? "");
  }

  /** @param {string} name whether a place has a view */
  has(name) {
    return name in MODULES;
  }

  /** Show the place of a route; a view that is there already gets the route alone. */
  async show(/** @type {Route} */ route) {
    this.element.hidden = false;
    if (this.view && route.name === this.#name) return this.view.show(route);
    this.#leave();
    const visit = this.#visit;
    this.#name = route.name;
    const patience = setTimeout(() => this.#fill(LoadingIndicator("Opening")), PATIENCE_MS);
    try {
      const [module] = await Promise.all([MODULES[route.name](), addStyles("/static/style/views.css")]);
      await module.styles; // of a sheet of its own
      if (visit !== this.#visit) return;
      this.#end = scope(() => { this.view = module.open(this.app, route); });
      this.#fill(/** @type {View} */ (/** @type {unknown} */ (this.view)).element);
      this.view?.show(route);
    } catch (error) {
      if (visit === this.#visit) this.#fail(error);
    } finally {
      clearTimeout(patience);
    }
  }

  /** Show no view. */
  hide() {
    this.element.hidden = true;
    this.#leave();
  }

  #leave() {
    this.#visit += 1;
    this.#end();
    this.#end = () => {};
    this.view = null;
    this.#name = "";
    this.element.replaceChildren();
  }

  /** @param {HTMLElement} element */
  #fill(element) {
    this.element.replaceChildren(element);
  }

  // The file may be gone since the page was loaded: the server was updated meanwhile.
  #fail(/** @type {unknown} */ error) {
    reportError(error);
    this.#fill(h("div.view-empty", {}, Notice({ title: "This view could not be loaded", text: "The server did not answer, or has another version since this page was opened.", actions: [["Load the page again", () => location.reload()]] })));
  }
}

/** @type {(this: View, route: Route) => void} */
function showNowhere(route) {
  this.element.replaceChildren(h("h1", {}, "There is nothing at this address"), h("p", {}, "The page has no place ", h("code", { dir: "ltr" }, `#${visible(route.params.path)}`), ". It may be mistyped, or of another version."), h("p", {}, h("a.btn", { href: "#/" }, "To the conversations")));
}
