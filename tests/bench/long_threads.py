"""How long the first token takes in a thread of 10 000 messages that was summarised, beside a new thread.

    PYTHONPATH=. .venv/bin/python -m tests.bench.long_threads [--quick] [--json]

The synchronous route in this process, SQLite. The model answers at once, so that its own time is none: once in this
process, where all that is measured is Callboard's, and once through LiteLLM over HTTP to another process. The summary
is made as a worker makes it, after a turn and before the turns that are measured.
"""

from __future__ import annotations

import statistics
import time
from typing import TYPE_CHECKING

from agents.memory.compaction import compactions
from agents.models.scripted import ScriptedModel, Turn
from bus.messages.run_agent import RunAgentMessage
from bus.payloads import Payload, ResponsePayload
from handlers.run_agent import run_agent
from observers.base import AgentFacts, AgentObserver, RunFacts
from tests.bench.command import Effort, run
from tests.bench.long_prompts import fill, open_runner
from tests.bench.report import Bar, Figure, Report

if TYPE_CHECKING:
    from agents.runner import Runner

MESSAGES, THREADS = 10_000, 5
SCRIPTED = "name: Scripted\nmodel: {}\nsystem_prompt: Talk.\n"
AGENTS = {"scripted": "a model in this process", "talker": "LiteLLM over HTTP"}


class FirstToken(AgentObserver):
    """Notes when the first piece of an answer comes."""

    inline = True

    def __init__(self) -> None:
        self.at_s: float | None = None

    def on_response(self, agent: AgentFacts, payload: Payload, context: RunFacts) -> None:
        if self.at_s is None and isinstance(payload, ResponsePayload):
            self.at_s = time.perf_counter()


def measure(effort: Effort) -> Report:
    """Return the first token behind a summary beside that of a new thread, through each kind of model."""
    messages, turns = effort.pick(MESSAGES, 1_200), effort.pick(10, 3)
    figures, model = [], ScriptedModel()
    model.respond = lambda call: Turn(text="They counted.")
    with open_runner() as runner:
        (runner.settings.agent_folders[0] / "scripted.yaml").write_text(SCRIPTED.format(model.name))
        for agent_id, how in AGENTS.items():
            first_token_ms(runner, agent_id, "warm-up")  # imports LiteLLM
            rounds = [one_round(runner, agent_id, number, messages, turns) for number in range(effort.rounds)]
            figures.append(
                Figure(
                    name=f"the first token in a thread of {messages:,} messages, beside a new one: {how}",
                    unit="ms",
                    rounds=[figure for figure, _ in rounds],
                    references=[reference for _, reference in rounds],
                    bar=Bar(compares="ratio", limit=1.1),
                    note=f"median of {THREADS * turns} turns",
                )
            )
    return Report(name="long_threads", title="Long threads that were summarised (SQLite)", figures=figures)


def one_round(runner: Runner, agent_id: str, number: int, messages: int, turns: int) -> tuple[float, float]:
    """Return the medians of turns of long threads and of new ones, taken in turn; a long one grows by few turns."""
    long, new = list[float](), list[float]()
    for thread in range(THREADS):
        thread_id = f"long-{agent_id}-{number}-{thread}"
        first_token_ms(runner, agent_id, thread_id)
        fill(runner, thread_id, messages)
        summarise(runner, agent_id, thread_id)
        for turn in range(turns):
            long.append(first_token_ms(runner, agent_id, thread_id))
            new.append(first_token_ms(runner, agent_id, f"new-{thread_id}-{turn}"))
    return statistics.median(long), statistics.median(new)


def summarise(runner: Runner, agent_id: str, thread_id: str) -> None:
    """Have this process take a turn of the thread as a worker does, and return when it has summarised the thread."""
    handle = runner.run("And then?", agent_id, thread_id=thread_id, detached=True)
    run_agent(RunAgentMessage.of_run(runner.journal.readers.runs.row(runner.principal, handle.run_id)).to_wire())
    runner.journal.loop.run(compactions().settled())
    assert runner.journal.stores.summaries.of_thread(runner.principal, thread_id), "there is no summary"


def first_token_ms(runner: Runner, agent_id: str, thread_id: str) -> float:
    """Return how long the first token of a turn takes, from the sentence on."""
    observer, began_s = FirstToken(), time.perf_counter()
    end = runner.run("And then?", agent_id, thread_id=thread_id, observers=[observer]).result(120)
    assert end.status == "succeeded", end
    assert observer.at_s is not None
    return (observer.at_s - began_s) * 1000


if __name__ == "__main__":
    run(measure, __doc__)
