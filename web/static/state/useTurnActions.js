// @ts-check
// What the buttons of a turn do, each with one request.

import { changeQueued, controlRun, forkThread, getConversationHistory, newKey, removeQueued, retryRun } from "../services/api.js";

/** @typedef {import("./story.js").SentStory} SentStory */
/** @typedef {(verb: string, story: import("./story.js").Story, value?: string) => Promise<boolean | void> | void} Act */

/** @type {(conversation: import("./useConversation.js").Conversation, given: {onFork: (threadId: string) => void}) => Act} Returns `act(verb, story, value)`: it resolves to whether the server did it; what it refused is shown. */
export function useTurnActions(conversation, { onFork }) {
  const remove = async (/** @type {SentStory} */ story) => {
    await removeQueued(story);
    conversation.withdraw(story);
  };
  /** @type {Record<string, (story: SentStory, value: string) => Promise<any>>} */
  const verbs = {
    now: (story) => changeQueued(story, { place: "now" }),
    edit: async (story, content) => {
      await changeQueued(story, { content });
      story.input = content;
    },
    remove,
    // Taken out before it is given to the run: a text that is there twice would be answered twice.
    steer: async (story) => {
      await remove(story);
      await conversation.send({ agent: story.agent, input: story.input, ifBusy: "steer" });
    },
    pause: (story) => controlRun(story.run_id, "pause"),
    resume: (story) => controlRun(story.run_id, "resume"),
    // Pressed twice, or again after a lost reply, it is the same request.
    retry: async (story) => conversation.add(story, await retryRun(story.run_id, (story.retryKey ??= newKey()))),
    fork: async (story) => onFork(await forkThread(/** @type {string} */ (conversation.threadId), lastOf(story, await getConversationHistory(/** @type {string} */ (conversation.threadId))))),
  };
  return async (verb, story, value) => {
    try {
      await verbs[verb](/** @type {SentStory} */ (story), /** @type {string} */ (value));
      conversation.view.touch(story, []);
      return true;
    } catch (/** @type {any} */ error) {
      conversation.view.complain(error);
      return false;
    }
  };
}

/** @type {(story: SentStory, messages: any[]) => number} */
function lastOf(story, messages) {
  return messages.findLast((message) => message.run_id === story.run_id)?.number ?? 0;
}
