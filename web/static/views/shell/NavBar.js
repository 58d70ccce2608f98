// @ts-check
import { count } from "../../dom/format.js";
import { h, icon, say } from "../../dom/h.js";
import { PLACES, RAIL } from "../../router.js";

const TABS = [["talk", "Talk", "talk"], ["board", "Board", "board"], ["approvals", "Approvals", "inbox"], ["threads", "Menu", "menu"]];

/** The rail: name, places, threads, account, health and the reference of the HTTP calls. On a phone its first places are tabs at the foot. */
export class NavBar {
  constructor(/** @type {{threads: HTMLElement, account: HTMLElement, health: HTMLElement, onNew: () => void, onTab: (tab: string) => void, onClose: () => void, onPalette: () => void}} */ { threads, account, health, onNew, onTab, onClose, onPalette }) {
    this.open = h("b.count");
    this.asked = h("b.asked");
    const links = RAIL.map(([place, title, mark, group]) => ({ group, link: h("a", { href: `#${PLACES[place][0]}`, title, dataset: { place }, onclick: place === "new" && onNew }, icon(mark), h("span", {}, title), { board: this.open, approvals: this.asked }[place]) }));
    const groups = [...new Set(links.map(({ group }) => group))].map((name) => h("nav.places", { "aria-label": name || "Places", dataset: { group: name } }, name && h("p.caps", {}, name), links.filter(({ group }) => group === name).map(({ link }) => link)));
    this.links = links.map(({ link }) => link);
    const jump = h("button.jump", { type: "button", title: "Search, go to", onclick: onPalette }, icon("search"), h("span", {}, "Search, go to"), h("kbd", {}, /Mac|iPhone/.test(navigator.platform) ? "⌘ K" : "Ctrl K"));
    this.element = h("aside.rail", { id: "threads", "aria-label": "Navigation" }, h("a.brand", { href: "#/" }, h("i", { "aria-hidden": "true" }), h("span", {}, "Callboard")), jump, groups, threads, account, h("div.rail-foot", {}, health, h("a.quiet", { href: "/docs" }, "HTTP calls")));
    this.shade = h("div.shade", { onclick: onClose });
    this.tabs = h("nav.tabs", { "aria-label": "Views" }, TABS.map(([tab, title, mark]) => h("button", { type: "button", dataset: { tab }, onclick: () => onTab(tab) }, icon(mark), h("span", {}, title, { board: h("b.count"), approvals: h("b.asked") }[tab]))));
  }

  /** Mark the current place and tab. */
  mark(/** @type {string} */ place, /** @type {string | undefined} */ tab) {
    for (const link of this.links) setCurrent(link, link.dataset.place === place);
    const isTab = TABS.some(([name]) => name === tab); // the menu leads to all other places
    for (const button of /** @type {HTMLCollectionOf<HTMLElement>} */ (this.tabs.children)) setCurrent(button, button.dataset.tab === (isTab ? tab : "threads"));
  }

  /** @type {number | null} How many questions wait for this person, where the page has read them; the board knows their runs alone. */
  questions = null;

  /** @type {(open: number, asks: boolean, mine: number) => void} Shows how many runs are open, whether one of them waits for an answer, and how many wait for one of this person. */
  count(open, asks, mine) {
    for (const [name, number] of /** @type {[string, number][]} */ ([["count", open], ["asked", this.questions ?? mine]])) {
      for (const place of document.querySelectorAll(`.${name}`)) {
        say(place, number ? count(number) : "");
        place.classList.toggle("is-asked", asks);
      }
    }
  }
}

/** @type {(element: HTMLElement, on: boolean) => void} */
function setCurrent(element, on) {
  if (on) element.setAttribute("aria-current", "page");
  else element.removeAttribute("aria-current");
}
