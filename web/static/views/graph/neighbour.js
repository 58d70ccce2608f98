// @ts-check
// Where a key leads from a node: up and down follow edges, left and right stay on the level.

/** @typedef {import("../../state/graphLayout.js").Place} Place */

/** @type {(drawing: import("../../state/graphLayout.js").Drawing, id: string | undefined, key: string) => string | undefined} Returns the id of the node that is nearest in the key's direction, if there is one. */
export function neighbourOf({ nodes, edges }, id, key) {
  if (key === "Home" || key === "End") return nodes.at(key === "Home" ? 0 : -1)?.id;
  const placeOf = (/** @type {string | undefined} */ id) => /** @type {Place} */ (nodes.find((place) => place.id === id));
  const from = placeOf(id);
  const middle = (/** @type {Place} */ { x, width }) => x + width / 2;
  const far = (/** @type {Place} */ place) => 4 * Math.abs(place.y - from.y) + Math.abs(middle(place) - middle(from));
  const nearest = (/** @type {Place[]} */ places) => places.sort((a, b) => far(a) - far(b))[0]?.id;
  const forward = edges.filter(({ isBack }) => !isBack);
  if (key === "ArrowDown") return nearest(forward.filter(({ source }) => source === id).map(({ target }) => placeOf(target)));
  if (key === "ArrowUp") return nearest(forward.filter(({ target }) => target === id).map(({ source }) => placeOf(source)));
  const side = { ArrowLeft: -1, ArrowRight: 1 }[key];
  if (side) return nearest(nodes.filter((place) => Math.abs(place.y - from.y) < from.height && (middle(place) - middle(from)) * side > 0));
}
