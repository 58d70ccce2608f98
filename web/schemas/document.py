"""The description of the calls."""

from __future__ import annotations

from typing import Any

from pydantic import ConfigDict

from web.calls.fields import Answer


class OpenApi(Answer):
    """An OpenAPI 3.1 document."""

    model_config = ConfigDict(extra="allow")

    openapi: str
    info: dict[str, Any]
    paths: dict[str, Any]
