// @ts-check
// The graph of a workflow's run, as the conversation draws it.

import { watch } from "../../dom/live.js";
import { GraphView } from "../graph/GraphView.js";
import { applyEvent, newStory } from "../../state/story.js";

/** @type {(run: any, events: any[], changes: import("../../dom/live.js").Signal<number>) => HTMLElement} */
export function RunGraph(run, events, changes) {
  const story = newStory({ run_id: run.run_id, agent: run.agent, kind: run.kind, status: run.status });
  const graph = new GraphView(story);
  let count = 0; // of the events that it shows
  watch(() => {
    changes.value;
    for (; count < events.length; count += 1) applyEvent(story, events[count]);
    graph.update();
  });
  return graph.element;
}
