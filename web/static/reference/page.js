// @ts-check
// The reference of the HTTP calls, made of /openapi.json.

import { fill, h } from "../dom/h.js";
import { breakable, callElement, chip } from "./call.js";
import { Schemas } from "./schema.js";
import { inline, paragraphs } from "./text.js";

const METHODS = ["get", "post", "put", "patch", "delete"];
const root = /** @type {HTMLElement} */ (document.getElementById("reference"));
/** @typedef {import("./call.js").Call} Call */
/** @typedef {{name: string, description: string, calls: Call[]}} Group */

/** @type {(document: any) => Call[]} */
function callsOf(document) {
  return Object.entries(/** @type {Record<string, any>} */ (document.paths)).flatMap(([path, methods]) =>
    METHODS.filter((method) => methods[method]).map((method) => ({ method, path, operation: methods[method] })));
}

/** @type {(document: any) => Group[]} */
function groupsOf(document) {
  const calls = callsOf(document);
  return document.tags.map((/** @type {{name: string, description: string}} */ tag) => ({ ...tag, calls: calls.filter((one) => one.operation.tags.includes(tag.name)) }));
}

/** @type {(group: Group) => {title: string, rest: string}} Returns the first words of a group's description as its title, and the rest. */
function titled({ name, description }) {
  const [title, rest] = String(description).split(/: (.*)/s);
  return rest && title.length < 40 ? { title, rest } : { title: name[0].toUpperCase() + name.slice(1).replaceAll("_", " "), rest: description };
}

/** @type {(groups: Group[]) => HTMLElement} */
function navigation(groups) {
  return h("nav.calls", { "aria-label": "Calls" }, groups.map((group) =>
    h("section", { dataset: { group: group.name } },
      h("a.caps", { href: `#${group.name}` }, titled(group).title),
      group.calls.map(({ method, path, operation }) =>
        h("a.entry", { href: `#${operation.operationId}`, dataset: { words: `${method} ${path} ${operation.summary}`.toLowerCase() } }, chip(method), h("code", {}, breakable(path)))))));
}

function show(/** @type {any} */ document_) {
  const schemas = new Schemas(document_);
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

/** @type {(document: any) => HTMLElement} */
function credentials(document_) {
  const schemes = Object.entries(/** @type {Record<string, any>} */ (document_.components.securitySchemes));
  const how = (/** @type {any} */ one) => one.scheme === "bearer" ? "Authorization: Bearer …" : `${one.name}=… (${one.in})`;
  return h("section.group", { id: "credentials" },
    h("div.group-head", {}, h("h2", {}, "Credentials"), h("p.soft", {}, "Where the installation asks for one, a request has one of these.")),
    h("dl.fields", {}, schemes.map(([name, one]) => [h("dt", {}, h("code", {}, name)), h("dd", {}, h("p.kind", {}, h("code", {}, how(one))), h("p", {}, inline(one.description)))])));
}

/** @type {(list: HTMLElement, text: string) => void} */
function filter(list, text) {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  for (const section of /** @type {HTMLCollectionOf<HTMLElement>} */ (list.children)) {
    let shown = false;
    for (const entry of /** @type {NodeListOf<HTMLElement>} */ (section.querySelectorAll(".entry"))) {
      entry.hidden = !words.every((word) => /** @type {string} */ (entry.dataset.words).includes(word));
      shown ||= !entry.hidden;
    }
    section.hidden = !shown;
  }
}

// The call that is read now is marked in the list.
/** @type {(list: HTMLElement) => void} */
function follow(list) {
  const entries = new Map([.../** @type {NodeListOf<HTMLAnchorElement>} */ (list.querySelectorAll(".entry"))].map((entry) => [entry.hash.slice(1), entry]));
  const watcher = new IntersectionObserver((seen) => {
    for (const { target, isIntersecting } of seen) {
      const entry = entries.get(target.id);
      if (!isIntersecting || !entry) continue;
      for (const other of entries.values()) other.removeAttribute("aria-current");
      entry.setAttribute("aria-current", "true");
      keepInSight(list, entry);
    }
  }, { rootMargin: "-10% 0px -80% 0px" });
  for (const article of document.querySelectorAll("article.call")) watcher.observe(article);
}

// Scrolls the list alone: on a phone the page itself must stay where the reader is.
/** @type {(list: HTMLElement, entry: HTMLElement) => void} */
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
  } catch (/** @type {any} */ error) {
    fill(root, h("p.boot", {}, `The description of the calls could not be read: ${error.message}. Reload the page.`));
  }
}

start();
