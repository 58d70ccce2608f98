// The page: makes its parts, shows the place of the address, and passes on what they read.

import { h } from "../../dom/h.js";
import { Account } from "./Account.js";
import { Board } from "../board/Board.js";
import { HealthLine } from "./HealthLine.js";
import { NavBar } from "./NavBar.js";
import { SessionOver } from "./SessionOver.js";
import { ThreadList } from "./ThreadList.js";
import { useBoard } from "../../state/useBoard.js";
import { useHealth } from "../../state/useHealth.js";
import { useKeys } from "../../dom/useKeys.js";
import { useLocalChatHistory } from "../../state/useLocalChatHistory.js";
import { useTicker } from "../../dom/useTicker.js";
import { followAddress, PLACES } from "../../router.js";
import { listAgents, listThreads, listWorkflows } from "../../services/api.js";
import { beginSignIn, signOut } from "../../services/signIn.js";
import { labelOf } from "../../state/agents.js";
import { leave } from "./Entry.js";
import { mayDecide } from "../../state/me.js";
import { signal } from "../../dom/live.js";
import { TalkView } from "../talk/TalkView.js";
import { Views } from "../views.js";

const THREADS_PAUSE_MS = 700;
/** What the window is called where a view has no heading yet. */
const NAME = "Callboard";

/** The whole page; `mount` puts it into the document and begins. */
export class App {
  #agents = null;
  #flows = { workflows: [], problems: [] };
  #agentsError = null;
  #problems = [];
  #threadsTimer = 0;

