// @ts-check
// One agent: its head, and the tabs with its definition, its versions and the try-out.

import { count } from "../../dom/format.js";
import { fill, h, icon, say } from "../../dom/h.js";
import { signal, watch } from "../../dom/live.js";
import { visible } from "../../dom/visible.js";
import { addressOf } from "../../router.js";
import { listVersions } from "../../services/admin.js";
import { resource } from "../../services/resource.js";
import { Tabs } from "../../ui/Tabs.js";
import { renew, troubleOf } from "../catalogue.js";
import { Definition } from "./Definition.js";
import { TryOut } from "./TryOut.js";
import { Versions } from "./Versions.js";

const REFRESH_MS = 20_000;

/**
 * Return the element of one agent; one that cannot be used has its problem in place of a definition.
 *
 * @param {{app: any, id: string, item: () => any, query: () => Record<string, string>, onChange: () => void}} given
 */
export function AgentDetail({ app, id, item, query, onChange }) {
  const head = h("header.detail-head"), trouble = h("div.detail-trouble");
  watch(() => void fill(head, headOf(app, id, item())));
  watch(() => void fill(trouble, troubleOf(item())));
  const versions = resource(async (abort) => (item()?.name === undefined ? [] : listVersions(id, abort)), { everyMs: REFRESH_MS });
  let known = item();
  watch(() => { // its file may be changed, or another person promote a version
    if (item() !== known) versions.refresh();
    known = item();
  });
  const list = signal(/** @type {any[]} */ ([]));
  watch(() => renew(list, versions.state.value.value ?? []));
  const rows = () => list.value;
  const total = h("small");
  watch(() => say(total, rows().length ? count(rows().length) : ""));
  const given = { app, id, item, rows, versions, onChange: () => { versions.refresh(); onChange(); } };
  const { bar, panels } = Tabs({
    label: "Of this agent",
    tabs: [
      { name: "definition", title: "Definition", make: () => Definition(given) },
      { name: "versions", title: "Versions", more: total, make: () => Versions(given) },
      { name: "try", title: "Try out", make: () => TryOut(given) },
    ],
    chosen: () => query().tab ?? "",
    onChoose: (tab) => { location.hash = addressOf("/agents/:agentId", { agentId: id }, { tab }); },
  });
  const body = h("div.detail-tabs", {}, bar, panels);
  watch(() => { body.hidden = item()?.name === undefined && !rows().length; });
  return h("article.detail-body", { "aria-label": `Agent ${visible(id)}` }, head, trouble, body);
}

/** @type {(app: any, id: string, agent: any) => any[]} */
function headOf(app, id, agent) {
  if (agent?.name === undefined) return [h("h2", { dir: "auto" }, visible(id))];
  const talk = () => app.talk.agent.choose(id);
  return [
    h("div.detail-title", {}, h("h2", { dir: "auto" }, visible(agent.name)), h("div.row", {}, h("a.btn.go", { href: "#/", onclick: talk }, icon("talk"), "Talk to it"), h("a.btn", { href: addressOf("/board", {}, { agent: id }) }, "Its runs"))),
    agent.description && h("p.detail-about", { dir: "auto" }, visible(agent.description)),
    h("p.detail-facts", {}, h("code", {}, visible(id)), h("span", {}, visible(agent.model)), agent.is_demo && h("span", {}, "a demo model, which needs no key"), agent.version && h("span", {}, `version ${count(agent.version)} serves in place of its file`), agent.has_output_schema && h("span", {}, "answers JSON of a schema")),
  ];
}
