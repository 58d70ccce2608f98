"""The nodes of a workflow's run as lines: one for each node that ended or waits, and one for what is at work."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple

from bus.payloads import NodePayload, ToolPayload, ToolResultPayload
from cli.output.durations import lasting
from config.text.visible import visible

MARKS = {
    "done": ("✓", "green"),
    "failed": ("✕", "red"),
    "waiting": ("◐", "yellow"),
    "skipped": ("–", "cyan"),
    "compensated": ("↶", "yellow"),
}
ID_COLUMNS, TYPE_COLUMNS, TIME_COLUMNS = 16, 13, 8
MOST_FAILURES = 5
"""Failed items of a FOR_EACH that are named."""


class NodeLine(NamedTuple):
    """A line, and its colour."""

    text: str
    colour: str


@dataclass(kw_only=True, slots=True)
class _Loop:
    """A FOR_EACH at the top of the graph; those inside of its body are parts of its items."""

    items: str
    """How many it has, in words; empty where its beginning was not read."""
    open: dict[int, set[str]] = field(default_factory=dict)
    """By the index of each item that was begun: the nodes at work in it."""
    failures: dict[int, str] = field(default_factory=dict)
    """By the index of an item: the node that failed in it, and why."""
    over: int = 0
    """Items in which no node is at work."""
    counts: Mapping[str, int] = field(default_factory=dict)
    """Where child runs work on the items: how many of these are at their end, by status."""
    most_over: int = 0
    """The highest ``over`` so far, since none is at work between two nodes of an item either."""

    def take(self, payload: NodePayload) -> None:
        """Note what happened in an item."""
        index, *inner = payload.path[1:]
        node = "/".join(str(part) for part in (*inner, payload.node_id))
        was_over = self.open.get(int(index)) == set()
        nodes = self.open.setdefault(int(index), set())
        if payload.status in ("started", "waiting"):
            nodes.add(node)
        else:
            nodes.discard(node)
        if payload.status == "failed" and payload.branch is None:
            self.failures[int(index)] = f"{node}: {payload.content or 'failed'}"
        self.over += (not nodes) - was_over
        self.most_over = max(self.most_over, self.over)

    def take_result(self, indices: Sequence[int], result: Any) -> None:
        """Note the items that failed in a child run, whose result has the status and the result of each."""
        for index, item in zip(indices, result if isinstance(result, list) else (), strict=False):
            if isinstance(item, dict) and item.get("status") == "failed":
                self.failures[index] = _error_text(item.get("result"))

    @property
    def progress(self) -> str:
        """How many items are over, of how many, and how many of these failed."""
        return ", ".join(
            part
            for part in (
                f"{sum(self.counts.values()) or self.most_over:,} of {self.items or 'its items'}",
                self._failed,
            )
            if part
        )

    @property
    def summary(self) -> str:
        """How many items it had, and how many failed."""
        return ", ".join(part for part in (self.items or f"{len(self.open):,} items", self._failed) if part)

    @property
    def _failed(self) -> str:
        failed = self.counts.get("failed", 0) or len(self.failures)
        return f"{failed:,} failed" if failed else ""

    def failed_lines(self) -> Iterator[NodeLine]:
        """Yield a line for each of the first failed items."""
        for index in sorted(self.failures)[:MOST_FAILURES]:
            yield NodeLine(f"    ✕ item {index}  {_first_line(self.failures[index])}", "red")
        if len(self.failures) > MOST_FAILURES:
            yield NodeLine(f"    … and {len(self.failures) - MOST_FAILURES:,} more", "red")


class NodeLines:
    """Takes the events of nodes in order."""

    def __init__(self) -> None:
        self._begun: dict[str, str] = {}
        """By the nodes at work at the top of the graph: when they began."""
        self._loops: dict[str, _Loop] = {}
        self._skipped: list[str] = []
        self.children: dict[str, str] = {}
        """By the path of a node: the child run that works for it."""
        self._batches: dict[str, tuple[str, list[int]]] = {}
        """By the id of a call that has a child run work on items: the node at the top of the graph, and the indices."""

    def take(self, payload: NodePayload) -> list[NodeLine]:
        """Return the lines that an event adds."""
        if payload.path:
            self._loops.setdefault(str(payload.path[0]), _Loop(items="")).take(payload)
            return []
        if payload.status == "skipped":
            self._skipped.append(payload.node_id)
            return []
        return [*self.skipped(), *self._lines(payload)]

    def take_call(self, payload: ToolPayload | ToolResultPayload) -> None:
        """Note which items the child run of a call works on, then which of them failed."""
        if isinstance(payload, ToolResultPayload):
            node_id, begun = self._batches.pop(payload.call_id, ("", []))
            if node_id in self._loops:
                self._loops[node_id].take_result(begun, payload.result)
            return
        arguments = payload.arguments or {}
        indices = arguments.get("indices")
        if payload.name == "for_each" and not arguments.get("path") and isinstance(indices, list):
            self._batches[payload.call_id] = (str(arguments.get("node")), indices)

    def skipped(self) -> list[NodeLine]:
        """Return the line about the nodes that no path led to, since the last such line."""
        nodes, self._skipped = self._skipped, []
        return [NodeLine(f"– {', '.join(nodes)}: not reached", "cyan")] if nodes else []

    @property
    def at_work(self) -> str:
        """What works now, on one line; empty where nothing does."""
        loops = self._loops
        names = (f"{node} {loops[node].progress}" if node in loops else node for node in self._begun)
        return "● " + " · ".join(names) if self._begun else ""

    def _lines(self, payload: NodePayload) -> Iterator[NodeLine]:
        node_id = payload.node_id
        if payload.status == "started":
            is_begun = node_id in self._begun  # a FOR_EACH begins each of its batches, too
            self._begun.setdefault(node_id, payload.at)
            if payload.node_type == "FOR_EACH" and not is_begun:
                self._loops.setdefault(node_id, _Loop(items="")).items = payload.content or ""
            if payload.counts is not None and node_id in self._loops:
                self._loops[node_id].counts = payload.counts
            return
        mark, colour = MARKS.get(payload.status, ("·", "white"))
        loop = self._loops.pop(node_id, None) if payload.status in ("done", "failed") else None
        facts = [f"→ {payload.branch}"] if payload.branch else []
        facts += [self.children[node_id]] if node_id in self.children else []
        facts += [loop.summary] if loop is not None else []
        facts += [_first_line(payload.content)] if payload.content else []
        columns = _columns(node_id, payload.node_type, self._took(payload))
        yield NodeLine(f"{mark} {columns}  {'  '.join(facts)}".rstrip(), colour)
        if loop is not None:
            yield from loop.failed_lines()

    def _took(self, payload: NodePayload) -> str:
        """Return how long a node took; empty where that is not known, as of one that is computed at once."""
        if payload.status == "waiting":
            self._begun.setdefault(payload.node_id, payload.at)
            return ""
        began = self._begun.pop(payload.node_id, None)
        if payload.duration_ms is not None:
            return lasting(payload.duration_ms)
        if not began or not payload.at:
            return ""
        spent = datetime.fromisoformat(payload.at) - datetime.fromisoformat(began)
        return lasting(round(spent.total_seconds() * 1000))


def _error_text(result: Any) -> str:
    error = result.get("error") if isinstance(result, dict) else None
    return str(error.get("message") or "failed") if isinstance(error, dict) else "failed"


def _columns(*texts: str) -> str:
    widths: Sequence[int] = (ID_COLUMNS, TYPE_COLUMNS, TIME_COLUMNS)
    aligned = [f"{text:<{width}}" for text, width in zip(texts[:2], widths, strict=False)]
    return "  ".join([*aligned, f"{texts[2]:>{TIME_COLUMNS}}"])


def _first_line(text: str) -> str:
    first, _, rest = visible(text).strip().partition("\n")
    return f"{first} …" if rest else first