  /** `me`: who is reading, or null where the server does not say. */
  constructor(me = null) {
    this.me = me;
    this.history = useLocalChatHistory();
    this.link = null;
    this.healthLine = new HealthLine();
    this.threads = new ThreadList({ nameOf: this.nameOf, runOf: (runId) => this.feed?.board.get(runId), onSearch: () => this.threadsSoon(200), onRetry: this.readThreads });
    this.account = new Account({ onSignOut: this.signOut });
    this.account.show(me);
    this.over = new SessionOver({ onSignIn: this.signInAgain });
    this.nav = new NavBar({ threads: this.threads.element, account: this.account.element, health: this.healthLine.element, onNew: () => this.#tab("talk"), onTab: (tab) => this.#tab(tab), onClose: () => this.menu(false), onPalette: () => this.#palette(() => "") });
    /** The state of the board's connection. */
    this.line = signal({ name: "connecting" });
    this.talk = new TalkView(this);
    this.views = new Views(this);
    this.board = new Board({ board: () => this.feed.board, nameOf: this.nameOf, onRetry: () => this.feed.hurry() });
  }

  mount(root) {
    root.replaceChildren(h("a.skip", { href: "#view", onclick: (event) => this.#skip(event) }, "Skip to the content"), this.nav.element, this.nav.shade, this.talk.element, this.board.element, this.views.element, this.nav.tabs, this.over.element);
    this.root = root;
    this.feed = useBoard({ onRuns: this.noteRuns, onLine: (state) => this.#boardLine(state) });
    this.health = useHealth((health) => this.healthLine.show(health));
    this.replaceRoute = followAddress((route) => this.#go(route));
    this.feed.start();
    this.readAgents();
    this.readWorkflows();
    this.readThreads();
    useTicker(() => this.#tick());
    this.#bindKeys();
  }

  /** The agents that can be asked, once they are known. */
  get agents() {
    return this.#agents ?? [];
  }

  /** The agents, null before they are read, the workflows, and what is wrong with either. */
  get catalogue() {
    return { agents: this.#agents, workflows: this.#flows.workflows, problems: [...this.#problems, ...this.#flows.problems], error: this.#agents ? null : this.#agentsError };
  }

  /** Return the name people know an agent or a workflow by. */
  nameOf = (id, given) => labelOf([...(this.#agents ?? []), ...this.#flows.workflows], id, given);

  /** End the session, or all of this person's; a key is forgotten. */
  signOut = async (everywhere) => {
    try {
      leave(this.me.credential === "session" ? await signOut(everywhere) : "");
    } catch (error) {
      if (error.status === 401) leave();
      else this.over.fail(error);
    }
  };

  /** Go to the sign-in and come back; what is typed is kept as a draft. */
  signInAgain = () => (this.me?.credential === "session" ? beginSignIn().catch((error) => this.over.fail(error)) : location.reload());

  readAgents = async () => {
    try {
      const { agents, problems } = await listAgents();
      this.#agents = agents;
      this.#problems = problems;
      this.#agentsError = null;
    } catch (error) {
      this.#agentsError = error;
    }
    this.#showCatalogue();
  };

  // Where they cannot be read, the agents cannot either, and their notice says so.
  readWorkflows = async () => {
    const { workflows, problems } = await listWorkflows().catch(() => this.#flows);
    this.#flows = { workflows, problems };
    if (!workflows.length && !problems.length) return;
    this.talk.agent.showWelcome();
    this.threads.update();
  };

  readThreads = async () => {
    clearTimeout(this.#threadsTimer);
    this.#threadsTimer = 0;
    const { words } = this.threads;
    try {
      const found = await listThreads(words);
      // A slow answer to an earlier search is not what was searched for last.
      if (words === this.threads.words) this.threads.show(found);
    } catch (error) {
      this.threads.fail(error);
    }
  };

  noteRuns = (runs, isSnapshot) => {
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

  #go(route) {
    const wasElsewhere = document.body.dataset.page !== "talk"; // then no field takes the focus, so that plain keys work further
    const isView = this.views.has(route.name);
    document.body.dataset.page = isView ? "view" : "talk";
    for (const dialog of document.querySelectorAll("dialog[open]")) dialog.close(); // it was about another place
    if (isView) this.views.show(route).then(this.showTitle);
    else this.views.hide();
    this.place = route.name === "run" ? "board" : route.name;
    this.#tab(isView ? this.place : "talk", false);
    if (!isView) this.talk.show(route, !wasElsewhere);
    this.#showLink(route.params.token);
    this.menu(false);
    this.mark();
    this.showTitle();
  }

  // Few readers come by a link: its view is not part of the first load.
  async #showLink(token) {
    if (!token && !this.link) return;
    this.link ??= import("./LinkView.js").then(({ LinkView }) => {
      const view = new LinkView();
      this.root.append(view.element);
      return view;
    });
    (await this.link).open(token);
  }

  #showCatalogue() {
    this.talk.showCatalogue();
    this.threads.update();
    this.board.update();
  }

  #boardLine(state) {
    this.line.value = state;
    this.board.showLine(state);
    if (state.name === "refused") this.#refused(state.error);
    document.body.dataset.line = state.name;
    if (state.name === "waiting") this.healthLine.show(null);
    if (state.name === "offline") this.healthLine.show(null, "this device has no network");
    // A server that comes back may be another one, with other agents.
    if ((state.name === "live" || state.name === "polling") && this.wasDown) this.#backAgain();
    this.wasDown = state.name === "waiting" || state.name === "offline" || (this.wasDown && state.name === "connecting");
  }

  #refused(error) {
    this.health.ask(); // the server answers, and the health line may say otherwise
    if (error?.status === 401) this.over.show();
  }

  #backAgain() {
    this.health.ask();
    this.readAgents();
    this.readWorkflows();
    this.readThreads();
    this.talk.conversation.hurry();
  }

  #tick() {
    this.talk.tick();
    this.board.tick();
  }

  /** Show what the window is called: what is shown, by its heading. */
  showTitle = () => {
    const name = document.body.dataset.page === "talk" ? this.talk.title : this.views.title;
    const title = [name, NAME].filter(Boolean).join(" — ");
    if (document.title !== title) document.title = title;
  };

  /** Read the threads again shortly: one of them has news. */
  threadsSoon(pause = THREADS_PAUSE_MS) {
    this.#threadsTimer ||= setTimeout(this.readThreads, pause);
  }

  /** Mark in the rail, the threads and the board what is shown. */
  mark() {
    const isElsewhere = document.body.dataset.page !== "talk", { threadId } = this.talk.conversation;
    this.nav.mark(isElsewhere ? this.place : threadId ? "" : "new", document.body.dataset.tab);
    this.threads.mark(threadId);
    this.board.mark(threadId);
  }

  #tab(tab, byHand = true) {
    document.body.dataset.tab = tab;
    if (byHand && tab in PLACES) location.hash = PLACES[tab][0];
    if (byHand && tab === "talk" && document.body.dataset.page !== "talk") location.hash = this.talk.hash;
    this.mark();
  }

  /** Open or close the rail where it lies over the page. */
  menu(open) {
    document.body.classList.toggle("has-menu", open);
    if (open) this.threads.search.focus();
  }

  #skip(event) {
    event.preventDefault();
    if (document.body.dataset.page === "talk") this.talk.composer.focus();
    else this.views.element.focus();
  }

  // A key acts on what is shown, or it leads to a place.
  #bindKeys() {
    const ofTalk = { j: () => this.board.step(1), k: () => this.board.step(-1), ...this.talk.keys };
    const keys = {
      "/": () => (document.body.dataset.page === "view" ? this.#palette(() => "") : this.#search()),
      n: () => { location.hash = "#/"; },
      b: () => { location.hash = document.body.dataset.page === "talk" ? "#/board" : this.talk.hash; },
      "?": () => this.#shortcuts(),
      Escape: () => this.menu(false),
    };
    useKeys((key) => (document.body.dataset.page === "talk" ? ofTalk : this.views.view?.keys)?.[key] ?? keys[key], (typed) => this.#palette(typed));
  }

  // Both are loaded when they are first opened.
  async #shortcuts() {
    const { toggleShortcuts } = await import("./Shortcuts.js");
    toggleShortcuts();
  }

  async #palette(typed) {
    const { openPalette } = await import("../../ui/Palette.js");
    await openPalette(this, typed);
  }

  #search() {
    if (matchMedia("(max-width: 1120px)").matches) this.menu(true);
    if (matchMedia("(max-width: 760px)").matches) this.#tab("threads");
    this.threads.search.focus();
  }
}
