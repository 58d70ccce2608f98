// @ts-check
// One call: what it takes, what it answers, and a command to try it.

import { copyButton } from "../dom/copyButton.js";
import { h } from "../dom/h.js";
import { inline, paragraphs } from "./text.js";

/** @typedef {import("../dom/h.js").Child} Child */
/** @typedef {import("./schema.js").Schema} Schema */
/** @typedef {import("./schema.js").Schemas} Schemas */
/** @typedef {{method: string, path: string, operation: any}} Call One method of a path, as the document has it. */

/** @type {(call: Call, schemas: Schemas) => HTMLElement} Returns the element of a call. */
export function callElement(call, schemas) {
  const { method, path, operation } = call;
  return h("article.call", { id: operation.operationId, dataset: { method } },
    h("div.says", {},
      h("h3", {}, h("a.anchor", { href: `#${operation.operationId}` }, chip(method), h("code", {}, breakable(path)))),
      h("p.lead", {}, inline(operation.summary)),
      paragraphs(operation.description),
      parameters(operation.parameters ?? [], schemas),
      body(operation.requestBody, schemas),
      answers(operation.responses, schemas)),
    h("div.tries", {}, command(call, schemas)));
}

/** @type {(method: string) => HTMLElement} Returns the method as a small mark. */
export function chip(method) {
  return h("span.method", { dataset: { method } }, method.toUpperCase());
}

/** @type {(path: string) => (string | HTMLElement)[]} Returns a path that may be broken at its slashes. */
export function breakable(path) {
  return path.split(/(?=\/)/).flatMap((part) => [part, h("wbr")]);
}

const PLACES = { path: "In the path", query: "Parameters", header: "Headers" };

/** @type {(found: any[], schemas: Schemas) => Child[]} */
function parameters(found, schemas) {
  return Object.entries(PLACES).map(([place, title]) => {
    const here = found.filter((one) => one.in === place);
    return here.length > 0 && section(title, h("dl.fields", {}, here.map((one) => schemas.field(one.name, { ...one.schema, description: one.description }, one.required && "required", []))));
  });
}

/** @type {(given: any, schemas: Schemas) => Child} */
function body(given, schemas) {
  const schema = given?.content?.["application/json"]?.schema;
  const fields = schema && schemas.fields(schema);
  return fields && section(given.required ? "Body" : "Body, may be left out", fields);
}

/** @type {(responses: Record<string, any>, schemas: Schemas) => HTMLElement[]} */
function answers(responses, schemas) {
  const entries = Object.entries(responses).map(([status, one]) => [status, schemas.response(one)]);
  const good = entries.filter(([status]) => Number(status) < 400);
  const bad = entries.filter(([, one]) => one.content?.["application/problem+json"]);
  return [
    section("Answers", good.map(([status, one]) => answer(status, one, schemas))),
    section("Errors", h("dl.errors", {}, bad.map(([status, one]) => [h("dt", {}, status), h("dd", {}, codes(one).map((code) => h("code", {}, code)), Object.keys(one.headers ?? {}).map((name) => h("span.faint", {}, `with ${name}`)))]))),
  ];
}

/** @type {(status: string, response: any, schemas: Schemas) => Child[]} */
function answer(status, response, schemas) {
  const contents = Object.entries(/** @type {Record<string, any>} */ (response.content ?? {})).filter(([type]) => type !== "application/problem+json");
  if (!contents.length) return [h("p.answer", {}, h("b", {}, status), " ", response.description, ", without a body"), sent(response)];
  return contents.map(([type, content]) => {
    const schema = content["x-itemSchema"] ?? content.schema;
    const { name, schema: found } = schemas.resolve(schema);
    const said = found.description ?? (content["x-itemSchema"] ? "A stream of events, each one of these." : response.description);
    return h("details.answer", {},
      h("summary", {}, h("b", {}, status), h("code", {}, name || type), h("span.faint", {}, inline(said))),
      sent(response),
      schemas.fields(schema, [], "always"));
  });
}

/** @type {(response: any) => HTMLElement | false} Returns the headers of an answer as a list, with what each says. */
function sent(response) {
  const entries = Object.entries(/** @type {Record<string, any>} */ (response.headers ?? {}));
  return entries.length > 0 && h("dl.fields", {}, entries.map(([name, one]) => [h("dt", {}, h("code", {}, name)), h("dd", {}, h("p.kind", {}, "header"), h("p", {}, inline(one.description)))]));
}

/** @type {(response: any) => string[]} */
function codes(response) {
  const schema = response.content["application/problem+json"].schema;
  return (schema.allOf ?? []).flatMap((/** @type {Schema} */ one) => one.properties?.code?.enum ?? []).concat(schema.allOf ? [] : ["the run's own code"]);
}

/** @type {(title: string, ...children: Child[]) => HTMLElement} */
function section(title, ...children) {
  return h("section", {}, h("h4.caps", {}, title), children);
}

/** @type {(call: Call, schemas: Schemas) => HTMLElement} */
function command({ method, path, operation }, schemas) {
  const address = path.replace(/\{(\w+)\}/g, (_, name) => {
    const found = operation.parameters?.find((/** @type {any} */ one) => one.name === name);
    const example = String(found?.schema.examples?.[0] ?? "");
    return example && example.length < 20 ? example : `$${name.toUpperCase()}`;
  });
  const parts = [`curl -s ${location.origin}${address}`];
  if (Object.values(operation.responses).some((one) => one.content?.["text/event-stream"])) parts[0] = parts[0].replace("-s", "-N");
  if (method !== "get") parts[0] = parts[0].replace("curl", `curl -X ${method.toUpperCase()}`);
  if (operation.security?.length !== 0) parts.push('-H "Authorization: Bearer $CALLBOARD_API_KEY"');
  const schema = operation.requestBody?.content["application/json"].schema;
  if (schema && (operation.requestBody.required || schemas.fields(schema))) {
    parts.push("-H 'Content-Type: application/json'", `-d '${JSON.stringify(schemas.example(schema), null, 1).replace(/\n */g, " ").replace(/([{[]) | ([}\]])/g, "$1$2")}'`);
  }
  const text = parts.join(" \\\n     ");
  return h("div.code", {}, h("div.code-bar", {}, h("span", {}, "curl"), copyButton(() => text)), h("pre", { tabindex: "0" }, h("code", {}, text)));
}
