// @ts-check
// The conversation on screen: opens a thread, follows its open run, sends, stops. It knows no elements.

import { ApiError, getConversationHistory, getEvents, getThread, newKey, runFeed, sendPrompt, stopRun } from "../services/api.js";
import { applySummary, rebuild, storiesOf } from "./history.js";
import { threadKey } from "./me.js";
import { foldRoute } from "./toolCalls.js";
import { isOver, isRemoved, newStory, applyEvent, noteLoss, pick } from "./story.js";

/** @typedef {import("./story.js").Story} Story */
/** @typedef {import("./story.js").Item} Item */
/** @typedef {import("./story.js").RunEvent} RunEvent */
/** @typedef {import("./story.js").Failure} Failure */
/** @typedef {import("../ui/LineState.js").Line} Line */
/** @typedef {{thread_id: string | null, title: string, agent: string, stories: Story[]}} Thread what is shown of a thread, and kept of it */
/** @typedef {{load: (threadId: string) => any, save: (threadId: string, thread: Thread & {thread_id: string}) => void, forget: (threadId: string) => void}} Kept what this browser has of its conversations */

/**
 * @typedef {object} ConversationView
 * @property {() => void} showLoading
 * @property {(thread: Thread) => void} showThread
 * @property {{put: (story: Story) => void, replace: (old: Story, fresh: Story) => void, remove: (story: Story) => void}} turns
 * @property {(story: Story, items: Item[], event?: RunEvent) => void} touch
 * @property {(line: Line) => void} showLine
 * @property {(error: Failure, retry: () => void) => void} showFailure
 * @property {(error: Failure) => void} complain
 * @property {(threadId: string | null, title: string) => void} named
 */

const SAVE_EVERY_MS = 1500;
// A FOR_EACH over ten thousand items makes some events for each.
const MOST_OF_NODES = 100_000;

/** Drives a view. */
export class Conversation {
  /** @type {{stop: () => void, hurry: () => void} | null} */
  #feed = null;
  #visit = 0;
  #saving = 0;
  /** @type {Promise<string> | null} The id of the thread that the first message of a new conversation makes, once the server has accepted it. */
  #opening = null;

  /** @type {string | null} */
  threadId = null;
  title = "";
  agent = "";
  /** @type {Story[]} */
  stories = [];
  /** @type {Story | null} */
  followed = null;

  /** @param {ConversationView} view @param {Kept} history */
  constructor(view, history) {
    this.view = view;
    this.history = history;
    addEventListener("pagehide", () => this.#save());
  }

  /** Leave the present thread; nothing of it is shown or followed any more. */
  close() {
    this.#save();
    this.#visit += 1;
    this.#opening = null;
    this.#unfollow();
    Object.assign(this, { threadId: null, title: "", agent: "", stories: [] });
  }

  /** Show a thread: from memory at once, then as the server has it. */
  async open(/** @type {string} */ threadId) {
    this.close();
    const visit = this.#visit;
    this.threadId = threadId;
    const cached = this.history.load(threadId);
    if (cached) this.#show(cached, cached.stories);
    else this.view.showLoading();
    try {
      const [thread, messages] = await Promise.all([getThread(threadId), getConversationHistory(threadId)]);
      if (visit !== this.#visit) return;
      this.#show(thread, preferFollowed(storiesOf(thread, messages), this.stories));
      this.#followNext();
    } catch (/** @type {any} */ error) {
      if (visit !== this.#visit) return;
      if (error.status === 404) this.history.forget(threadId);
      this.view.showFailure(error, () => this.open(threadId));
    }
  }

  /** @param {{agent: string, input: string, ifBusy?: string}} message Sends it; its story appears at once, and is marked unsent where the server did not accept it. */
  async send({ agent, input, ifBusy }) {
    const story = newStory({ agent, input, key: newKey(), thread_id: this.threadId, createdAt: new Date().toISOString() });
    story.ifBusy = ifBusy;
    this.stories.push(story);
    await this.#post(story);
  }

  /** @param {Story} story @param {{run_id: string, thread_id: string}} run Shows a run that repeats one of this thread. */
  add({ agent, input }, { run_id, thread_id }) {
    if (this.stories.some((story) => story.run_id === run_id)) return; // the board has named it already
    const story = newStory({ run_id, agent, input, thread_id, createdAt: new Date().toISOString() });
    this.stories.push(story);
    this.view.turns.put(story);
    this.#followNext();
  }

  /** Send again: the same message if it never arrived (with the same key), else as a new one. */
  async again(/** @type {Story} */ story) {
    if (!story.unsent) return this.send({ agent: story.agent, input: story.input });
    await this.#post(story);
  }

  /** Take out a story that is no turn: unsent, given to another run, or removed before it began. */
  withdraw(/** @type {Story} */ story) {
    this.stories = this.stories.filter((other) => other !== story);
    this.view.turns.remove(story);
    this.#saveSoon();
  }

  /** Ask the followed run to stop. */
  async stop() {
    const story = this.openStory;
    if (!story?.run_id || story.stopping) return;
    story.stopping = true;
    this.view.touch(story, []);
    try {
      await stopRun(story.run_id);
    } catch (/** @type {any} */ error) {
      story.stopping = false;
      this.view.touch(story, []);
      this.view.complain(error);
    }
  }

  /** The story that is followed, or the next that waits. */
  get openStory() {
    return this.stories.find((story) => !isOver(story) && !story.unsent && !story.lost);
  }

  /** Reconnect now instead of after the pause. */
  hurry() {
    this.#feed?.hurry();
  }

  /** Take a board summary: a run of this thread that others started appears here too. */
  noteRun(/** @type {any} */ run) {
    if (threadKey(run.thread_id, run.principal) !== this.threadId) return;
    const story = this.stories.find((each) => each.run_id === run.run_id);
    if (!story) return this.#catchUp();
    if (run.title && !this.title) this.#rename(run.title);
    if (!story.kind && run.kind) this.#noteKind(story, run.kind);
    if (story === this.followed) return this.#noteDetail(story, run);
    if (isOver(story)) return;
    applySummary(story, run);
    this.view.touch(story, []);
    if (isOver(story) && !story.startedAt) this.#dropRemoved(story);
    this.#followNext();
  }

  // Whether a run was stopped or its message removed before it began, its events tell.
  async #dropRemoved(/** @type {Story} */ story) {
    const fresh = await this.detail(story);
    if (!fresh) return;
    this.view.turns.replace(story, fresh);
    if (isRemoved(fresh)) this.withdraw(fresh);
  }

  // No event tells it, and the card of a routed call depends on it.
  #noteKind(/** @type {Story} */ story, /** @type {string} */ kind) {
    story.kind = kind;
    this.view.touch(story, foldRoute(story));
  }

  // What a run waits for stands in its summary; its events carry a code. That its worker was lost stands there alone.
  #noteDetail(/** @type {Story} */ story, /** @type {any} */ run) {
    const items = noteLoss(story, run);
    if (!items && (run.status !== story.status || run.detail === story.detail)) return;
    story.detail = run.detail;
    this.view.touch(story, items ?? []);
  }

