// The reference of the HTTP calls, made of /openapi.json.

import { fill, h } from "../dom/h.js";
import { breakable, callElement, chip } from "./call.js";
import { Schemas } from "./schema.js";
import { inline, paragraphs } from "./text.js";

const METHODS = ["get", "post", "put", "patch", "delete"];
const root = document.getElementById("reference");

/** Reads the responses that calls share, too. */
class DocumentSchemas extends Schemas {
  constructor(document) {
    super(document);
    this.responses = document.components.responses;
  }

  response(given) {
    return given.$ref ? this.responses[given.$ref.split("/").pop()] : given;
  }
}

function callsOf(document) {
  return Object.entries(document.paths).flatMap(([path, methods]) =>
    METHODS.filter((method) => methods[method]).map((method) => ({ method, path, operation: methods[method] })));
}

function groupsOf(document) {
  const calls = callsOf(document);
  return document.tags.map((tag) => ({ ...tag, calls: calls.filter((one) => one.operation.tags.includes(tag.name)) }));
}

/** Return the first words of a group's description as its title, and the rest. */
function titled({ name, description }) {
  const [title, rest] = String(description).split(/: (.*)/s);
  return rest && title.length < 40 ? { title, rest } : { title: name[0].toUpperCase() + name.slice(1).replaceAll("_", " "), rest: description };
}

function navigation(groups) {
  return h("nav.calls", { "aria-label": "Calls" }, groups.map((group) =>
    h("section", { dataset: { group: group.name } },
      h("a.caps", { href: `#${group.name}` }, titled(group).title),
      group.calls.map(({ method, path, operation }) =>
        h("a.entry", { href: `#${operation.operationId}`, dataset: { words: `${method} ${path} ${operation.summary}`.toLowerCase() } }, chip(method), h("code", {}, breakable(path)))))));
}

function show(document_) {
  const schemas = new DocumentSchemas(document_);
  const groups = groupsOf(document_);
  const search = h("input.search", { type: "search", placeholder: "Find a call", "aria-label": "Find a call", oninput: () => filter(list, search.value) });
  const list = navigation(groups);
  const { info } = document_;
  fill(root,
    h("a.skip", { href: "#calls" }, "Skip to the calls"),
    h("aside.side", {},
      h("a.brand", { href: "/", title: "The page" }, h("i"), info.title),
      search, list),
    h("main", { id: "calls" },
      h("header.intro", {}, h("h1", {}, "HTTP calls"), paragraphs(info.description),
        h("p.faint", {}, `Version ${info.version} · `, h("a", { href: "/openapi.json" }, "openapi.json"), " · ", h("a", { href: "/" }, "the page"))),
      credentials(document_),
      groups.map((group) => {
        const { title, rest } = titled(group);
        return h("section.group", { id: group.name },
          h("div.group-head", {}, h("h2", {}, title), h("p.soft", {}, inline(rest[0].toUpperCase() + rest.slice(1)))),
          group.calls.map((call) => callElement(call, schemas)));
      })));
  follow(list);
  if (location.hash) document.getElementById(location.hash.slice(1))?.scrollIntoView();
}

function credentials(document_) {
  const schemes = Object.entries(document_.components.securitySchemes);
  const how = (one) => one.scheme === "bearer" ? "Authorization: Bearer …" : `${one.name}=… (${one.in})`;
  return h("section.group", { id: "credentials" },
    h("div.group-head", {}, h("h2", {}, "Credentials"), h("p.soft", {}, "Where the installation asks for one, a request has one of these.")),
    h("dl.fields", {}, schemes.map(([name, one]) => [h("dt", {}, h("code", {}, name)), h("dd", {}, h("p.kind", {}, h("code", {}, how(one))), h("p", {}, inline(one.description)))])));
}

function filter(list, text) {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  for (const section of list.children) {
    let shown = 0;
    for (const entry of section.querySelectorAll(".entry")) {
      entry.hidden = !words.every((word) => entry.dataset.words.includes(word));
      shown += !entry.hidden;
    }
    section.hidden = !shown;
  }
}

// The call that is read now is marked in the list.
function follow(list) {
  const entries = new Map([...list.querySelectorAll(".entry")].map((entry) => [entry.hash.slice(1), entry]));
  const watcher = new IntersectionObserver((seen) => {
    for (const { target, isIntersecting } of seen) {
      if (!isIntersecting) continue;
      for (const entry of entries.values()) entry.removeAttribute("aria-current");
      entries.get(target.id)?.setAttribute("aria-current", "true");
      keepInSight(list, entries.get(target.id));
    }
  }, { rootMargin: "-10% 0px -80% 0px" });
  for (const article of document.querySelectorAll("article.call")) watcher.observe(article);
}

// Scrolls the list alone: on a phone the page itself must stay where the reader is.
function keepInSight(list, entry) {
  const above = entry.offsetTop - list.offsetTop;
  if (above < list.scrollTop || above + entry.offsetHeight > list.scrollTop + list.clientHeight) list.scrollTop = above - list.clientHeight / 3;
}

/** Read the document and show its calls. */
async function start() {
  try {
    const answer = await fetch("/openapi.json");
    if (!answer.ok) throw new Error(`the server answered ${answer.status}`);
    show(await answer.json());
  } catch (error) {
    fill(root, h("p.boot", {}, `The description of the calls could not be read: ${error.message}. Reload the page.`));
  }
}

start();
