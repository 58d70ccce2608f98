"""What the server answers about workflows, as typed records."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from callboard_client.records import Record


@dataclass(frozen=True, kw_only=True, slots=True)
class Workflow(Record):
    """A workflow that can be started. A list has no fields from ``output`` on."""

    id: str
    name: str = ""
    description: str = ""
    input: Mapping[str, Any] = field(default_factory=dict)
    """What a run is started with, as JSON Schema."""
    version: int | None = None
    """The version that serves in place of what its file says."""
    problem: str | None = None
    """Where its file cannot be used, and the last version that could serves."""
    output: Mapping[str, Any] | None = None
    """What a run's output fits, as JSON Schema; None: anything."""
    variables: Mapping[str, Any] = field(default_factory=dict)
    nodes: Sequence[Mapping[str, Any]] = ()
    """Each with ``id`` and ``type``, and what else its file has of it, without the prompts of models."""
    edges: Sequence[Mapping[str, Any]] = ()
    """Each with ``source``, ``target`` and, where it has one, ``source_handle``."""
    signals: Sequence[Mapping[str, Any]] = ()
    """Each with ``name``, the ``node`` that waits for it, and the ``data_schema``."""
    blueprint: str | None = None
    """In place of nodes and edges: the class that has its logic."""
    digest: str = ""
    """SHA-256 of its definition, which a run has as ``definition``."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Step(Record):
    """A step of a run: a call of a model or a tool, or a node of a workflow."""

    id: str
    number: int
    kind: str
    """model, tool, sample or guard; of a workflow also node, item or wait."""
    name: str = ""
    """The model, the tool, or the type of the node; of an item its FOR_EACH."""
    node: str | None = None
    """Of a workflow: the node's path, ``items/17/charge``."""
    call_id: str | None = None
    status: str = ""
    """planned, started or waiting; done, failed, refused, cancelled or unknown."""
    effect: str | None = None
    """Of a tool's call: its effect class."""
    attempt: int = 1
    input: Any = None
    """Of a workflow: what the node was given."""
    result: Any = None
    """Where it is done: what it returned."""
    error: str | None = None
    """Where it has not succeeded: why, as a sentence."""
    started_at: str = ""
    ended_at: str | None = None
    duration_ms: int | None = None
    usage: Mapping[str, int] | None = None
    cost_usd: float | None = None
    spans: Sequence[Mapping[str, Any]] | None = None
    """Where they are asked for: the requests, statements and file operations of the call."""