  /** Build an ended run again from its events, which hold more than its messages. */
  async detail(/** @type {Story} */ story) {
    if (story.cursor > 0 || story.detailing || !isOver(story)) return null;
    story.detailing = true;
    const events = await getEvents(story.run_id, story.kind === "workflow" ? MOST_OF_NODES : undefined).catch(() => []);
    const fresh = rebuild(story, events);
    const isKept = !events.some((event) => event.type === "withdrawn" && event.reason === "expired");
    if (!fresh.end || !isKept || !this.stories.includes(story)) return null;
    this.stories[this.stories.indexOf(story)] = fresh;
    this.#saveSoon();
    return fresh;
  }

  async #post(/** @type {Story} */ story) {
    const visit = this.#visit;
    Object.assign(story, { sending: true, unsent: null });
    this.view.turns.put(story);
    try {
      story.thread_id ??= this.threadId ?? await this.#opening;
      const accepted = await this.#accepted(story);
      Object.assign(story, { run_id: accepted.run_id, thread_id: accepted.thread_id, status: accepted.status ?? "queued", sending: false });
      if (visit !== this.#visit) return;
      if (accepted.delivered) return this.withdraw(story); // the open run took the text, and shows it
      if (!this.threadId) this.#enter(accepted.thread_id, story);
      this.view.touch(story, []);
      this.#followNext();
    } catch (error) {
      Object.assign(story, { sending: false, unsent: error });
      if (visit === this.#visit) this.view.touch(story, []);
    }
  }

  // The message of a conversation without a thread makes it; those sent meanwhile wait for its id, or fail with it.
  #accepted(/** @type {Story} */ story) {
    const accepted = sendPrompt({ agent: story.agent, input: story.input, threadId: /** @type {string | undefined} */ (story.thread_id), key: /** @type {string} */ (story.key), ifBusy: story.ifBusy });
    if (!story.thread_id) {
      const opening = accepted.then(({ thread_id }) => thread_id);
      this.#opening = opening;
      opening.catch(() => { if (this.#opening === opening) this.#opening = null; });
    }
    return accepted;
  }

  #enter(/** @type {string} */ threadId, /** @type {Story} */ story) {
    this.threadId = threadId;
    this.agent = story.agent;
    this.#rename(story.input.split("\n")[0].slice(0, 80));
  }

  #rename(/** @type {string} */ title) {
    this.title = title;
    this.view.named(this.threadId, title);
  }

  #show(/** @type {any} */ thread, /** @type {Story[]} */ stories) {
    Object.assign(this, { title: thread.title ?? "", agent: thread.agent ?? "", stories });
    this.view.showThread({ thread_id: this.threadId, title: this.title, agent: this.agent, stories });
    this.view.named(this.threadId, this.title);
  }

