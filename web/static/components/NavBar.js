import { count } from "../dom/format.js";
import { h, icon } from "../dom/h.js";

/** The rail: name, places, threads, account, health and the reference of the HTTP calls. On a phone its places are tabs at the foot. */
export class NavBar {
  constructor({ threads, account, health, onNew, onTab, onClose }) {
    this.links = h("nav.places", { "aria-label": "Places" },
      h("a", { href: "#/", dataset: { place: "new" }, onclick: onNew }, icon("plus"), "New conversation"),
      h("a", { href: "#/board", dataset: { place: "board" } }, icon("board"), "Board", h("b.count")));
    this.element = h("aside.rail", { id: "threads", "aria-label": "Navigation" }, h("a.brand", { href: "#/" }, h("i", { "aria-hidden": "true" }), "Callboard"), this.links, threads, account, h("div.rail-foot", {}, health, h("a.quiet", { href: "/docs" }, "HTTP calls")));
    this.shade = h("div.shade", { onclick: onClose });
    this.tabs = h("nav.tabs", { "aria-label": "Views" }, ["talk", "board", "threads"].map((tab) => tabButton(tab, onTab)));
  }

  /** Mark the current place and tab. */
  mark(place, tab) {
    for (const link of this.links.children) setCurrent(link, link.dataset.place === place);
    for (const button of this.tabs.children) setCurrent(button, button.dataset.tab === tab);
  }

  /** Show how many runs are open, and whether one of them waits for an answer. */
  count(open, asks) {
    const text = open ? count(open) : "";
    for (const place of [...document.querySelectorAll(".count")]) {
      if (place.textContent !== text) place.textContent = text;
      place.classList.toggle("is-asked", asks);
    }
  }
}

function tabButton(tab, onTab) {
  const name = { talk: "Talk", board: "Board", threads: "Threads" }[tab];
  return h("button", { type: "button", dataset: { tab }, onclick: () => onTab(tab) }, icon({ talk: "talk", board: "board", threads: "menu" }[tab]), h("span", {}, name, tab === "board" && h("b.count")));
}

function setCurrent(element, on) {
  if (on) element.setAttribute("aria-current", "page");
  else element.removeAttribute("aria-current");
}
