// @ts-check
// The fields of a form, a JSON Schema of an object, and a value from what was typed. The server checks the answer.
import { parseJson } from "../dom/json.js";

/** @typedef {Record<string, any>} Schema a JSON Schema, as the server sends it */
/** @typedef {{name: string, label: string, about?: string, kind: string, input: string, choices: any[], required: boolean, schema: Schema, given?: any, isEdited?: boolean, placeholder?: string}} Field `choices`: of the kinds `choice` and `choices` alone; `input`: the type of a text's control. */

/** @type {Record<string, string>} */
const KINDS = { string: "text", integer: "integer", number: "number", boolean: "boolean" };
/** @type {Record<string, string>} */
const INPUTS = { date: "date", time: "time", email: "email", uri: "url" };
const LONG = 200;
const SHORT = 60;

/**
 * Return the fields of a form in its order: {name, label, about, kind, choices, required, given, schema}. With `values`
 * these are what is given, and the default of a field without one is its `placeholder`.
 *
 * @type {(form: Schema, values?: Record<string, any>) => Field[]}
 */
export function fieldsOf(form, values) {
  const required = new Set(form.required ?? []);
  return Object.entries(form.properties ?? {}).map(([name, written]) => {
    const schema = resolved(form, written);
    const choices = /** @type {any[]} */ (choicesOf(kindOf(schema) === "choices" ? schema.items : schema));
    return { name, schema, choices, kind: kindOf(schema), required: required.has(name), label: wordsOf(schema.title) ?? name, about: wordsOf(schema.description), ...givenOf(schema, name, values), input: INPUTS[schema.format] ?? "text" };
  });
}

/** @type {(schema: Schema, name: string, values?: Record<string, any>) => Partial<Field>} */
function givenOf(schema, name, values) {
  if (!values) return { given: schema.default };
  const fallback = schema.default ?? undefined;
  return { isEdited: true, given: values[name], placeholder: fallback === undefined ? undefined : `default: ${typeof fallback === "string" ? fallback : JSON.stringify(fallback)}` };
}

/** @type {(form: Schema, args: Record<string, any>) => [name: string, value: any][]} Returns [name, value] of each default that a call without these arguments gets. */
export function defaultsOf(form, args) {
  return fieldsOf(form).filter(({ name, given }) => given !== undefined && given !== null && !(name in args)).map(({ name, given }) => [name, given]);
}

/** @typedef {{value?: any, problem?: string}} Read */

/** @type {(field: Field, raw: any) => Read} Returns {value} of what was typed or chosen for a field, {} where nothing was, or {problem} in words. */
export function readField(field, raw) {
  if (field.kind === "choices") return chosen(field, raw);
  if (raw === "") return field.required ? { problem: "This is needed." } : {};
  if (field.kind === "choice") return { value: field.choices[Number(raw)] };
  if (field.kind === "boolean") return { value: raw === "yes" };
  if (field.kind === "text") return textOf(field.schema, raw);
  if (field.kind === "json") return jsonOf(raw);
  return numberOf(field, raw.trim().replace(",", "."));
}

/** @type {(field: Field, raw: string[]) => Read} */
function chosen({ required, schema, choices }, raw) {
  if (!raw.length && !required) return {};
  if (raw.length < (schema.minItems ?? 0)) return { problem: `Choose at least ${schema.minItems}.` };
  if (raw.length > (schema.maxItems ?? Infinity)) return { problem: `Choose at most ${schema.maxItems}.` };
  return { value: raw.map((index) => choices[Number(index)]) };
}

/** @type {(schema: Schema, text: string) => Read} */
function textOf({ minLength = 0, maxLength = Infinity }, text) {
  const count = [...text].length;
  if (count < minLength) return { problem: `Write at least ${minLength} characters.` };
  if (count > maxLength) return { problem: `Write at most ${maxLength} characters; these are ${count}.` };
  return { value: text };
}

/** @type {(field: Field, text: string) => Read} */
function numberOf({ kind, schema }, text) {
  const value = Number(text);
  if (!/^[-+.\de]+$/i.test(text) || !Number.isFinite(value)) return { problem: kind === "integer" ? "Write a whole number." : "Write a number." };
  if (kind === "integer" && !Number.isSafeInteger(value)) return { problem: "Write a whole number." };
  if (value < (schema.minimum ?? -Infinity)) return { problem: `The least is ${schema.minimum}.` };
  if (value > (schema.maximum ?? Infinity)) return { problem: `The most is ${schema.maximum}.` };
  return { value };
}

/** @type {(text: string) => Read} */
function jsonOf(text) {
  const value = parseJson(text);
  return value === undefined ? { problem: "Write JSON, such as [\"one\", \"two\"]." } : { value };
}

/** @type {(schema: Schema) => string} */
function kindOf(schema) {
  if (choicesOf(schema)) return "choice";
  if (schema.type === "array" && choicesOf(schema.items ?? {})) return "choices";
  return KINDS[schema.type] ?? "json";
}

/** @type {(field: Field) => boolean} True where a text may be longer than a line, or is, where it is edited. */
export function isLong({ schema, given, isEdited }) {
  if (isEdited) return typeof given === "string" && (given.length > SHORT || given.includes("\n"));
  return (schema.maxLength ?? LONG + 1) > LONG && !schema.format;
}

/** @type {(schema: Schema) => any[] | null} */
function choicesOf(schema) {
  if (Array.isArray(schema.enum)) return schema.enum;
  return "const" in schema ? [schema.const] : null;
}

// A field may be a reference to the form's $defs, or one branch beside null.
/** @type {(form: Schema, written: any) => Schema} */
function resolved(form, written) {
  let schema = isObject(written) ? written : {};
  for (let step = 0; step < 4; step += 1) {
    const { $ref: reference, anyOf: branches, ...own } = schema;
    const known = Array.isArray(branches) ? branches.filter((branch) => isObject(branch) && branch.type !== "null") : [];
    const target = typeof reference === "string" ? form.$defs?.[/** @type {string} */ (reference.split("/").at(-1))] : known.length === 1 ? known[0] : null;
    if (!isObject(target)) break;
    schema = { ...target, ...own };
  }
  return isObject(schema.items) ? { ...schema, items: resolved(form, schema.items) } : schema;
}

function wordsOf(/** @type {unknown} */ text) {
  return typeof text === "string" && text ? text : undefined;
}

/** @param {any} value @returns {value is Schema} */
function isObject(value) {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
