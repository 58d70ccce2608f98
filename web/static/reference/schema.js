// @ts-check
// Fields of a JSON Schema as a list that unfolds.

import { h } from "../dom/h.js";
import { inline } from "./text.js";

/** @typedef {"required" | "always"} Always What is said of a field that an object has in any case: in a body, in an answer. */
/** @typedef {Record<string, any>} Schema A JSON Schema, as the document has it. */

/** Reads the schemas of one document. */
export class Schemas {
  constructor(/** @type {any} */ document) {
    /** @type {Record<string, Schema>} */
    this.shared = document.components.schemas;
    /** @type {Record<string, any>} */
    this.responses = document.components.responses;
  }

  /** @type {(given: any) => any} Returns a response, also one that calls share. */
  response(given) {
    return given.$ref ? this.responses[given.$ref.split("/").pop()] : given;
  }

  /** @type {(schema: Schema | undefined) => {schema: Schema, name: string}} Returns the schema that a reference leads to, with the name of its type. */
  resolve(schema) {
    const name = schema?.$ref?.split("/").pop();
    if (!name) return { schema: schema ?? {}, name: "" };
    const { $ref, ...beside } = /** @type {Schema} */ (schema);
    return { schema: { ...this.shared[name], ...beside }, name };
  }

  /** @type {(given: Schema, field?: string) => string} Returns what a value is, in a few words: `text`, `list of Run`, `text or null`. */
  kind(given, field = "") {
    const { schema, name } = this.resolve(given);
    const choices = schema.oneOf ?? schema.anyOf;
    if (schema.const !== undefined) return JSON.stringify(schema.const);
    if (schema.enum) return "one of";
    if (schema.type === "array") return `list of ${this.kind(schema.items ?? {})}`;
    if (choices && !schema.type) return name || choices.map((/** @type {Schema} */ one) => this.kind(one)).join(" or ");
    if (schema.type === "object" && name) return name;
    if (field.endsWith("_s") && schema.type) return "seconds";
    return KINDS[schema.type] ?? "any JSON";
  }

  /** @type {(given: Schema) => string[]} Returns the limits of a value, as short texts. */
  limits(given) {
    const { schema } = this.resolve(given);
    const found = [];
    if (schema.minimum !== undefined || schema.maximum !== undefined) found.push(`${schema.minimum ?? ""} to ${schema.maximum ?? ""}`.trim());
    if (schema.maxLength !== undefined) found.push(`at most ${schema.maxLength} characters`);
    if (schema.default !== undefined) found.push(`${JSON.stringify(schema.default)} unless given`);
    return found;
  }

  /** @type {(given: Schema, seen?: string[], always?: Always) => HTMLElement | null} Returns the fields of an object, or of the objects in a list or a choice, as an element; null where there are none. */
  fields(given, seen = [], always = "required") {
    const { schema, name } = this.resolve(given);
    if (name && seen.includes(name)) return null;
    const inside = name ? [...seen, name] : seen;
    if (schema.type === "array") return this.fields(schema.items ?? {}, inside, always);
    const choices = (schema.oneOf ?? schema.anyOf ?? []).filter((/** @type {Schema} */ one) => one.$ref);
    if (choices.length) return h("div.choices", {}, choices.map((/** @type {Schema} */ one) => this.choice(one, inside, always)));
    const entries = Object.entries(schema.properties ?? {});
    if (!entries.length) return null;
    return h("dl.fields", {}, entries.map(([field, value]) => this.field(field, value, schema.required?.includes(field) && always, inside)));
  }

  /** @type {(given: Schema, seen: string[], always: Always) => HTMLElement} */
  choice(given, seen, always) {
    const { schema, name } = this.resolve(given);
    const said = schema.properties?.type?.const;
    return h("details.choice", {}, h("summary", {}, h("code", {}, said ?? name), h("span.faint", {}, inline(schema.description))), this.fields(given, seen, always));
  }

  /** @type {(name: string, value: Schema, required: Always | false | undefined, seen: string[]) => HTMLElement[]} */
  field(name, value, required, seen) {
    const { schema } = this.resolve(value);
    const inside = this.fields(value, seen, required || "required");
    return [
      h("dt", {}, h("code", {}, name), required && h("span.required", {}, required)),
      h("dd", {},
        h("p.kind", {}, this.kind(value, name), schema.enum && h("span.values", {}, schema.enum.filter((/** @type {unknown} */ one) => one !== "").map((/** @type {unknown} */ one) => h("code", {}, String(one)))), this.limits(value).map((one) => h("span.limit", {}, one))),
        schema.description && h("p", {}, inline(schema.description)),
        inside && h("details.inside", {}, h("summary", {}, "Fields"), inside)),
    ];
  }

  /** @type {(given: Schema, name?: string, depth?: number) => any} Returns an example of a value, made of its schema. */
  example(given, name = "", depth = 0) {
    const { schema } = this.resolve(given);
    if (schema.examples) return schema.examples[0];
    if (schema.const !== undefined) return schema.const;
    if (schema.enum) return schema.enum[0];
    if (schema.default !== undefined) return schema.default;
    if (schema.type === "object") {
      const required = depth ? schema.required ?? [] : Object.keys(schema.properties ?? {}).filter((one) => schema.required?.includes(one) || SHOWN.has(one));
      return Object.fromEntries(required.map((/** @type {string} */ one) => [one, this.example(schema.properties[one], one, depth + 1)]));
    }
    if (schema.type === "array") return [this.example(schema.items ?? {}, name.replace(/s$/, ""), depth + 1)];
    return SIMPLEST[schema.type] ?? "…";
  }
}

/** @type {Record<string, string>} */
const KINDS = { string: "text", integer: "whole number", number: "number", boolean: "true or false", object: "object" };
/** @type {Record<string, number | boolean>} */
const SIMPLEST = { integer: 1, number: 1, boolean: true };
// Fields of bodies that an example has though they are not required.
const SHOWN = new Set(["thread_id"]);
