"""The section ``config:`` of each node type."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any, ClassVar, Literal

from pydantic import AfterValidator, Field, PrivateAttr, field_validator, model_validator

from config.definitions.agent import AGENT_ID, TOOL_LINE
from config.definitions.model_fields import OURS, Seconds, Section, Text
from config.definitions.schemas.json_schema import SchemaRefused, check_schema
from config.definitions.secrets import require_no_credentials
from config.definitions.workflows.graph import BODY, BRANCH, DEFAULT, NEXT
from config.expressions.node_expression import NodeExpression
from config.expressions.rules import Rule, Rules
from config.expressions.templates import Template, templates_in

MAX_CHOICES = 50
"""Most branches of one CHOICE or CHOICE_LLM."""
BATCH = 20
"""Items of a FOR_EACH that are worked on at once; the seed names no number."""


def _is_template(value: str) -> str:
    Template(value)
    return value


def has_templates(value: Any) -> Any:
    """Return data whose texts are templates that can be used."""
    for _, text in templates_in(value):
        Template(text)
    return value


def _is_expression(value: str) -> str:
    NodeExpression(value, is_boolean=False)
    return value


def _is_schema(value: dict[str, Any] | None) -> dict[str, Any] | None:
    try:
        check_schema(value or {})
    except SchemaRefused as error:
        raise ValueError(str(error).rstrip(".")) from error
    return value


def _is_no_items(name: str) -> str:
    if re.search(r"-[0-9]+$", name):
        raise ValueError(f"ends like the name of an item's signal, `paid-17`; write `{name.replace('-', '_')}`")
    return name


TemplateText = Annotated[str, Field(min_length=1, max_length=100_000), AfterValidator(_is_template)]
"""Text with templates, ``Order {{ input.id }}``; one that is a single template gives that value itself."""
TemplateData = Annotated[Any, AfterValidator(has_templates)]
"""JSON data whose texts are templates."""
CelText = Annotated[str, Field(min_length=1, max_length=10_000), AfterValidator(_is_expression)]
"""An expression in CEL."""
Schema = Annotated[dict[str, Any], AfterValidator(_is_schema)]
"""JSON Schema 2020-12."""
SignalName = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_.-]{0,63}$"), AfterValidator(_is_no_items)]
"""The name of a signal; inside of a FOR_EACH the index of the item follows it, so no other name ends like that."""


class NodeConfig(Section):
    """The base: a node that chooses no branch."""

    templates: ClassVar[tuple[str, ...]] = ()
    """The fields whose texts are templates."""
    expressions: ClassVar[tuple[str, ...]] = ()
    """The fields that are CEL."""

    @property
    def references(self) -> frozenset[str] | None:
        """The nodes whose outputs it reads; None: any that it may read."""
        texts = (text for name in self.templates for _, text in templates_in(getattr(self, name)))
        sources = (getattr(self, name) for name in self.expressions)
        read = [Template(text).nodes for text in texts]
        read += [NodeExpression(source, is_boolean=False).nodes for source in sources if source is not None]
        return union(read)

    @property
    def branches(self) -> Sequence[str] | None:
        """The handles that the node's outcome chooses from; None: it chooses none."""
        return None

    @property
    def asks_model(self) -> bool:
        """Whether the node asks the workflow's own model."""
        return False


def union(parts: Iterable[frozenset[str] | None]) -> frozenset[str] | None:
    """Return all nodes that several expressions read; None where one may read any."""
    read: frozenset[str] = frozenset()
    for part in parts:
        if part is None:
            return None
        read |= part
    return read


class StartConfig(NodeConfig):
    """START: its output is the run's input."""


class EndConfig(NodeConfig):
    templates = ("output",)

    output: TemplateData = None
    """The run's output; none: the output of the node before it, or of each by its id."""


class TransformConfig(NodeConfig):
    templates = ("output",)

    output: TemplateData
    """Data with templates."""


class FunctionConfig(NodeConfig):
    templates = ("arguments",)

    tool: Annotated[str, Field(pattern=TOOL_LINE, max_length=200)]
    """A line as in an agent's `tools:`: a tool, a capability, `mcp:server/tool`, `celery:task`, `agent:ID`."""
    arguments: Annotated[dict[str, Any], AfterValidator(has_templates)] = Field(default_factory=dict)


