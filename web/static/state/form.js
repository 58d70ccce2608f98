// The fields of a form, a JSON Schema of an object, and a value from what was typed. The server checks the answer.
import { parseJson } from "../dom/json.js";

const KINDS = { string: "text", integer: "integer", number: "number", boolean: "boolean" };
const INPUTS = { date: "date", time: "time", email: "email", uri: "url" };
const LONG = 200;
const SHORT = 60;

/**
 * Return the fields of a form in its order: {name, label, about, kind, choices, required, given, schema}. With `values`
 * these are what is given, and the default of a field without one is its `placeholder`.
 */
export function fieldsOf(form, values) {
  const required = new Set(form.required ?? []);
  return Object.entries(form.properties ?? {}).map(([name, written]) => {
    const schema = resolved(form, written);
    const choices = choicesOf(kindOf(schema) === "choices" ? schema.items : schema);
    return { name, schema, choices, kind: kindOf(schema), required: required.has(name), label: wordsOf(schema.title) ?? name, about: wordsOf(schema.description), ...givenOf(schema, name, values), input: INPUTS[schema.format] ?? "text" };
  });
}

function givenOf(schema, name, values) {
  if (!values) return { given: schema.default };
  const fallback = schema.default ?? undefined;
  return { isEdited: true, given: values[name], placeholder: fallback === undefined ? undefined : `default: ${typeof fallback === "string" ? fallback : JSON.stringify(fallback)}` };
}

/** Return [name, value] of each default that a call without these arguments gets. */
export function defaultsOf(form, args) {
  return fieldsOf(form).filter(({ name, given }) => given !== undefined && given !== null && !(name in args)).map(({ name, given }) => [name, given]);
}

/** Return {value} of what was typed or chosen for a field, {} where nothing was, or {problem} in words. */
export function readField(field, raw) {
  if (field.kind === "choices") return chosen(field, raw);
  if (raw === "") return field.required ? { problem: "This is needed." } : {};
  if (field.kind === "choice") return { value: field.choices[Number(raw)] };
  if (field.kind === "boolean") return { value: raw === "yes" };
  if (field.kind === "text") return textOf(field.schema, raw);
  if (field.kind === "json") return jsonOf(raw);
  return numberOf(field, raw.trim().replace(",", "."));
}

function chosen({ required, schema, choices }, raw) {
  if (!raw.length && !required) return {};
  if (raw.length < (schema.minItems ?? 0)) return { problem: `Choose at least ${schema.minItems}.` };
  if (raw.length > (schema.maxItems ?? Infinity)) return { problem: `Choose at most ${schema.maxItems}.` };
  return { value: raw.map((index) => choices[Number(index)]) };
}

function textOf({ minLength = 0, maxLength = Infinity }, text) {
  const count = [...text].length;
  if (count < minLength) return { problem: `Write at least ${minLength} characters.` };
  if (count > maxLength) return { problem: `Write at most ${maxLength} characters; these are ${count}.` };
  return { value: text };
}

function numberOf({ kind, schema }, text) {
  const value = Number(text);
  if (!/^[-+.\de]+$/i.test(text) || !Number.isFinite(value)) return { problem: kind === "integer" ? "Write a whole number." : "Write a number." };
  if (kind === "integer" && !Number.isSafeInteger(value)) return { problem: "Write a whole number." };
  if (value < (schema.minimum ?? -Infinity)) return { problem: `The least is ${schema.minimum}.` };
  if (value > (schema.maximum ?? Infinity)) return { problem: `The most is ${schema.maximum}.` };
  return { value };
}

function jsonOf(text) {
  const value = parseJson(text);
  return value === undefined ? { problem: "Write JSON, such as [\"one\", \"two\"]." } : { value };
}

function kindOf(schema) {
  if (choicesOf(schema)) return "choice";
  if (schema.type === "array" && choicesOf(schema.items ?? {})) return "choices";
  return KINDS[schema.type] ?? "json";
}

/** True where a text may be longer than a line, or is, where it is edited. */
export function isLong({ schema, given, isEdited }) {
  if (isEdited) return typeof given === "string" && (given.length > SHORT || given.includes("\n"));
  return (schema.maxLength ?? LONG + 1) > LONG && !schema.format;
}

function choicesOf(schema) {
  if (Array.isArray(schema.enum)) return schema.enum;
  return "const" in schema ? [schema.const] : null;
}

// A field may be a reference to the form's $defs, or one branch beside null.
function resolved(form, written) {
  let schema = isObject(written) ? written : {};
  for (let step = 0; step < 4; step += 1) {
    const { $ref: reference, anyOf: branches, ...own } = schema;
    const known = Array.isArray(branches) ? branches.filter((branch) => isObject(branch) && branch.type !== "null") : [];
    const target = typeof reference === "string" ? form.$defs?.[reference.split("/").at(-1)] : known.length === 1 ? known[0] : null;
    if (!isObject(target)) break;
    schema = { ...target, ...own };
  }
  return isObject(schema.items) ? { ...schema, items: resolved(form, schema.items) } : schema;
}

function wordsOf(text) {
  return typeof text === "string" && text ? text : undefined;
}

function isObject(value) {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
