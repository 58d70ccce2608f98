// @ts-check
import { App } from "./views/shell/App.js";
import { enter } from "./views/shell/Entry.js";
import { takeToken } from "./services/credential.js";

takeToken();
// An address with a token that is opened in a tab that shows the page already.
addEventListener("hashchange", () => takeToken() && location.reload());
const root = /** @type {HTMLElement} */ (document.getElementById("app"));
enter(root, (me) => new App(root, me).mount());
