"""The description of the calls for programs."""

from __future__ import annotations

import threading
from typing import Any

import orjson
from flask import Blueprint, Response, current_app
from pydantic import ConfigDict

from config.forks import after_fork
from web.calls.call import call
from web.calls.document import document as document_of
from web.calls.fields import Answer
from web.page_files import FixedBody


class OpenApi(Answer):
    """An OpenAPI 3.1 document."""

    model_config = ConfigDict(extra="allow")

    openapi: str
    info: dict[str, Any]
    paths: dict[str, Any]


document = Blueprint("document", __name__)

KEY = "callboard-openapi"
_making = threading.Lock()
"""Threads that ask at once wait for the first one's: CPython 3.11 raises SystemError where two parse Python at once, as
``docstrings`` does."""


@after_fork
def _renew() -> None:
    global _making
    _making = threading.Lock()


@document.get("/openapi.json")
@call({200: OpenApi, 304: None})
def openapi() -> Response:
    """Return this document: OpenAPI 3.1, made of the code that serves the calls."""
    with _making:
        body: FixedBody | None = current_app.extensions.get(KEY)
        if body is None:
            content = orjson.dumps(document_of(current_app))
            body = current_app.extensions[KEY] = FixedBody(content, "application/json")
    return body.answer()
