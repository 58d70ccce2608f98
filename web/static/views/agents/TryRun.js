// @ts-check
// One run of a try-out, followed until its end.

import { Notice } from "../../ui/Notice.js";
import { RunTurn } from "../story/RunTurn.js";
import { fill, h } from "../../dom/h.js";
import { onEnd } from "../../dom/live.js";
import { threadHash } from "../../router.js";
import { newKey, runFeed } from "../../services/api.js";
import { tryVersion } from "../../services/admin.js";
import { fleetOf } from "../../state/fleet.js";
import { applyEvent, newStory } from "../../state/story.js";
import { errorWords } from "../../state/words.js";

/** Shows the run that `start` begins; another start leaves the one before to itself. */
export class TryRun {
  /** @type {any} */
  #feed = null;
  #visit = 0;

  /** @param {{app: any, id: string, label: string}} given */
  constructor({ app, id, label }) {
    this.app = app;
    this.id = id;
    this.element = h("div.try-run", { role: "group", "aria-label": label }, h("p.faint", {}, "Nothing asked yet."));
    onEnd(() => this.#leave());
  }

  /** @param {string} input @param {number | undefined} version absent: the one that serves */
  async start(input, version) {
    this.#leave();
    const visit = this.#visit;
    const story = newStory({ agent: this.id, input: "", sending: true, createdAt: new Date().toISOString() });
    const turn = this.#turnOf(story);
    fill(this.element, turn.element);
    try {
      const { run_id: runId, thread_id: threadId } = await tryVersion(this.id, version, input, newKey());
      if (visit !== this.#visit) return;
      Object.assign(story, { run_id: runId, thread_id: threadId, sending: false });
      this.element.append(h("p.try-links", {}, h("a.quiet", { href: `#/run/${encodeURIComponent(runId)}` }, "Its timeline"), " · ", h("a.quiet", { href: threadHash(threadId, runId) }, "Its conversation")));
      turn.touch();
      this.#follow(story, turn);
    } catch (/** @type {any} */ error) {
      if (visit === this.#visit) fill(this.element, Notice({ title: "Not started", text: errorWords(error), code: error.code }));
    }
  }

  /** @type {(story: any, turn: any) => void} */
  #follow(story, turn) {
    this.#feed = runFeed(story.run_id, {
      cursor: 0,
      onEvent: (/** @type {any} */ { data }) => {
        const items = applyEvent(story, data);
        story.input = ""; // both have the same, which stands above
        if (items) turn.touch(items);
      },
      onState: (/** @type {any} */ state) => {
        if (state.name === "refused") turn.touch((story.lost = state.error, []));
      },
    }).start();
  }

  /** @type {(story: any) => any} */
  #turnOf(story) {
    const toRun = () => { location.hash = threadHash(story.thread_id, story.run_id); };
    return new RunTurn(story, { nameOf: this.app.nameOf, onAgain: toRun, onEdit: toRun, fleet: () => this.app.health?.fleet ?? fleetOf(null), act: toRun, isBehind: () => false });
  }

  #leave() {
    this.#visit += 1;
    this.#feed?.stop();
    this.#feed = null;
  }
}
