// @ts-check
// JSON for people. A deeply nested value is neither laid out nor indented: both grow with depth times length.

const DEEPEST = 64;

/** @type {(value: unknown) => string} Returns the value as JSON over several lines; a deeply nested one stays on one line. */
export function asJson(value) {
  const line = JSON.stringify(value) ?? "";
  return isDeep(line) ? line : JSON.stringify(value, null, 2) ?? "";
}

/** @type {(text: string) => any} Returns the value a JSON text stands for, or undefined for other text and for deep nesting. */
export function parseJson(text) {
  if (isDeep(text)) return undefined;
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** @type {(json: string) => boolean} */
function isDeep(json) {
  let depth = 0;
  let quoted = false;
  for (let i = 0; i < json.length && depth <= DEEPEST; i++) {
    const char = json[i];
    if (char === '"') quoted = !quoted;
    else if (quoted) i += char === "\\" ? 1 : 0;
    else if (char === "[" || char === "{") depth += 1;
    else if (char === "]" || char === "}") depth -= 1;
  }
  return depth > DEEPEST;
}
