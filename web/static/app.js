import { App } from "./pages/App.js";

new App().mount(document.getElementById("app"));
