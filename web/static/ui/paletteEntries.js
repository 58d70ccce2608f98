// @ts-check
// Where the palette leads: the commands of what is shown, places, agents, and what the server finds.

import { ago } from "../dom/format.js";
import { addressOf, PLACES, RAIL, threadHash } from "../router.js";
import { listRuns, listThreads } from "../services/api.js";
import { ownerWords, threadKey } from "../state/me.js";
import { errorWords, stateWords } from "../state/words.js";

/** @typedef {import("../state/palette.js").Entry} Entry */

const MOST = 6;

/** Return what the palette offers without a question to the server. */
export function entriesOf(/** @type {any} */ app) {
  const commands = app.views.view ? app.views.view.commands?.() ?? [] : talkCommands(app);
  return [
    ...commands.map((/** @type {[string, () => void]} */ [title, go]) => ({ key: `command ${title}`, group: "Here", title, icon: "chevron", go })),
    ...RAIL.map(([place, title, icon]) => ({ key: `place ${place}`, group: "Places", title, icon, go: () => goTo(`#${/** @type {any} */ (PLACES)[place][0]}`) })),
    ...app.agents.map((/** @type {any} */ agent) => ({ key: `agent ${agent.id}`, group: "Talk with", title: agent.name ?? agent.id, note: agent.description, icon: "agent", go: () => talkWith(app, agent.id) })),
  ];
}

/** Return the threads and runs that the server finds, and what kept it from looking. */
export async function foundBy(/** @type {any} */ app, /** @type {string} */ words) {
  let problem = "";
  const none = (/** @type {any} */ error) => ((problem = errorWords(error)), []);
  const [threads, runs] = await Promise.all([listThreads(words).catch(none), listRuns({ q: words, limit: MOST }).then((page) => page.runs).catch(none)]);
  const entries = [
    ...threads.slice(0, MOST).map((/** @type {any} */ thread) => ({ key: `thread ${thread.thread_id}`, group: "Threads", title: thread.title ?? thread.thread_id, note: [app.nameOf(thread.agent), ago(thread.updated_at ?? thread.created_at)].filter(Boolean).join(" · "), icon: "talk", isFound: true, go: () => goTo(threadHash(threadKey(thread.thread_id, thread.principal))) })),
    ...runs.map((/** @type {any} */ run) => runEntry(run.run_id, run.title ?? run.run_id, [app.nameOf(run.agent, run.agent_name), stateWords(run.status, run.reason), ownerWords(run.principal)].filter(Boolean).join(" · "), run.status)),
  ];
  return { entries, problem };
}

/** @type {(runId: string, title: string, note: string, icon?: string) => Entry} */
export function runEntry(runId, title, note, icon = "running") {
  return { key: runId, group: "Runs", title, note, icon, isFound: true, go: () => goTo(addressOf("/run/:runId", { runId })) };
}

/** @type {(app: any) => [string, () => void][]} */
function talkCommands(app) {
  const { talk } = app, { openStory } = talk.conversation;
  const commands = /** @type {[string, () => void][]} */ ([["Write a message", () => talk.composer.focus()], ["Search threads", () => app.threads.search.focus()]]);
  if (talk.conversation.stories.length) commands.unshift(["Copy the conversation as Markdown", () => talk.chat.head.copy.click()]);
  if (openStory?.run_id) commands.unshift(["Show the run's timeline", () => goTo(addressOf("/run/:runId", { runId: openStory.run_id }))], ["Stop the run", () => talk.conversation.stop()]);
  return commands;
}

/** @type {(app: any, agentId: string) => void} */
function talkWith(app, agentId) {
  goTo("#/");
  app.talk.agent.choose(agentId);
  // The place is shown when the address has changed.
  setTimeout(() => app.talk.composer.focus());
}

/** @type {(hash: string) => void} */
function goTo(hash) {
  location.hash = hash;
}
