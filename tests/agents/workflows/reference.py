"""A workflow walked without a journal: what the executor has to come to, in a hundred lines, one node after another."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from config.definitions.workflows.fields import NodeFields, WorkflowDefinition
from config.definitions.workflows.graph import BODY, ERROR, TOP

_REFERENCE = re.compile(r"^\{\{ (?:nodes\.(\w+)|(item|index)|input\.(\w+)) \}\}$")


class Failed(Exception):
    """A node has failed."""


@dataclass(kw_only=True)
class Outside:
    """What is outside of a workflow: its functions are those of their arguments alone."""

    call: Callable[[str, Mapping[str, Any]], Any]
    answer: Callable[[str], str]
    approves: Callable[[str], bool]
    signals: Mapping[str, Any]


@dataclass(kw_only=True)
class Reference:
    """One walk; ``executed`` has the status of each node that was executed, by its path."""

    definition: WorkflowDefinition
    outside: Outside
    input: Mapping[str, Any]
    executed: dict[str, str] = field(default_factory=dict)

    def run(self) -> Any:
        """Return the output; raise ``Failed`` where the run fails."""
        return self._scope(TOP, "", {}, {})

    def _scope(self, scope_id: str, prefix: str, around: Mapping[str, Any], local: Mapping[str, Any]) -> Any:
        graph = self.definition.graph
        scope, outputs, followed = graph.scopes[scope_id], dict(around), set[int]()
        for node_id in scope.nodes:
            inside = [edge for edge in graph.into[node_id] if edge.source in scope.nodes and edge.handle != BODY]
            is_reached = node_id in scope.entries or any(edge.number in followed for edge in inside)
            if not is_reached:
                continue
            node, path = self.definition.node(node_id), f"{prefix}{node_id}"
            branch: str | None = None
            try:
                outputs[node_id], branch = self._node(node, path, outputs, local, followed)
                self.executed[path] = "done"
            except Failed:
                self.executed[path] = "failed"
                if node.on_error == "fail":
                    raise
                outputs[node_id] = "error"
                branch = ERROR if node.on_error == "branch" else None
            for edge in graph.out[node_id]:
                if edge.handle == branch or (branch is None and edge.handle in ("", *_parallel(edge.handle))):
                    followed.add(edge.number)
        leading = {edge.source for edge in graph.edges if edge.number in followed and edge.target in scope.nodes}
        last = [n for n in scope.nodes if n in outputs and n not in around and n not in leading]
        return outputs[last[0]] if len(last) == 1 else {node_id: outputs[node_id] for node_id in last}

    def _node(
        self, node: NodeFields, path: str, outputs: Mapping[str, Any], local: Mapping[str, Any], followed: set[int]
    ) -> tuple[Any, str | None]:
        config = node.config

        def value(source: Any) -> Any:
            match = _REFERENCE.match(source) if isinstance(source, str) else None
            if match is None:
                return source
            values = [(match[1], outputs), (match[2], local), (match[3], self.input)]
            name, names = next((name, names) for name, names in values if name is not None)
            above = self.definition.graph.above[node.id]
            if name not in names or (match[1] is not None and name not in above):
                raise Failed(name)
            return names[name]

        match node.type:
            case "START":
                return dict(self.input), None
            case "END":
                return value(config["output"]) if "output" in config else self._before(node, outputs, followed), None
            case "PARALLEL":
                return self._before(node, outputs, followed), None
            case "TRANSFORM":
                return value(config["output"]), None
            case "FUNCTION":
                return self.outside.call(config["tool"], {k: value(v) for k, v in config["arguments"].items()}), None
            case "LLM":
                return self.outside.answer(str(value(config["prompt"]))), None
            case "CHOICE":
                number, limit = value(f"{{{{ {config['branches'][0]['field']} }}}}"), config["branches"][0]["value"]
                if not isinstance(number, int):
                    raise Failed(number)
                branch = "branch-0" if number > limit else "default"
                return {"branch": branch}, branch
            case "CHOICE_LLM":
                answer, choices = self.outside.answer(str(value(config["prompt"]))), config["choices"]
                branch = f"branch-{choices.index(answer)}" if answer in choices else "default"
                return {"branch": branch, "choice": answer if answer in choices else None}, branch
            case "APPROVAL_GATE":
                if not self.outside.approves(path):
                    raise Failed(path)
                return "approved", None
            case "WAIT":
                return self.outside.signals[config["signal"]] if "signal" in config else None, None
            case "SUB_WORKFLOW":
                return self.outside.call("double", {"n": value(config["input"]["n"])}), None
        return self._of_list(node, path, value(config["items"]), outputs), None

    def _of_list(self, node: NodeFields, path: str, items: Any, outputs: Mapping[str, Any]) -> Any:
        if not isinstance(items, list):
            raise Failed(items)
        match node.type:
            case "FILTER":
                if not all(isinstance(item, int) for item in items):
                    raise Failed(items)
                return [item for item in items if item > 2]
            case "REDUCE":
                if not all(isinstance(item, int) for item in items):
                    raise Failed(items)
                return sum(items)
        results: list[Any] = []
        for index, item in enumerate(items):
            try:
                results.append(self._scope(node.id, f"{path}/{index}/", outputs, {"item": item, "index": index}))
            except Failed:
                if node.config.get("on_item_error") != "collect":
                    raise
                results.append("error")
        return results

    def _before(self, node: NodeFields, outputs: Mapping[str, Any], followed: set[int]) -> Any:
        edges = [edge for edge in self.definition.graph.into[node.id] if edge.number in followed]
        values = {edge.source: outputs[edge.source] for edge in edges}
        return next(iter(values.values())) if len(values) == 1 else values


def _parallel(handle: str) -> tuple[str, ...]:
    return (handle,) if handle.startswith("parallel-") else ()
