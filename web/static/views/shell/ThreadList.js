// @ts-check
import { fill, h } from "../../dom/h.js";
import { ago, dayName } from "../../dom/format.js";
import { paintSoon } from "../../dom/paint.js";
import { visible } from "../../dom/visible.js";
import { OVER } from "../../state/story.js";
import { ownerWords } from "../../state/me.js";
import { stateWords } from "../../state/words.js";
import { threadHash } from "../../router.js";
import { listThreads } from "../../services/api.js";

/** @import { Threads } from "../../../../clients/typescript/src/types.js" */
/** @typedef {Threads["threads"][number]} Thread */

const MOST = 100;
const SEARCH_PAUSE_MS = 200;
const NEWS_PAUSE_MS = 700;

/** The conversations, by day, with a search over their titles and messages. */
export class ThreadList {
  /** @type {Thread[] | null} */
  #threads = null;
  /** @type {string | null} */
  #current = null;
  /** @type {any} */
  #error = null;
  #shown = "";
  #timer = 0;

  constructor(/** @type {{nameOf: import("../../state/definitions.js").NameOf, runOf: (runId: string) => {status: string, reason?: string} | undefined}} */ { nameOf, runOf }) {
    this.nameOf = nameOf;
    this.runOf = runOf;
    this.search = h("input.search", { type: "search", placeholder: "Search threads", "aria-label": "Search threads", oninput: () => this.readSoon(SEARCH_PAUSE_MS) });
    this.list = h("nav.threads", { "aria-label": "Threads" });
    this.element = h("div.thread-list", {}, this.search, this.list);
    this.update();
  }

  /** What is searched for. */
  get words() {
    return this.search.value.trim();
  }

  read = async () => {
    clearTimeout(this.#timer);
    this.#timer = 0;
    const { words } = this;
    try {
      const found = await listThreads(words);
      // A slow answer to an earlier search is not what was searched for last.
      if (words !== this.words) return;
      this.#threads = found;
      this.#error = null;
    } catch (error) {
      this.#error = error;
    }
    this.update();
  };

  /** Read them again shortly: one of them has news. */
  readSoon(pause = NEWS_PAUSE_MS) {
    this.#timer ||= setTimeout(this.read, pause);
  }

  mark(/** @type {string | null} */ threadId) {
    this.#current = threadId;
    this.update();
  }

  update() {
    paintSoon(this.#paint);
  }

  #paint = () => {
    const found = this.#threads ?? [];
    const key = JSON.stringify([this.#threads, this.#error?.code, this.#current, this.words, found.map((thread) => [this.nameOf(thread.agent), this.#stateOf(thread)])]);
    if (key === this.#shown) return;
    this.#shown = key;
    const focused = this.list.contains(document.activeElement) && document.activeElement?.getAttribute("href"); // also in a window that is not active
    fill(this.list, found.length ? this.#days(found) : this.#nothing(this.words));
    // The list is rebuilt; the link that had the focus gets it again.
    if (focused) /** @type {HTMLElement | null} */ (this.list.querySelector(`[href="${CSS.escape(focused)}"]`))?.focus();
  };

  // Returns [the state, its words] of the thread's open run, if it has one.
  #stateOf(/** @type {Thread} */ thread) {
    if (!thread.open_run) return [];
    const { status, reason } = this.runOf(thread.open_run) ?? { status: "running" };
    return OVER.has(status) ? [] : [status, stateWords(status, reason)];
  }

  #days(/** @type {Thread[]} */ threads) {
    const days = groupByDay(threads.slice(0, MOST));
    const more = threads.length >= MOST && h("p.faint.more", {}, "Search finds older threads by a word of their title or messages.");
    return [[...days].map(([day, group]) => h("section", {}, h("h2.caps", {}, day), group.map((thread) => this.#link(thread)))), more];
  }

  #link(/** @type {Thread} */ thread) {
    const here = thread.thread_id === this.#current;
    const [open, words] = this.#stateOf(thread);
    const name = this.nameOf(thread.agent);
    const title = visible(thread.title || "Untitled");
    const by = visible(ownerWords(thread.principal));
    const facts = words ? [words, name, by] : [name, by, ago(thread.updated_at)]; // the end of the line may be cut
    return h("a.thread", { dataset: { open: open ?? "" }, href: threadHash(thread.thread_id), title, "aria-current": here ? "page" : null },
      h("span.thread-title", {}, title), h("small", {}, facts.filter(Boolean).join(" · ")));
  }

  #nothing(/** @type {string} */ words) {
    if (this.#error) return h("p.faint", {}, "The threads could not be read. ", h("button.quiet", { type: "button", onclick: this.read }, "Try again"));
    if (!this.#threads) return h("p.faint", {}, "Loading…");
    return h("p.faint", {}, words ? "No thread has these words in its title." : "Your conversations will appear here.");
  }
}

function groupByDay(/** @type {Thread[]} */ threads) {
  const /** @type {Map<string, Thread[]>} */ days = new Map();
  for (const thread of threads) {
    const day = dayName(thread.updated_at);
    days.set(day, [...(days.get(day) ?? []), thread]);
  }
  return days;
}
