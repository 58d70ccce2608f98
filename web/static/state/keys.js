// @ts-check
// API keys: the form of a new one, and which have ended.

const DAY_S = 86_400;
const LENGTHS = /** @type {Record<string, number | undefined>} */ ({ "30 days": 30 * DAY_S, "90 days": 90 * DAY_S, "a year": 365 * DAY_S, "it does not end": undefined });

/** The form of a new key, as JSON Schema. */
export const KEY_FORM = {
  type: "object",
  required: ["name", "ends"],
  properties: {
    name: { type: "string", title: "Acts as", description: "The principal that the program is: letters, digits and _.@+-", minLength: 1, maxLength: 64 },
    roles: { type: "array", title: "Roles", description: "Without one it sees and does what is its own alone.", items: { enum: ["viewer", "operator", "approver", "admin"] } },
    verbs: { type: "array", title: "Only to", description: "Without one, all that its roles allow.", items: { enum: ["see", "start", "control", "decide", "administer"] } },
    agents: { type: "string", title: "Only for these agents", description: "Their ids, with commas between; empty: all.", maxLength: 2000 },
    ends: { type: "string", title: "Ends after", enum: Object.keys(LENGTHS), default: "90 days" },
  },
};

/**
 * Return the body of the call that creates a key from what the form gives.
 *
 * @param {{name: string, roles?: string[], verbs?: string[], agents?: string, ends: string}} values
 */
export function bodyOf({ name, roles = [], verbs = [], agents = "", ends }) {
  const ids = agents.split(",").map((id) => id.trim()).filter(Boolean);
  const length = LENGTHS[ends];
  return { name: name.trim(), roles, ...(verbs.length && { verbs }), ...(ids.length && { agents: ids }), ...(length && { expires_in_s: length }) };
}

/**
 * Return whether a key can be used no more.
 *
 * @param {{revoked_at?: string, expires_at?: string}} key
 */
export function isEnded({ revoked_at: revokedAt, expires_at: expiresAt }, now = Date.now()) {
  return Boolean(revokedAt) || (expiresAt !== undefined && Date.parse(expiresAt) <= now);
}
