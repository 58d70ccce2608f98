"""The OpenAPI 3.1 document of an application, made of its routes, its calls and the models that they name."""

from __future__ import annotations

import inspect
import re
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from flask import Flask
from werkzeug.routing import Rule
from werkzeug.routing.converters import AnyConverter

from config.settings.project import own_version
from web.auth.authentication import HEALTH_ENDPOINTS, OPEN_ENDPOINTS
from web.auth.keys import TICKET_ENDPOINT
from web.auth.webhooks import WEBHOOK_ENDPOINT
from web.calls.call import HttpCall, declared
from web.calls.fields import Input, Json, ProblemDetails, components, schema_of
from web.calls.responses import SchemaOf, common_responses, responses

DESCRIPTION = """Start runs of agents, follow their events, answer what they ask. Bodies are JSON objects without nulls.
Every error is `application/problem+json` with a stable `code` and a sentence in `detail` that says what to do."""
_SESSION = "The page's sign-in. The name has a part that is the deployment's own, and begins with `__Host-` over HTTPS."
SECURITY: Mapping[str, Json] = {
    "key": {"type": "http", "scheme": "bearer", "description": "An API key, or the token of a service."},
    "session": {"type": "apiKey", "in": "cookie", "name": "callboard_session", "description": _SESSION},
    "ticket": {
        "type": "apiKey",
        "in": "query",
        "name": "ticket",
        "description": "A ticket for the events of one run: valid for 30 s, and once.",
    },
    "signature": {
        "type": "apiKey",
        "in": "header",
        "name": "webhook-signature",
        "description": "A signature over the body's bytes: of Standard Webhooks, or in GitHub's or Stripe's header.",
    },
}
"""The credentials of a request."""
USUAL = ("key", "session")
"""Those that calls take; the events of a run take a ticket, too."""
COMPATIBILITY = "compatibility"
"""The group of the calls of two earlier designs, the last one."""
_COMPATIBILITY = (
    "Compatibility: addresses of two earlier designs, kept for their clients. New programs use the other calls."
)
_OLDER = {"seed", "execute", "confirming", "conversation", "context"}
"""The blueprints of that group; a view ``seed`` of another one belongs to it as well."""
_PART = re.compile(r"<([^<>]*)>")


class Operation(NamedTuple):
    """A call at one address."""

    path: str
    """As OpenAPI writes it."""
    method: str
    name: str
    endpoint: str
    view: Any
    call: HttpCall

    @property
    def tag(self) -> str:
        blueprint, _, view = self.endpoint.partition(".")
        return COMPATIBILITY if {blueprint, view} & _OLDER else blueprint


def document(app: Flask) -> Json:
    """Return the OpenAPI document of every declared call of the application."""
    operations = list(operations_of(app))
    schemas, shared = components([ProblemDetails, *(model for entry in operations for model in _models(entry.call))])

    def schema_of_model(model: Any) -> Json:
        return schemas[id(model)]

    paths: dict[str, Json] = defaultdict(dict)
    for operation in operations:
        paths[operation.path][operation.method] = _operation(operation, schema_of_model)
    tags = {
        entry.tag: sys.modules[entry.view.__module__].__doc__ or ""
        for entry in operations
        if entry.tag != COMPATIBILITY
    }
    tags[COMPATIBILITY] = _COMPATIBILITY
    return {
        "openapi": "3.1.0",
        "info": {"title": "Callboard", "version": own_version(), "description": DESCRIPTION},
        "servers": [{"url": "/"}],
        "security": [{name: []} for name in USUAL],
        "tags": [{"name": name, "description": text.strip().partition("\n\n")[0]} for name, text in tags.items()],
        "paths": dict(paths),
        "components": {
            "schemas": shared,
            "responses": common_responses(schema_of_model),
            "securitySchemes": dict(SECURITY),
        },
    }


def operations_of(app: Flask) -> Iterator[Operation]:
    """Yield every declared call of the application, one for each value of a part of its path that has fixed ones."""
    for rule in app.url_map.iter_rules():
        view = app.view_functions[rule.endpoint]
        call = declared(view)
        if call is None:
            continue
        for method in sorted((rule.methods or set()) - {"HEAD", "OPTIONS"}):
            for fixed in _fixed_parts(rule):
                path = _path_of(rule, fixed)
                name = "_".join([rule.endpoint.replace(".", "_"), *fixed.values()])
                yield Operation(path, method.lower(), name, rule.endpoint, view, call)


def _path_of(rule: Rule, fixed: Mapping[str, str]) -> str:
    def part(match: re.Match[str]) -> str:
        name = match[1].rpartition(":")[2]  # behind its converter
        return fixed.get(name, f"{{{name}}}")

    return _PART.sub(part, rule.rule)


def _fixed_parts(rule: Rule) -> Sequence[Mapping[str, str]]:
    for name, converter in rule._converters.items():
        if isinstance(converter, AnyConverter):
            return [{name: value} for value in sorted(converter.items)]
    return [{}]


def _models(call: HttpCall) -> Iterator[Any]:
    if call.body is not None:
        yield call.body
    for media in call.answers.values():
        if media is not None:
            yield from media.values() if isinstance(media, Mapping) else [media]


def _operation(operation: Operation, schema_of_model: SchemaOf) -> Json:
    summary, _, more = (inspect.getdoc(operation.view) or "").partition("\n\n")
    data: Json = {"operationId": operation.name, "tags": [operation.tag], "summary": " ".join(summary.split())}
    if more:
        data["description"] = more
    if operation.endpoint in OPEN_ENDPOINTS | HEALTH_ENDPOINTS:
        data["security"] = []
    elif operation.endpoint == WEBHOOK_ENDPOINT:
        data["security"] = [{"signature": []}]
    elif operation.endpoint == TICKET_ENDPOINT:
        data["security"] = [{name: []} for name in (*USUAL, "ticket")]
    if parameters := list(_parameters(operation)):
        data["parameters"] = parameters
    if operation.call.body is not None:
        content = {"application/json": {"schema": schema_of_model(operation.call.body)}}
        data["requestBody"] = {"required": not operation.call.body_is_optional, "content": content}
    return data | {"responses": responses(operation.call, schema_of_model)}


def _parameters(operation: Operation) -> Iterator[Json]:
    for name, annotation in operation.call.path.items():
        if f"{{{name}}}" in operation.path:
            schema = schema_of(annotation)
            yield _described({"name": name, "in": "path", "required": True}, {"minLength": 1} | schema)
    for location, model in (("query", operation.call.query), ("header", operation.call.headers)):
        if model is not None:
            yield from _of_model(location, model)


def _of_model(location: str, model: type[Input]) -> Iterator[Json]:
    schema = schema_of(model)
    for name, property_schema in schema.get("properties", {}).items():
        yield _described(
            {"name": name, "in": location, "required": name in schema.get("required", ())}, property_schema
        )


def _described(parameter: Json, schema: Json) -> Json:
    """Return a parameter with its schema, whose description and examples belong to the parameter."""
    texts = {name: schema[name] for name in ("description",) if name in schema}
    return parameter | texts | {"schema": {name: value for name, value in schema.items() if name not in texts}}
