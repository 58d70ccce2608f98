// @ts-check
// An agent's label: its name, with its id where another agent has the same name.

/** @typedef {readonly {id: string, name?: string}[] | null | undefined} Agents Those that the server listed, if it has. */

/** @type {(agents: Agents, id: string | undefined, given?: string) => string} Returns the agent's label, `Support` or `Support (support-emea)`. `given` is the name an event gave. */
export function labelOf(agents, id, given) {
  const name = given ?? agents?.find((agent) => agent.id === id)?.name ?? id ?? "agent";
  return isShared(agents, id, name) ? `${name} (${id})` : name;
}

/** @type {(agents: Agents, id: string | undefined, name: string) => boolean} True when another agent has this name, however it is written. */
export function isShared(agents, id, name) {
  return (agents ?? []).some((other) => other.id !== id && same(other.name ?? other.id, name));
}

/** @type {(one: string, other: string) => boolean} */
function same(one, other) {
  return one.trim().toLocaleLowerCase() === other.trim().toLocaleLowerCase();
}
