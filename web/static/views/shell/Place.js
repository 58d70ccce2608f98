// @ts-check
// The place that the page shows: the conversation or a view, as the address says.

import { PLACES } from "../../router.js";

/** @typedef {import("./LinkView.js").LinkView} LinkView */

/** What the window is called where a view has no heading yet. */
const NAME = "Callboard";

/** Shows the place of a route, and marks in the rail, the threads and the board what is shown. */
export class Place {
  /** @type {Promise<LinkView> | undefined} */
  #link;
  #name = "";

  constructor(/** @type {import("./App.js").App} */ app) {
    this.app = app;
  }

  go = (/** @type {import("../../router.js").Route} */ route) => {
    const { talk, views } = this.app;
    const wasElsewhere = document.body.dataset.page !== "talk"; // then no field takes the focus, so that plain keys work further
    const isView = views.has(route.name);
    document.body.dataset.page = isView ? "view" : "talk";
    for (const dialog of document.querySelectorAll("dialog")) dialog.close(); // it was about another place
    if (isView) views.show(route).then(this.showTitle);
    else views.hide();
    this.#name = route.name === "run" ? "board" : route.name;
    this.tab(isView ? this.#name : "talk", false);
    if (!isView) talk.show(route, !wasElsewhere);
    this.#showLink(route.params.token);
    this.menu(false);
    this.mark();
    this.showTitle();
  };

  /** Show a tab of the page on a phone; `byHand`, the address follows. */
  tab(/** @type {string} */ tab, byHand = true) {
    document.body.dataset.tab = tab;
    if (byHand && tab in PLACES) location.hash = PLACES[tab][0];
    if (byHand && tab === "talk" && document.body.dataset.page !== "talk") location.hash = this.app.talk.hash;
    this.mark();
  }

  /** Mark in the rail, the threads and the board what is shown. */
  mark = () => {
    const { nav, threads, board, talk } = this.app;
    const isElsewhere = document.body.dataset.page !== "talk", { threadId } = talk.conversation;
    nav.mark(isElsewhere ? this.#name : threadId ? "" : "new", document.body.dataset.tab);
    threads.mark(threadId);
    board.mark(threadId);
  };

  /** Show what the window is called: what is shown, by its heading. */
  showTitle = () => {
    const { talk, views } = this.app;
    const title = [(document.body.dataset.page === "talk" ? talk : views).title, NAME].filter(Boolean).join(" — ");
    if (document.title !== title) document.title = title;
  };

  /** Open or close the rail where it lies over the page. */
  menu = (/** @type {boolean} */ open) => {
    document.body.classList.toggle("has-menu", open);
    if (open) this.app.threads.search.focus();
  };

  // Few readers come by a link: its view is not part of the first load.
  async #showLink(/** @type {string | undefined} */ token) {
    if (!token && !this.#link) return;
    this.#link ??= import("./LinkView.js").then(({ LinkView }) => {
      const view = new LinkView();
      this.app.root.append(view.element);
      return view;
    });
    (await this.#link).open(token);
  }
}