class _Asking(NodeConfig):
    """What a node says of the model that it asks."""

    templates = ("prompt", "system")

    prompt: TemplateText
    system: TemplateText | None = None
    model: Text | None = None
    """None: the workflow's."""
    params: dict[str, Any] = Field(default_factory=dict)
    """Passed to the model, over the workflow's."""

    @property
    def asks_model(self) -> bool:
        return self.model is None

    @field_validator("params")
    @classmethod
    def _params_are_the_models(cls, value: dict[str, Any]) -> dict[str, Any]:
        for name in value:
            if name in OURS:
                raise ValueError(f"`{name}` is Callboard's to set: {OURS[name]}")
        require_no_credentials(value)
        return value


class LLMConfig(_Asking):
    output_schema: Schema | None = None
    """What the answer has to fit; the output is data then."""


class ConditionFields(Section):
    """A condition: CEL, one rule as `field`, `operator` and `value`, or a list of rules under `all` or `any`."""

    condition: Annotated[str, Field(min_length=1, max_length=10_000)] | None = None
    rules: Rules | None = None
    _expression: NodeExpression | Rules = PrivateAttr()

    @model_validator(mode="before")
    @classmethod
    def _as_rules(cls, data: Any) -> Any:
        """Write the rule of the first design as a list of one, and lists under `rules`."""
        if not isinstance(data, dict):
            return data
        others = {name: value for name, value in data.items() if name not in ("all", "any", *Rule.model_fields)}
        rule = {name: data[name] for name in Rule.model_fields if name in data}
        lists = {name: data[name] for name in ("all", "any") if name in data}
        if "field" in rule and not lists:
            return {**others, "rules": {"all": [rule]}}
        return {**others, **rule, "rules": lists} if lists else data

    @model_validator(mode="after")
    def _is_one_way(self) -> ConditionFields:
        if (self.condition is None) == (self.rules is None):
            raise ValueError("a condition is either `condition:`, with CEL, or `field:`, `operator:` and `value:`")
        self._expression = self.rules or NodeExpression(self.condition or "")
        return self

    @property
    def nodes(self) -> frozenset[str] | None:
        """The nodes whose outputs it reads; None: any."""
        return self._expression.nodes

    def holds(self, variables: Mapping[str, Any]) -> bool:
        """Return whether it holds.

        Raises:
            ExpressionFailed: it cannot be evaluated with these values.
        """
        return self._expression.holds(variables)


class Branch(ConditionFields):
    """One branch of a CHOICE."""


def numbered(count: int) -> tuple[str, ...]:
    """Return the handles of so many branches, and of the default."""
    return (*(f"{BRANCH}{number}" for number in range(count)), DEFAULT)


class ChoiceConfig(NodeConfig):
    branches_: Annotated[tuple[Branch, ...], Field(min_length=1, max_length=MAX_CHOICES, alias="branches")]
    """The first that holds is taken, as `branch-0`, `branch-1`, ...; none: `default`."""

    @property
    def references(self) -> frozenset[str] | None:
        return union(branch.nodes for branch in self.branches_)

    @property
    def branches(self) -> Sequence[str] | None:
        return numbered(len(self.branches_))


class Option(Section):
    """One answer of a CHOICE_LLM: its name, or a mapping."""

    name: Annotated[str, Field(min_length=1, max_length=80)]
    description: Annotated[str, Field(max_length=500)] = ""
    """For the model."""

    @field_validator("name")
    @classmethod
    def _is_no_answer_of_its_own(cls, name: str) -> str:
        if name.strip().casefold() == "none":
            raise ValueError("`none` is what the model answers where no choice fits; give the choice another name")
        return name

    @model_validator(mode="before")
    @classmethod
    def _may_be_its_name(cls, value: Any) -> Any:
        return {"name": value} if isinstance(value, str) else value


class ChoiceLLMConfig(_Asking):
    choices: Annotated[tuple[Option, ...], Field(min_length=1, max_length=MAX_CHOICES)]
    """What the model chooses from, as `branch-0`, `branch-1`, ...; another answer: `default`."""

    @field_validator("choices")
    @classmethod
    def _are_told_apart(cls, value: tuple[Option, ...]) -> tuple[Option, ...]:
        names = [option.name.casefold() for option in value]
        for option in value:
            if names.count(option.name.casefold()) > 1:
                raise ValueError(f"'{option.name}' is listed twice")
        return value

    @property
    def branches(self) -> Sequence[str] | None:
        return numbered(len(self.choices))


