"""Prints what telling one payload to an observer costs the thread that tells it, in microseconds.

    PYTHONPATH=. .venv/bin/python tests/bench/observer_cost.py

A call of a method that does nothing is printed first: what is above it is the invoker's.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from functools import partial

from bus.payloads import Payload, ResponsePayload
from observers.base import AgentFacts, AgentObserver, RunFacts
from observers.invoker import ObserverInvoker, drain

PAYLOADS = 20_000
ROUNDS = 9
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


def median_us(tell: Callable[[], object], rest: Callable[[], object] = lambda: None) -> float:
    """Return the median cost of one ``tell`` over the rounds; ``rest`` runs between them, unmeasured."""
    costs = []
    for _ in range(ROUNDS):
        started = time.thread_time()
        for _ in range(PAYLOADS):
            tell()
        costs.append((time.thread_time() - started) / PAYLOADS * 1e6)
        rest()
    return statistics.median(costs)


def main() -> None:
    """Measure each kind of observer and print a line for it."""
    payload = ResponsePayload(content="a piece of text", message_id="msg_1", seq=1)
    direct = Inline().on_response
    print(f"{'a direct call':32} {median_us(partial(direct, AGENT, payload, RUN)):6.3f} µs")
    audiences: dict[str, list[type[AgentObserver]]] = {
        "no observer": [],
        "one inline": [Inline],
        "one inline and pinned": [Pinned],
        "three inline": [Inline, Inline, Inline],
        "one queued": [Queued],
        "one that wants no pieces": [Committed],
    }
    for label, kinds in audiences.items():
        invoker = ObserverInvoker([kind() for kind in kinds])
        tell = invoker.agent_on_response
        cost = median_us(partial(tell, RUN, AGENT, payload), lambda: drain(30))
        print(f"{label:32} {cost:6.3f} µs")


if __name__ == "__main__":
    main()
