// @ts-check
// The page: makes its parts and passes on what they read.

import { h } from "../../dom/h.js";
import { Account } from "./Account.js";
import { Board } from "../board/Board.js";
import { HealthLine } from "./HealthLine.js";
import { NavBar } from "./NavBar.js";
import { SessionOver } from "./SessionOver.js";
import { ThreadList } from "./ThreadList.js";
import { useBoard } from "../../state/useBoard.js";
import { useHealth } from "../../state/useHealth.js";
import { useLocalChatHistory } from "../../state/useLocalChatHistory.js";
import { useTicker } from "../../dom/useTicker.js";
import { followAddress } from "../../router.js";
import { beginSignIn, signOut } from "../../services/signIn.js";
import { boardLine } from "./boardLine.js";
import { bindKeys, showPalette } from "./keys.js";
import { Definitions } from "../../state/definitions.js";
import { leave } from "./Entry.js";
import { mayDecide } from "../../state/me.js";
import { Place } from "./Place.js";
import { signal } from "../../dom/live.js";
import { TalkView } from "../talk/TalkView.js";
import { Views } from "../views.js";

/** @typedef {Awaited<ReturnType<typeof import("../../services/signIn.js").whoAmI>>} Me Who is reading. */
/** @typedef {import("../../state/board.js").Run} Run */
/** @typedef {import("../../state/useBoard.js").Line} Line */

/** The whole page; `mount` puts it into the document and begins. */
export class App {
  /** `me` is null where the server does not say who is reading. */
  constructor(/** @type {HTMLElement} */ root, /** @type {Me | null} */ me) {
    this.root = root;
    this.me = me;
    this.history = useLocalChatHistory();
    this.definitions = new Definitions({ onAgents: () => this.#showAgents(), onWorkflows: () => this.#showWorkflows() });
    this.nameOf = this.definitions.nameOf;
    this.readAgents = this.definitions.readAgents;
    const place = new Place(this);
    this.place = place;
    this.mark = place.mark;
    this.menu = place.menu;
    this.showTitle = place.showTitle;
    this.healthLine = new HealthLine();
    this.threads = new ThreadList({ nameOf: this.nameOf, runOf: (runId) => this.feed.board.get(runId) });
    this.account = new Account({ onSignOut: this.signOut });
    this.account.show(me);
    this.over = new SessionOver({ onSignIn: this.signInAgain });
    this.nav = new NavBar({ threads: this.threads.element, account: this.account.element, health: this.healthLine.element, onNew: () => place.tab("talk"), onTab: (tab) => place.tab(tab), onClose: () => place.menu(false), onPalette: () => showPalette(this) });
    /** The state of the board's connection. */
    this.line = signal(/** @type {Line} */ ({ name: "connecting" }));
    this.talk = new TalkView(this);
    this.views = new Views(this);
    this.board = new Board({ board: () => this.feed.board, nameOf: this.nameOf, onRetry: () => this.feed.hurry() });
    this.feed = useBoard({ onRuns: this.noteRuns, onLine: boardLine(this) });
    this.health = useHealth((health) => this.healthLine.show(health));
  }

  mount() {
    this.root.replaceChildren(h("a.skip", { href: "#view", onclick: (/** @type {Event} */ event) => this.#skip(event) }, "Skip to the content"), this.nav.element, this.nav.shade, this.talk.element, this.board.element, this.views.element, this.nav.tabs, this.over.element);
    followAddress(this.place.go);
    this.feed.start();
    this.readAgents();
    this.definitions.readWorkflows();
    this.threads.read();
    useTicker(() => this.#tick());
    bindKeys(this);
  }

  /** The agents that can be asked, once they are known. */
  get agents() {
    return this.catalogue.agents ?? [];
  }

  /** The agents, null before they are read, the workflows, and what is wrong with either. */
  get catalogue() {
    return this.definitions.catalogue;
  }

  /** End the session, or all of this person's; a key is forgotten. */
  signOut = async (/** @type {boolean} */ everywhere) => {
    try {
      leave(this.me?.credential === "session" ? await signOut(everywhere) : "");
    } catch (/** @type {any} */ error) {
      if (error.status === 401) leave();
      else this.over.fail(error);
    }
  };

  /** Go to the sign-in and come back; what is typed is kept as a draft. */
  signInAgain = () => (this.me?.credential === "session" ? beginSignIn().catch((/** @type {unknown} */ error) => this.over.fail(error)) : location.reload());

  noteRuns = (/** @type {Run[]} */ runs, /** @type {boolean} */ isSnapshot) => {
    this.board.update();
    this.threads.update();
    for (const run of runs) this.talk.conversation.noteRun(run);
    const { board } = this.feed;
    const { questions, waiting } = board.lanes(), total = board.number("questions");
    const mine = questions.filter((run) => mayDecide(run.principal)).length;
    this.nav.count(board.open, total > 0, mine === questions.length ? total : mine);
    this.health.curious = waiting.some((run) => run.status === "queued");
    if (runs.length && !isSnapshot) this.threadsSoon();
  };

  /** Change the address to another one of what is shown. */
  replaceRoute(/** @type {string} */ hash) {
    history.replaceState(null, "", hash);
  }

  /** Read the threads again shortly: one of them has news. */
  threadsSoon() {
    this.threads.readSoon();
  }

  #showAgents() {
    this.talk.showCatalogue();
    this.threads.update();
    this.board.update();
  }

  #showWorkflows() {
    this.talk.agent.showWelcome();
    this.threads.update();
  }

  #tick() {
    this.talk.tick();
    this.board.tick();
  }

  #skip(/** @type {Event} */ event) {
    event.preventDefault();
    if (document.body.dataset.page === "talk") this.talk.composer.focus();
    else this.views.element.focus();
  }
}
