import { App } from "./pages/App.js";
import { takeToken } from "./services/credential.js";

takeToken();
// An address with a token that is opened in a tab that shows the page already.
addEventListener("hashchange", () => takeToken() && location.reload());
new App().mount(document.getElementById("app"));
