"""Checks each answer of an application against its OpenAPI document; a field that is not declared is a difference."""

from __future__ import annotations

import gzip
import re
import threading
from copy import deepcopy
from functools import cache
from typing import Any

import jsonschema_rs
import orjson
from flask import Flask, Response, request

from web.calls.document import document, operations_of

DIFFERENCES = "contract-differences"
Json = dict[str, Any]


class Contract:
    """The document of an application, with closed schemas."""

    def __init__(self, app: Flask) -> None:
        self.document = document(app)
        self.schemas = deepcopy(self.document["components"]["schemas"])
        for schema in self.schemas.values():
            if "properties" in schema:
                schema.setdefault("additionalProperties", False)
        self.paths = {(operation.endpoint, operation.method): operation.path for operation in operations_of(app)}

    def differences(self, endpoint: str, method: str, status: int, media: str, body: bytes) -> list[str]:
        """Return how an answer differs from what is declared."""
        path = self.paths.get((endpoint, method.lower()))
        if path is None:
            return []
        where = f"{method} {path} {status}"
        declared = self.responses(path, method).get(str(status))
        if declared is None:
            return [f"{where} is not declared; it has {body[:200]!r}"]
        contents = declared.get("content", {})
        if not body and not contents:
            return []
        if not body and status == 304:
            return []
        if media not in contents:
            return [f"{where}: {media} is not declared"]
        if not media.endswith("json"):
            return []
        errors = self.validator(path, method, str(status), media).iter_errors(orjson.loads(body))
        return [f"{where}: {error.message} at {error.instance_path}" for error in errors]

    def responses(self, path: str, method: str) -> Json:
        by_status = self.document["paths"][path][method.lower()]["responses"]
        shared = self.document["components"]["responses"]
        return {status: shared[status] if "$ref" in response else response for status, response in by_status.items()}

    @cache  # noqa: B019 - one contract a process
    def validator(self, path: str, method: str, status: str, media: str) -> Any:
        content = self.responses(path, method)[status]["content"][media]
        return self.validator_of(content.get("x-itemSchema", content["schema"]))

    def validator_of(self, schema: Json) -> Any:
        return jsonschema_rs.Draft202012Validator({"components": {"schemas": self.schemas}, **schema})


_building = threading.Lock()


@cache
def _contract_of(calls: frozenset[str]) -> list[Contract]:
    return []


def contract_of(app: Flask) -> Contract:
    """Return the contract of an application; it is built once for all that have the same calls."""
    contract = _contract_of(frozenset(f"{operation.method} {operation.path}" for operation in operations_of(app)))
    with _building:
        if not contract:
            contract.append(Contract(app))
    return contract[0]


def watch(app: Flask) -> None:
    """Compare each answer that the application gives from now on."""
    app.extensions[DIFFERENCES] = []

    @app.after_request
    def compare(answer: Response) -> Response:
        if request.url_rule is not None and request.method != "HEAD" and answer.status_code != 405:
            is_empty = answer.is_streamed or answer.mimetype == "text/event-stream" or answer.status_code in (204, 304)
            body = b"" if is_empty else answer.get_data()
            body = gzip.decompress(body) if body and answer.headers.get("Content-Encoding") == "gzip" else body
            contract = contract_of(app)
            exchange = (request.url_rule.endpoint, request.method, answer.status_code, answer.mimetype or "", body)
            app.extensions[DIFFERENCES] += contract.differences(*exchange)
        return answer


def require_no_difference(app: Flask) -> None:
    extension = app.extensions[DIFFERENCES]
    assert not extension, (
        "the declaration of a call (web/api, web/dialects, web/schemas) differs from what it answers:\n"
        + "\n".join(dict.fromkeys(extension))
    )


def data_of(stream: str) -> list[Json]:
    """Return the events in the text of a stream."""
    return [orjson.loads(data) for data in re.findall(r"^data: (.*)$", stream, re.MULTILINE)]