class SubWorkflowConfig(NodeConfig):
    templates = ("input", "output")

    workflow: Annotated[str, Field(pattern=f"^{AGENT_ID.pattern}$")]
    """The id of the workflow that runs as a child."""
    input: Annotated[dict[str, Any] | str, AfterValidator(has_templates)] = Field(default_factory=dict)
    """Its input, a mapping, or a template that gives one."""
    output: TemplateData = None
    """The node's output, from `result`; none: the child's output as it is."""


class ParallelConfig(NodeConfig):
    """PARALLEL: its edges `parallel-0`, `parallel-1`, ... are followed at once."""

    @property
    def branches(self) -> Sequence[str] | None:
        return ()


class WaitConfig(NodeConfig):
    templates = ("seconds",)

    signal: SignalName | None = None
    """The name of the signal that ends it; inside of a FOR_EACH, `NAME-INDEX`."""
    form: Annotated[Schema | None, Field(alias="schema")] = None
    """What the signal's data have to fit; none: anything."""
    seconds: Seconds | TemplateText | None = None
    """After how many seconds it ends by itself; with `signal`, its output is null then."""

    @model_validator(mode="after")
    def _ends(self) -> WaitConfig:
        if self.signal is None and self.seconds is None:
            raise ValueError("a WAIT needs `signal:` or `seconds:`, or it would never end")
        if self.form is not None and self.signal is None:
            raise ValueError("`schema` is of a signal's data; name it as `signal:`")
        return self


class ApprovalGateConfig(NodeConfig):
    templates = ("message", "data")

    message: TemplateText
    """What a person is asked to approve."""
    data: TemplateData = None
    """What is shown with it, and approved by its digest."""
    approvers: Annotated[int, Field(strict=True, ge=1, le=10)] = 1
    """How many persons have to approve."""
    on_expiry: Literal["fail", "reject"] = "fail"


class ForEachConfig(NodeConfig):
    templates = ("items",)

    items: TemplateData
    """A template that gives a list, or a list."""
    at_once: Annotated[int, Field(strict=True, ge=1, le=100)] = BATCH
    """Items that are worked on at the same time."""
    on_item_error: Literal["fail", "collect"] = "fail"
    """`collect`: a failed item's result is `{"error": ...}`, and the others are worked on."""
    spread: Annotated[int, Field(strict=True, ge=0, le=10_000)] = 0
    """How many items are a child run, which any worker takes; 0: the run's own worker works on all."""

    @property
    def branches(self) -> Sequence[str] | None:
        return (BODY, NEXT)


class FilterConfig(ConditionFields, NodeConfig):
    templates = ("items",)

    items: TemplateData
    """A template that gives a list, or a list; the condition sees `item` and `index`."""

    @property
    def references(self) -> frozenset[str] | None:
        return union([super().references, self.nodes])


class ReduceConfig(NodeConfig):
    templates = ("items", "initial", "prompt")
    expressions = ("by", "expression")

    items: TemplateData
    reducer: Literal["sum", "concat", "merge", "group", "first", "llm"] | None = None
    by: CelText | None = None
    """Of `sum` and `group`: an expression of `item`, `item.price`; of `first`: a condition, `item.price > 3`."""
    separator: Annotated[str, Field(max_length=100)] = ""
    """Of `concat`, between two texts."""
    expression: CelText | None = None
    """In place of a reducer: CEL of `total`, `item` and `index`, which gives the next `total`."""
    initial: TemplateData = None
    """The first `total`."""
    prompt: TemplateText | None = None
    """Of `llm`: what the model is asked; it sees `items`."""
    model: Text | None = None

    @property
    def asks_model(self) -> bool:
        return self.reducer == "llm" and self.model is None

    @model_validator(mode="after")
    def _is_one_way(self) -> ReduceConfig:
        if (self.reducer is None) == (self.expression is None):
            raise ValueError("a REDUCE needs either `reducer:` or `expression:`")
        if (self.prompt is None) == (self.reducer == "llm"):
            raise ValueError("`prompt` and the reducer `llm` belong together")
        if self.by is not None and self.reducer not in ("sum", "group", "first"):
            raise ValueError("`by` is of the reducers sum, group and first")
        if self.reducer == "group" and self.by is None:
            raise ValueError("the reducer `group` needs `by:`, for example `by: item.kind`")
        if self.by is not None and self.reducer == "first":
            NodeExpression(self.by)
        return self
