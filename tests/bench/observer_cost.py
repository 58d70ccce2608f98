"""What telling one payload to an observer costs the thread that tells it, beside a call of a method that does nothing.

PYTHONPATH=. .venv/bin/python -m tests.bench.observer_cost [--rounds 3] [--quick] [--json]
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial

from bus.payloads import Payload, ResponsePayload
from observers.base import AgentFacts, AgentObserver, RunFacts
from observers.invoker import ObserverInvoker, drain
from tests.bench.command import Effort, run
from tests.bench.report import Figure, Report

PAYLOADS = 20_000
AGENT = AgentFacts(id="assistant", name="Assistant", model="demo/assistant")
RUN = RunFacts(run_id="run_1", thread_id="thr_1")


class Inline(AgentObserver):
    inline = True

    def on_response(self, agent: AgentFacts, payload: Payload, context: RunFacts) -> None:
        """Do nothing."""


class Pinned(Inline):
    pinned = True


class Queued(Inline):
    inline = False
    max_queue = PAYLOADS


class Committed(Queued):
    wants_deltas = False


def costs_us(tell: Callable[[], object], rounds: int, rest: Callable[[], object] = lambda: None) -> list[float]:
    """Return the cost of one ``tell`` in each round; ``rest`` runs between them, unmeasured."""
    costs = []
    for _ in range(rounds):
        started = time.thread_time()
        for _ in range(PAYLOADS):
            tell()
        costs.append((time.thread_time() - started) / PAYLOADS * 1e6)
        rest()
    return costs


def measure(effort: Effort) -> Report:
    """Return the cost of an event for each kind of observer."""
    payload = ResponsePayload(content="a piece of text", message_id="msg_1", seq=1)
    rounds = effort.pick(3 * effort.rounds, 1)
    direct = costs_us(partial(Inline().on_response, AGENT, payload, RUN), rounds)
    audiences: dict[str, list[type[AgentObserver]]] = {
        "no observer": [],
        "one inline": [Inline],
        "one inline and pinned": [Pinned],
        "three inline": [Inline, Inline, Inline],
        "one queued": [Queued],
        "one that wants no pieces": [Committed],
    }
    figures = []
    for label, kinds in audiences.items():
        tell = ObserverInvoker([kind() for kind in kinds]).agent_on_response
        costs = costs_us(partial(tell, RUN, AGENT, payload), rounds, lambda: drain(30))
        figures.append(Figure(name=label, unit="µs", rounds=costs, references=direct, note="beside a direct call"))
    return Report(name="observer_cost", title="What an event costs the thread that tells observers", figures=figures)


if __name__ == "__main__":
    run(measure, __doc__)
