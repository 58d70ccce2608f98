"""What the toolbox costs a call of a tool: every check, beside the executor alone.

PYTHONPATH=. .venv/bin/python -m tests.bench.toolbox_cost [--rounds 3] [--quick] [--json]
"""

from __future__ import annotations

import tempfile
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import orjson

from agents.catalogue import as_tool
from agents.context import RunContext
from agents.governance.guardrails.guardrails import Guardrails
from agents.governance.policy.policy_yaml import PolicySource
from agents.models.streams.tool_calls import ToolCall
from agents.prompt import Window
from agents.steps.tool_step import ToolStep
from agents.testing import AgentKit
from agents.tools import Tool, tool
from agents.tools.call_context import ToolContext
from agents.tools.execution.executor import call_tool
from agents.tools.isolation.call_folder import CallSandbox
from agents.tools.spans.hooks import enable_hooks, remove_hooks
from bus.gc_tuning import freeze_gc
from bus.journal import Journal
from bus.journal.owner import Past
from config.definitions.guardrails.checks import Checks, GuardrailFields
from tests.bench.command import Effort, run, say
from tests.bench.report import Bar, Figure, Report
from tests.bus.journal_harness import new_run

BAR_US = 150
RULES, MANY_RULES = 5, 50
"""Rules with a condition that are about the tool, beside those that ship."""
ARGUMENTS = {"city": "Lisbon", "days": 3, "units": "metric"}


@tool(effect="pure")
async def forecast(city: str, days: int, units: str = "metric") -> dict[str, Any]:
    """Say how the weather will be."""
    return {"city": city, "days": [{"high": 21.5, "low": 12.0, "sky": "clear"}] * days, "units": units}


@tool(effect="pure")
def forecast_on_a_thread(city: str, days: int, units: str = "metric") -> dict[str, Any]:
    """Say how the weather will be, by a function that may block."""
    return {"city": city, "days": [{"high": 21.5, "low": 12.0, "sky": "clear"}] * days, "units": units}


SCHEMA = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "days": {"type": "array"}, "units": {"enum": ["metric", "imperial"]}},
    "required": ["city", "days"],
}


@dataclass(frozen=True, kw_only=True, slots=True)
class _Checked:
    """A run whose calls pass everything, and a tool of it."""

    context: RunContext
    tool: Tool

    async def call(self) -> None:
        """Make one call as an agent does, without its commits."""
        tool_call = ToolCall(id="call_1", name=self.tool.name, arguments_text=orjson.dumps(ARGUMENTS).decode())
        step = ToolStep(self.context, tool_call, {self.tool.name: self.tool}, 60)
        await step.ask_engine()
        step.call_event("msg_1")
        step.started().row()
        await step.run()
        if step.outcome("msg_1").ended[0].status != "done":
            raise AssertionError(f"the call was not made: {step.work.end}")

    async def bare(self, into: ToolContext) -> None:
        await call_tool(self.tool, ARGUMENTS, into, 60)


def measure(effort: Effort) -> Report:
    """Return the cost of a call, of an async tool and of a plain one."""
    with tempfile.TemporaryDirectory() as folder, AgentKit() as kit:
        journal = kit.runner.journal
        few, many = (journal.loop.run(_context(journal, Path(folder), rules)) for rules in (RULES, MANY_RULES))
        enable_hooks()
        freeze_gc()  # as a worker does
        try:
            figures = [
                _figure(journal, few, forecast, effort, "an async tool", Bar(compares="difference", limit=BAR_US)),
                _figure(journal, many, forecast, effort, f"the same, {MANY_RULES} rules about it"),
                _figure(journal, few, forecast_on_a_thread, effort, "a plain tool, on its thread"),
            ]
        finally:
            remove_hooks()
    return Report(name="toolbox_cost", title="What the toolbox costs a call of a tool", figures=figures)


async def _context(journal: Journal, folder: Path, count: int) -> RunContext:
    """Return a run with a policy of so many rules, and guardrails for personal data."""
    accepted = await journal.loop.write(journal.clients.accept, new_run())
    lease = await journal.owner.claim(accepted.run_id)
    assert lease is not None
    context = RunContext(journal, lease, (), Window(Past(items=()), 1000))
    rules = [
        f"- {{name: rule-{number}, when: {{tools: [forecast*]}}, condition: arguments.days > {number + 100}, "
        "verdict: block, reason: No.}"
        for number in range(count)
    ]
    file = folder / f"policy-{count}.yaml"
    file.write_text("rules:\n" + "".join(f"  {rule}\n" for rule in rules))
    context.policy = PolicySource((file,)).current()
    context.guardrails = Guardrails(GuardrailFields(output=Checks(pii="redact")))
    return context


def _figure(
    journal: Journal, context: RunContext, function: Any, effort: Effort, name: str, bar: Bar | None = None
) -> Figure:
    checked = _Checked(context=context, tool=replace(as_tool(function), output_schema=SCHEMA))
    into = ToolContext(
        run_id="run_1",
        thread_id="thr_1",
        call_id="call_1",
        idempotency_key="key_1",
        tenant="default",
        principal="local",
        files=CallSandbox(Path("/")),
    )
    count, rounds, references = effort.pick(2000, 50), [], []
    journal.loop.run(_each_us(checked, into, 50))
    for _ in range(effort.rounds):
        mine, beside = journal.loop.run(_each_us(checked, into, count))
        rounds.append(mine)
        references.append(beside)
    say(f"{name}: {rounds[-1]:.0f} µs, {references[-1]:.0f} µs by the executor alone")
    note = f"CPU time without commits; {RULES} rules with conditions, output schema, personal data redacted, spans"
    return Figure(
        name=f"a call of {name}",
        unit="µs",
        rounds=rounds,
        references=references,
        bar=bar,
        note=note if bar is not None else "",
    )


async def _each_us(checked: _Checked, into: ToolContext, count: int) -> tuple[float, float]:
    """Return the CPU time of a call through the toolbox, and of one by the executor, made in turns."""
    mine = beside = 0.0
    for _ in range(count):
        began = time.process_time()
        await checked.call()
        between = time.process_time()
        await checked.bare(into)
        mine, beside = mine + between - began, beside + time.process_time() - between
    return mine / count * 1e6, beside / count * 1e6


if __name__ == "__main__":
    run(measure, __doc__)
