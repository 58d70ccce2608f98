"""Each contract: its name, who writes what it describes, and the declaration that its schema is made of.

Nothing here imports Celery, Redis, SQLAlchemy or Flask, so that a program can read the contracts without them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum, auto
from functools import partial
from pathlib import Path
from typing import Any, get_type_hints

from bus.messages.message import BusMessage
from bus.messages.registry import messages
from cli.dev.error_catalogue import catalogue
from config.definitions.capability import CapabilityFields
from config.definitions.webhooks.definition import WebhookFields
from config.definitions.workflows.fields import OF_AGENTS, EdgeFields, NodeFields, WorkflowFields
from config.definitions.workflows.node_types import SHIPPED
from config.folders import ROOT
from config.identity.contexts import ContextsWire, GoldenContextWire, SecurityContextWire
from web.calls.fields import ProblemDetails, docstrings, schema_of
from web.schemas.run import Event
from web.schemas.tool import CatalogueTool

Json = dict[str, Any]
FOLDER = ROOT / "docs" / "contracts"
"""The contracts of this version; its folder ``released`` has those of the last release."""
DIALECT = "https://json-schema.org/draft/2020-12/schema"


class Direction(Enum):
    """Who writes what a contract describes, and so what may change in it."""

    INPUT = auto()
    """Others: what they could send has to be accepted later on, too."""
    OUTPUT = auto()
    """Callboard: what others rely on has to stay."""
    BOTH = auto()
    """Processes of Callboard, of which an update runs two versions."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Contract:
    """One contract."""

    name: str
    """That of its file, without the extension."""
    direction: Direction
    schema: Callable[[], Json]
    """Returns its JSON Schema."""

    @property
    def document(self) -> Json:
        """The schema with what a file of its own needs."""
        head = {"$schema": DIALECT, "$id": f"urn:callboard:contract:{self.name}"}
        return head | self.schema()

    def file(self, folder: Path = FOLDER) -> Path:
        return folder / f"{self.name}.json"


def _described(model: Any) -> Json:
    """Return the schema of a model, with the texts under its fields as their descriptions."""
    schema = schema_of(model)
    for name, text in docstrings(model).items():
        if name in schema["properties"]:
            schema["properties"][name].setdefault("description", text)
    return schema


def _message(kind: type[BusMessage]) -> Json:
    text = f"The argument of the Celery task `{kind.name}`: {kind.__doc__}"
    return _described(get_type_hints(kind.to_wire)["return"]) | {"title": kind.name, "description": text}


def _file_of(kind: type[BusMessage]) -> str:
    return f"{kind.name.removeprefix('callboard.').replace('_', '-')}-message"


def _contexts() -> Json:
    text = (
        "The contexts of a call: in the variable `CALLBOARD_CONTEXT` of a capability's process or container, and in "
        "the header `Callboard-Context` of a request to its server. One that is not set is absent."
    )
    schema = schema_of(ContextsWire)
    for model in (GoldenContextWire, SecurityContextWire):
        described = _described(model)
        described.pop("$defs", None)  # the whole schema has them
        schema["$defs"][model.__name__] = described
    return schema | {"title": "Contexts", "description": text}


def _event() -> Json:
    text = "An event of a run, as streams, observers and log files have it. Readers ignore types that they do not know."
    return schema_of(Event) | {"title": "Event", "description": text}


def _problem() -> Json:
    """Return the schema of an error's body, with each code that a request may be refused with."""
    schema = schema_of(ProblemDetails)
    codes = [_code(code, entry.meaning) for code, entry in catalogue().items() if entry.status is not None]
    schema["properties"]["code"] |= {"$ref": "#/$defs/Code"}
    del schema["properties"]["code"]["type"]
    return schema | {"$defs": {"Code": {"description": "docs/errors.md has them with their remedies.", "oneOf": codes}}}


def _workflow() -> Json:
    """Return the schema of a workflow's file, in which the type of a node says what its ``config`` may have."""
    schema = _described(WorkflowFields)
    fields, shared = schema["properties"], schema["$defs"]
    for name in OF_AGENTS:
        fields.pop(name, None)
    node = _described(NodeFields) | {"additionalProperties": False}
    node.pop("$defs", None)  # the whole schema has them
    variants = []
    for kind in SHIPPED.values():
        config = _described(kind.config)
        shared |= config.pop("$defs", {})
        variants.append(_node(node, {"const": kind.name, "description": kind.description}, config))
    packages = {"type": "string", "not": {"enum": [*SHIPPED]}, "description": "A type of an installed package."}
    shared["NodeFields"] = {"oneOf": [*variants, _node(node, packages, node["properties"]["config"])]}
    shared["EdgeFields"]["properties"]["source_handle"] |= {"description": docstrings(EdgeFields)["source_handle"]}
    return schema | {"title": "Workflow", "description": "The file of a workflow, `config/workflows/ID.yaml`."}


def _node(node: Json, kind: Json, config: Json) -> Json:
    needed = [*node["required"], *(["config"] if config.get("required") else ())]
    return node | {"required": needed, "properties": node["properties"] | {"type": kind, "config": config}}


def _webhook() -> Json:
    """Return the schema of a webhook's file, in which a secret may stand alone."""
    schema = _described(WebhookFields)
    several = schema["properties"]["secret"]
    schema["properties"]["secret"] = {"description": several.pop("description"), "anyOf": [several["items"], several]}
    return schema | {"title": "Webhook", "description": "The file of a webhook, `config/webhooks/NAME.yaml`."}


def _code(code: str, meaning: str) -> Json:
    return {"const": code, "description": meaning}


CONTRACTS: tuple[Contract, ...] = (
    *(
        Contract(name=_file_of(kind), direction=Direction.BOTH, schema=partial(_message, kind))
        for kind in messages().values()
    ),
    Contract(name="event", direction=Direction.OUTPUT, schema=_event),
    Contract(name="problem", direction=Direction.OUTPUT, schema=_problem),
    Contract(name="tool", direction=Direction.OUTPUT, schema=lambda: schema_of(CatalogueTool)),
    Contract(name="contexts", direction=Direction.OUTPUT, schema=_contexts),
    Contract(name="capability", direction=Direction.INPUT, schema=lambda: _described(CapabilityFields)),
    Contract(name="workflow", direction=Direction.INPUT, schema=_workflow),
    Contract(name="webhook", direction=Direction.INPUT, schema=_webhook),
)
"""Every contract. A later one is a row more."""


def text_of(document: Mapping[str, Any]) -> str:
    """Return a contract as its file has it."""
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


def texts() -> Iterator[tuple[Contract, str]]:
    """Yield each contract with the text of its file."""
    for contract in CONTRACTS:
        yield contract, text_of(contract.document)
