// The page: makes its parts, and passes events between them.

import { h } from "../dom/h.js";
import { paintSoon } from "../dom/paint.js";
import { Account } from "../components/Account.js";
import { Board } from "../components/Board.js";
import { ChatWindow } from "../components/ChatWindow.js";
import { Composer } from "../components/Composer.js";
import { HealthLine } from "../components/HealthLine.js";
import { NavBar } from "../components/NavBar.js";
import { SessionOver } from "../components/SessionOver.js";
import { ThreadList } from "../components/ThreadList.js";
import { Welcome } from "../components/Welcome.js";
import { useBoard } from "../hooks/useBoard.js";
import { Conversation } from "../hooks/useConversation.js";
import { useHealth } from "../hooks/useHealth.js";
import { useKeys } from "../hooks/useKeys.js";
import { useLocalChatHistory } from "../hooks/useLocalChatHistory.js";
import { useRate } from "../hooks/useRate.js";
import { useTicker } from "../hooks/useTicker.js";
import { followAddress, PLACES, threadHash, threadOfRoute } from "../router.js";
import { listAgents, listThreads, listWorkflows } from "../services/api.js";
import { beginSignIn, signOut } from "../services/signIn.js";
import { labelOf } from "../state/agents.js";
import { fleetOf } from "../state/fleet.js";
import { leave } from "./Entry.js";
import { mayDecide, ownerOf, threadOf } from "../state/me.js";
import { isPiece } from "../state/story.js";
import { signal } from "../dom/live.js";
import { Views } from "../views/views.js";

