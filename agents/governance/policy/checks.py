"""What is suspicious about a policy that can be used: conditions that are the same for each call, unknown names."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase

from agents.governance.policy.compiled import CompiledRule, ToolNames
from agents.governance.policy.condition import TOOL
from agents.governance.policy.local import RANKS, LocalPolicy
from agents.governance.policy.rule import CallMatch
from config.definitions.mcp.names import PREFIX, own_names
from config.effects import OUTWARD, SENSITIVE, UNTRUSTED, Classification, Effect
from config.expressions.work import split_texts
from config.identity.principal import Role
from config.text.names import did_you_mean

MOST_LISTED = 12
"""Names that a warning lists."""
_DOTTED = re.compile(r"(?<![\w.])arguments\s*\.\s*([A-Za-z_]\w*+)\s*+(?!\()")
_INDEXED = re.compile(r"""(?<![\w.])arguments\s*\[\s*["'](\w+)["']\s*\]""")
_SOUGHT = re.compile(r"""["']([^"'\\]*+)["']\s*+in\s++(arguments|labels|roles)\b""")
_COMPARED = re.compile(r"""(?<![\w.])(tool|identity|agent|effect|classification)\s*([!=]=)\s*["']([^"'\\]*)["']""")


@dataclass(frozen=True, kw_only=True, slots=True)
class KnownTool:
    """A tool that an agent has, or that is registered."""

    name: str
    identity: str
    """``mcp:server/tool``; empty of a tool of no MCP server."""
    arguments: frozenset[str] | None
    """The names of its arguments; None where its schema leaves them open."""
    labels: frozenset[str]
    """Those of its calls, and of its results."""

    @property
    def names(self) -> frozenset[str]:
        """Those that ``tool`` is in a condition."""
        return frozenset({self.name}).union(own_names(self.identity) if self.identity else ())

    def is_listed(self, names: ToolNames) -> bool:
        """Return whether a rule with these names is about it."""
        return names.has(self.name) or (bool(self.identity) and names.has(self.identity, of_names=True))


@dataclass(frozen=True, kw_only=True, slots=True)
class Vocabulary:
    """All that is known in a deployment."""

    tools: tuple[KnownTool, ...]
    agents: frozenset[str]
    unread: tuple[str, ...] = ()
    """Agents whose tools could not be read, so that more tools may exist."""


def warnings_of(policy: LocalPolicy, vocabulary: Vocabulary | None = None) -> list[str]:
    """Return a sentence about each part of a rule that has no effect, or another one than it seems to have."""
    warnings: list[str] = []
    labels = {label for rule in policy.rules for label in rule.fields.labels or ()}
    for rule in policy.rules:
        named = _Named(policy, rule, vocabulary, labels).problems() if vocabulary is not None else ()
        problems = [*_constant(rule), *named]
        warnings += [f"{rule.file}:{rule.line}: rule '{rule.name}': {problem}" for problem in dict.fromkeys(problems)]
    if warnings and vocabulary is not None and vocabulary.unread:
        agents = ", ".join(vocabulary.unread[:MOST_LISTED])
        warnings.append(f"the tools of these agents could not be read, so there may be more names: {agents}.")
    return warnings


def _constant(rule: CompiledRule) -> Iterator[str]:
    value = rule.condition.constant() if rule.condition is not None else None
    if value is not None:
        matches = "always true, so leave it out" if value else "never true, so the rule never matches"
        yield f"its condition is {matches}."


class _Named:
    """What one rule names, compared with what there is."""

    def __init__(self, policy: LocalPolicy, rule: CompiledRule, vocabulary: Vocabulary, labels: Iterable[str]) -> None:
        self._rule, self._vocabulary = rule, vocabulary
        self._loosens = RANKS[rule.verdict] < RANKS[policy.defaults[rule.fields.point].verdict]
        self._labels = {UNTRUSTED, SENSITIVE, OUTWARD, *labels}.union(*(tool.labels for tool in vocabulary.tools))

    def problems(self) -> Iterator[str]:
        fields = self._rule.fields
        for clause, match in (("when", fields.when), ("unless", fields.unless)):
            if match is not None:
                yield from self._of_match(clause, match)
        if fields.point == "tool":
            yield from self._of_arguments()
            yield from self._of_texts()
            yield from self._of_names_compared()

    def _of_match(self, clause: str, match: CallMatch) -> Iterator[str]:
        for field, listed in (("tools", match.tools), ("provenance", match.provenance)):
            for name in listed or ():
                loosens = clause == "unless" or (self._loosens and field == "tools")
                yield from self._of_tool(f"`{clause}.{field}`", name, loosens)
        yield from _unknown(
            f"`{clause}.labels` has '{{}}', a label of no tool and no rule.", match.labels, self._labels
        )
        yield from _unknown(f"`{clause}.agents` has '{{}}', which is no agent.", match.agents, self._vocabulary.agents)

    def _of_tool(self, location: str, name: str, loosens: bool) -> Iterator[str]:
        """Yield that there is no such tool, that several are meant, or that a clash of names alone makes it one.

        Where it loosens the policy, also that an MCP server chose the name.
        """
        names = ToolNames([name])
        meant = {tool.identity: tool for tool in self._vocabulary.tools if tool.is_listed(names)}
        if not meant:
            yield from _unknown(f"{location} has '{{}}', which is no tool.", [name], self._tool_names(name))
        elif name.startswith(PREFIX):
            return
        elif "*" in name or "?" in name:
            if loosens and all(meant):
                yield f"{location} has '{name}', {_chosen(meant)}"
        elif len(meant) > 1:
            which = ", ".join(sorted(identity or f"{tool.name} of no MCP server" for identity, tool in meant.items()))
            several = f"{location} has '{name}', which several tools are called"
            yield f"{several}: {which[:400]}. Write the one that is meant."
        elif (identity := next(iter(meant))) and name not in own_names(identity):
            beside = f"{location} has '{name}', which {identity} is called only beside a tool of its name"
            yield f"{beside}. Write {identity}."
        elif identity and loosens:
            yield f"{location} has '{name}', {_chosen(meant)}"

    def _tool_names(self, like: str) -> set[str]:
        if like.startswith(PREFIX):
            return {tool.identity for tool in self._vocabulary.tools if tool.identity}
        return {tool.name for tool in self._vocabulary.tools}

    def _of_arguments(self) -> Iterator[str]:
        """Yield the arguments that no tool has which the rule is about."""
        fields, tools = self._rule.fields, self._vocabulary.tools
        if fields.when.tools is not None:
            tools = tuple(tool for tool in tools if tool.is_listed(ToolNames(fields.when.tools)))
        argument_sets = [tool.arguments for tool in tools if tool.arguments is not None]
        if not tools or len(argument_sets) < len(tools):
            return
        names = [
            *(name for source in self._sources for name in _arguments_in(source)),
            *fields.arguments,
            *fields.computed,
        ]
        of = tools[0].name if len(tools) == 1 else f"the {len(tools)} tools that the rule is about"
        yield from _unknown(f"'{{}}' is no argument of {of}.", names, frozenset[str]().union(*argument_sets))

    def _of_names_compared(self) -> Iterator[str]:
        """Yield the names to which the condition compares `tool` so that it loosens, and which an MCP server chose."""
        condition = self._rule.condition
        if condition is None or "identity" in condition.names:
            return
        for fact, operator, name in _COMPARED.findall(condition.source):
            meant = {tool.identity for tool in self._vocabulary.tools if name in tool.names}
            if fact == TOOL and meant and all(meant) and (operator == "==") is self._loosens:
                yield f"its condition compares `tool` with '{name}', {_chosen(meant)}"

    def _of_texts(self) -> Iterator[str]:
        """Yield the texts to which a condition compares a fact that never has them."""
        by_fact: dict[str, Iterable[str]] = {
            TOOL: frozenset[str]().union(*(tool.names for tool in self._vocabulary.tools)),
            "identity": {"", *self._tool_names(PREFIX)},
            "agent": self._vocabulary.agents,
            "effect": list(Effect),
            "classification": list(Classification),
            "labels": self._labels,
            "roles": list(Role),
        }
        for fact, text in (match for source in self._sources for match in _compared_in(source)):
            verb = "looks for '{}' in" if fact.endswith("s") else "compares '{}' with"
            yield from _unknown(f"its condition {verb} `{fact}`, where it never is.", [text], by_fact[fact])

    @property
    def _sources(self) -> list[str]:
        fields = self._rule.fields
        return [*fields.computed.values(), *([] if fields.condition is None else [fields.condition])]


def _chosen(identities: Iterable[str]) -> str:
    """Return that a name is one that servers choose, and what to write."""
    listing = ", ".join(sorted(identities)[:MOST_LISTED])
    return (
        f"a name that an MCP server chose and another one can choose, too, and the rule loosens by it. Write {listing}."
    )


def _unknown(sentence: str, listed: Iterable[str] | None, candidates: Iterable[str]) -> Iterator[str]:
    """Yield the sentence, with the name in the place of ``{}``, for each name or pattern that fits nothing known."""
    names = sorted(candidates)
    listing = ", ".join(filter(None, names[:MOST_LISTED])) + (", …" if len(names) > MOST_LISTED else "")
    for name in listed or ():
        if not any(fnmatchcase(candidate, name) for candidate in names):
            yield f"{sentence.format(name)}{did_you_mean(name, names)} There are: {listing or 'none'}."


def _arguments_in(source: str) -> Iterator[str]:
    yield from _DOTTED.findall(split_texts(source).bare)
    yield from _INDEXED.findall(source)
    yield from (text for text, fact in _SOUGHT.findall(source) if fact == "arguments")


def _compared_in(source: str) -> Iterator[tuple[str, str]]:
    yield from ((fact, text) for fact, _, text in _COMPARED.findall(source))
    yield from ((fact, text) for text, fact in _SOUGHT.findall(source) if fact != "arguments")
