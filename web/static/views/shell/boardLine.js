// @ts-check
// The connection of the board: what the page says of it, and what it reads again once the server is back.

/** @typedef {import("./App.js").App} App */
/** @typedef {import("../../state/useBoard.js").Line} Line */

/** @type {(app: App) => (state: Line) => void} Returns what takes the states of the board's connection. */
export function boardLine(app) {
  let wasDown = false;
  return (state) => {
    const { name, error } = state;
    app.line.value = state;
    app.board.showLine(state);
    if (name === "refused") refused(app, error);
    document.body.dataset.line = name;
    if (name === "waiting") app.healthLine.show(null);
    if (name === "offline") app.healthLine.show(null, "this device has no network");
    // A server that comes back may be another one, with other agents.
    if ((name === "live" || name === "polling") && wasDown) readAgain(app);
    wasDown = name === "waiting" || name === "offline" || (wasDown && name === "connecting");
  };
}

/** @type {(app: App, error: any) => void} */
function refused({ health, over }, error) {
  health.ask(); // the server answers, and the health line may say otherwise
  if (error?.status === 401) over.show();
}

function readAgain(/** @type {App} */ { health, definitions, threads, talk }) {
  health.ask();
  definitions.readAgents();
  definitions.readWorkflows();
  threads.read();
  talk.conversation.hurry();
}