const THREADS_PAUSE_MS = 700;

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
    this.rate = useRate();
    this.chosen = this.history.recall("agent");
    this.link = null;
    this.healthLine = new HealthLine();
    this.threads = new ThreadList({ nameOf: this.nameOf, runOf: (runId) => this.feed?.board.get(runId), onSearch: () => this.#threadsSoon(200), onRetry: this.readThreads });
    this.account = new Account({ onSignOut: this.signOut });
    this.account.show(me);
    this.over = new SessionOver({ onSignIn: this.signInAgain });
    this.nav = new NavBar({ threads: this.threads.element, account: this.account.element, health: this.healthLine.element, onNew: () => this.#tab("talk"), onTab: (tab) => this.#tab(tab), onClose: () => this.#menu(false), onPalette: () => this.#palette(() => "") });
    this.composer = new Composer({ onSend: this.send, onAgent: this.choose, onDraft: (text) => this.history.setDraft(this.conversation?.threadId, text) });
    this.chat = new ChatWindow(this.#chatCallbacks());
    this.conversation = new Conversation(this.chat, this.history);
    /** The state of the board's connection. */
    this.line = signal({ name: "connecting" });
    this.views = new Views(this);
    this.board = new Board({ board: () => this.feed.board, nameOf: this.nameOf, onRetry: () => this.feed.hurry() });
  }

  mount(root) {
    root.replaceChildren(h("a.skip", { href: "#talk", onclick: (event) => this.#skip(event) }, "To the conversation"), this.nav.element, this.nav.shade, this.chat.element, this.board.element, this.views.element, this.nav.tabs, this.over.element);
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

  // What the buttons of a turn do is loaded when one is first pressed.
  act = async (...given) => {
    try {
      const { useTurnActions } = await import("../hooks/useTurnActions.js");
      this.acts ??= useTurnActions(this.conversation, { onFork: (threadId) => { location.hash = threadHash(threadId); } });
    } catch (error) {
      return void this.chat.complain(error);
    }
    return this.acts(...given);
  };

  send = async (input, ifBusy) => {
    const story = this.conversation.send({ agent: this.composer.agents.value, input, ifBusy });
    this.history.setDraft(this.conversation.threadId, "");
    await story;
    this.#threadsSoon();
  };

  choose = (id) => {
    this.chosen = id;
    this.history.remember("agent", id);
    this.composer.choose(id);
    this.#welcomeIfNew();
    this.#showDemo();
  };

  readAgents = async () => {
    try {
      const { agents, problems } = await listAgents();
      this.#agents = agents;
      this.#problems = problems;
      this.#agentsError = null;
    } catch (error) {
      this.#agentsError = error;
    }
    this.#showAgents();
  };

  // Where they cannot be read, the agents cannot either, and their notice says so.
  readWorkflows = async () => {
    const { workflows, problems } = await listWorkflows().catch(() => this.#flows);
    this.#flows = { workflows, problems };
    if (!workflows.length && !problems.length) return;
    this.#welcomeIfNew();
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
    for (const run of runs) this.conversation.noteRun(run);
    const { board } = this.feed;
    const { questions, waiting } = board.lanes(), total = board.number("questions");
    const mine = questions.filter((run) => mayDecide(run.principal)).length;
    this.nav.count(board.open, total > 0, mine === questions.length ? total : mine);
    this.health.curious = waiting.some((run) => run.status === "queued");
    if (runs.length && !isSnapshot) this.#threadsSoon();
  };

  #chatCallbacks() {
    return {
      nameOf: this.nameOf,
      composer: this.composer,
      trouble: this.healthLine.trouble,
      fleet: () => this.health?.fleet ?? fleetOf(null),
      act: (...given) => this.act(...given),
      isBehind: (story) => this.conversation.openStory !== story,
      onStop: () => this.conversation.stop(),
      onControl: (verb) => this.act(verb, this.conversation.openStory),
      onRetry: () => this.conversation.hurry(),
      onMenu: () => this.#menu(true),
      onCopy: async () => (await import("../state/markdown.js")).conversationOf(this.conversation, this.nameOf),
      onAgain: (story) => this.#again(story),
      onEdit: (story) => this.#edit(story),
      onNamed: (threadId, title) => this.#named(threadId, title),
      onDetail: (story) => this.conversation.detail(story),
      onTouched: () => paintSoon(this.#showHead),
      onEvent: (event) => this.#noteEvent(event),
    };
  }

  #go(route) {
    this.wasElsewhere = document.body.dataset.page !== "talk"; // then no field takes the focus, so that plain keys work further
    const isLanes = route.name === "board" && route.query.as === "lanes";
    const isView = !isLanes && this.views.has(route.name);
    document.body.dataset.page = isLanes ? "board" : isView ? "view" : "talk";
    this.board.standAlone(isLanes);
    if (isView) this.views.show(route);
    else this.views.hide();
    this.place = route.name === "run" ? "board" : route.name;
    if (isLanes || isView) this.#tab(this.place, false);
    else this.#open(route);
    this.#showLink(route.params.token);
    this.#menu(false);
    this.#mark();
  }

  // Few readers come by a link: its view is not part of the first load.
  async #showLink(token) {
    if (!token && !this.link) return;
    this.link ??= import("../components/LinkView.js").then(({ LinkView }) => {
      const view = new LinkView();
      this.root.append(view.element);
      return view;
    });
    (await this.link).open(token);
  }

  #open(route) {
    const isThread = route.name === "thread", { runId } = route.params;
    const threadId = isThread ? threadOfRoute(route) : null;
    this.#tab("talk", false);
    // Another principal's conversation is read; a message would begin one's own.
    document.body.toggleAttribute("data-others", Boolean(threadId && threadOf(threadId).owner));
    if (!isThread || threadId !== this.conversation.threadId) {
      this.rate.reset();
      if (!isThread) this.#openNew();
      else this.conversation.open(threadId).then(() => runId && this.chat.scrollToRun(runId));
      this.composer.write(this.history.draft(threadId));
    } else if (runId) this.chat.scrollToRun(runId);
  }

  #openNew() {
    this.conversation.close();
    this.chat.showWelcome(this.#welcome());
    paintSoon(this.#showHead);
    this.#showDemo();
    if (!this.wasElsewhere && matchMedia("(min-width: 761px)").matches) this.composer.focus();
  }

  #welcome() {
    return Welcome({ agents: this.#agents, workflows: this.#flows.workflows, problems: [...this.#problems, ...this.#flows.problems], chosen: this.composer.agents.value || this.chosen, error: this.#agents ? null : this.#agentsError, onAgent: this.choose, onStarter: (text) => this.#starter(text), onStarted: (run) => { location.hash = threadHash(run.thread_id, run.run_id); }, onRetry: this.readAgents });
  }

  #welcomeIfNew() {
    if (!this.conversation.threadId && !this.conversation.stories.length) this.chat.showWelcome(this.#welcome());
  }

  #starter(text) {
    this.send(text);
  }

  #showAgents() {
    const agents = this.#agents ?? [];
    const chosen = agents.some((agent) => agent.id === this.chosen) ? this.chosen : agents[0]?.id;
    this.composer.showAgents(agents, this.conversation.agent || chosen);
    this.#welcomeIfNew();
    this.#showDemo();
    this.threads.update();
    this.board.update();
    for (const story of this.conversation.stories) this.chat.touch(story, []);
  }

  #showDemo() {
    const agent = this.#agents?.find((each) => each.id === this.composer.agents.value);
    this.chat.demo.hidden = !(agent?.is_demo ?? agent?.model?.startsWith("demo/"));
  }

  #named(threadId, title) {
    if (threadId && location.hash.split("/run/")[0] !== threadHash(threadId)) this.replaceRoute(threadHash(threadId));
    if (this.conversation.agent && this.#agents) this.composer.choose(this.conversation.agent);
    this.#showDemo();
    this.#mark();
    paintSoon(this.#showHead);
  }

  #noteEvent(event) {
    if (isPiece(event)) this.rate.note();
    if (event.type === "end") this.#threadsSoon();
    if (event.type === "handover") this.composer.choose(event.to_agent);
    paintSoon(this.#showHead);
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
    this.conversation.hurry();
  }

  #showHead = () => {
    const story = this.conversation.openStory ?? this.conversation.stories.findLast((each) => each.run_id);
    this.chat.head.show(story, this.rate.perSecond());
    this.composer.showOpenRun(Boolean(this.conversation.openStory));
    document.body.toggleAttribute("data-workflow", story?.kind === "workflow"); // it takes no message
    this.board.drawRate(this.conversation.followed?.run_id, this.rate.counts());
    this.#titleOf(story);
  };

  #tick() {
    this.#showHead();
    this.chat.tick();
    this.board.tick();
  }

  #titleOf(story) {
    const open = this.conversation.openStory;
    const mark = open ? (open.status === "waiting" ? "◐ " : "● ") : story?.end?.status === "failed" ? "✕ " : "";
    const title = `${mark}${this.conversation.title || "New conversation"} — Callboard`;
    if (document.title !== title) document.title = title;
  }

  #threadsSoon(pause = THREADS_PAUSE_MS) {
    this.#threadsTimer ||= setTimeout(this.readThreads, pause);
  }

  // A run of one's own is retried with what it has recorded; a message that never arrived is sent again.
  #again(story) {
    return story.unsent || !story.run_id || ownerOf(story.principal) !== "you" ? this.conversation.again(story) : this.act("retry", story);
  }

  #edit(story) {
    this.conversation.withdraw(story);
    this.composer.write(story.input);
    this.composer.focus();
    this.#welcomeIfNew();
  }

  #mark() {
    const isElsewhere = document.body.dataset.page !== "talk";
    this.nav.mark(isElsewhere ? this.place : this.conversation.threadId ? "" : "new", document.body.dataset.tab);
    this.threads.mark(this.conversation.threadId);
    this.board.mark(this.conversation.threadId);
  }

  #tab(tab, byHand = true) {
    document.body.dataset.tab = tab;
    if (byHand && tab in PLACES) location.hash = PLACES[tab][0];
    if (byHand && tab === "talk" && document.body.dataset.page !== "talk") location.hash = this.conversation.threadId ? threadHash(this.conversation.threadId) : "#/";
    this.#mark();
  }

  #menu(open) {
    document.body.classList.toggle("has-menu", open);
    if (open) this.threads.search.focus();
  }

  #skip(event) {
    event.preventDefault();
    this.composer.focus();
  }

  #bindKeys() {
    const approval = (decision) => () => this.chat.openApproval()?.press(decision);
    const keys = {
      "/": () => (document.body.dataset.page === "view" ? this.#palette(() => "") : this.#search()),
      n: () => { location.hash = "#/"; },
      c: () => this.composer.focus(),
      j: () => this.board.step(1),
      k: () => this.board.step(-1),
      b: () => { location.hash = document.body.dataset.page === "talk" ? "#/board" : this.#back(); },
      s: () => this.conversation.stop(),
      a: approval("approve"),
      e: approval("edit"),
      r: approval("reject"),
      "?": () => this.#shortcuts(),
      Escape: () => this.#menu(false),
    };
    useKeys((key) => this.views.view?.keys?.[key] ?? keys[key], (typed) => this.#palette(typed));
  }

  // Both are loaded when they are first opened.
  async #shortcuts() {
    const { toggleShortcuts } = await import("../components/Shortcuts.js");
    toggleShortcuts();
  }

  async #palette(typed) {
    const { openPalette } = await import("../ui/Palette.js");
    await openPalette(this, typed);
  }

  #back() {
    return this.conversation.threadId ? threadHash(this.conversation.threadId) : "#/";
  }

  #search() {
    if (matchMedia("(max-width: 1120px)").matches) this.#menu(true);
    if (matchMedia("(max-width: 760px)").matches) this.#tab("threads");
    this.threads.search.focus();
  }
}