  #catchUp() {
    if (this.stories.some((story) => story.sending)) return;
    clearTimeout(this.catching);
    const visit = this.#visit;
    this.catching = setTimeout(async () => {
      if (visit !== this.#visit) return;
      const [thread, messages] = await Promise.all([getThread(/** @type {string} */ (this.threadId)), getConversationHistory(/** @type {string} */ (this.threadId))]).catch(/** @returns {any[]} */ () => [null, []]);
      if (!thread || visit !== this.#visit) return;
      const known = new Map(this.stories.map((story) => [story.run_id, story]));
      const read = storiesOf(thread, messages), turns = new Set(read.map((story) => story.run_id));
      // A message that was removed since the last reading is no turn any more, and its run is still listed.
      for (const { run_id: id } of thread.runs) if (known.has(id) && !turns.has(id)) this.withdraw(/** @type {Story} */ (known.get(id)));
      for (const story of read) {
        if (known.has(story.run_id)) continue;
        this.stories.push(story);
        this.view.turns.put(story);
        if (isOver(story) && !story.startedAt) this.#dropRemoved(story); // its message may have been read before it was removed
      }
      this.#followNext();
    }, 300);
  }

  #followNext() {
    const story = this.openStory;
    if (!story?.run_id || story === this.followed) return;
    this.#unfollow();
    this.followed = story;
    this.#feed = runFeed(story.run_id, {
      cursor: story.cursor,
      onEvent: (/** @type {{data: RunEvent}} */ { data }) => this.#take(story, data),
      onState: (/** @type {Line} */ state) => this.#line(story, state),
    }).start();
  }

  #take(/** @type {Story} */ story, /** @type {RunEvent} */ event) {
    const items = applyEvent(story, event);
    if (!items) return;
    if (event.type === "handover") this.agent = event.to_agent; // it gets the next message
    this.view.touch(story, items, event);
    this.#saveSoon();
    if (event.type === "end") this.#ended(story);
  }

  #ended(/** @type {Story} */ story) {
    story.stopping = false;
    this.#unfollow();
    if (isRemoved(story)) this.withdraw(story);
    this.#save();
    this.view.touch(story, story.items.filter((item) => item.kind === "error"));
    this.#followNext();
  }

  #line(/** @type {Story} */ story, /** @type {Line} */ state) {
    if (story !== this.followed) return;
    if (state.name === "ended" && !isOver(story)) this.#followFromStart(story);
    else if (state.name === "refused") this.#refused(story, state.error);
    else this.view.showLine(state);
  }

  // A cursor the server has never issued: its log was made anew, so this story starts anew too.
  #refused(/** @type {Story} */ story, /** @type {any} */ error) {
    if (error instanceof ApiError && error.code === "cursor_ahead" && story.cursor > 0) return this.#followFromStart(story);
    story.lost = error;
    this.#unfollow();
    this.view.touch(story, []);
    this.#followNext();
  }

  #followFromStart(/** @type {Story} */ story) {
    if (story.cursor === 0) return this.#unfollow();
    const fresh = newStory(pick(story, "run_id", "thread_id", "agent", "input", "createdAt", "principal", "kind"));
    this.stories[this.stories.indexOf(story)] = fresh;
    this.view.turns.replace(story, fresh);
    this.#unfollow();
    this.#followNext();
  }

  #unfollow() {
    this.#feed?.stop();
    this.#feed = null;
    this.followed = null;
    this.view.showLine({ name: "none" });
  }

  #saveSoon() {
    this.#saving ||= setTimeout(() => this.#save(), SAVE_EVERY_MS);
  }

  #save() {
    clearTimeout(this.#saving);
    this.#saving = 0;
    const stories = this.stories.filter((story) => story.run_id && !story.lost);
    if (this.threadId && stories.length) this.history.save(this.threadId, { thread_id: this.threadId, title: this.title, agent: this.agent, stories });
  }
}

// A story that this browser built from events has durations and effects that messages do not hold.
/** @type {(stories: Story[], cached: Story[]) => Story[]} */
function preferFollowed(stories, cached) {
  const followed = new Map(cached.filter((story) => story.cursor > 0).map((story) => [story.run_id, story]));
  return stories.map((story) => {
    const known = followed.get(story.run_id);
    if (!known || (isOver(story) && !isOver(known))) return story;
    return Object.assign(known, { stopping: false, detailing: false });
  });
}
