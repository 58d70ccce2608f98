"""The chain of `workflow_cost` in LangGraph and in DBOS, each as its own documentation has it; run in their own venv.

    python -P tests/bench/workflow_peers.py langgraph|dbos FOLDER STEPS

Each line of standard input is a number of runs; the answer is a line with the milliseconds of each. Nothing of this
project is imported here, and these packages are not among its own.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import time
from collections.abc import Callable
from typing import Any, TypedDict


class State(TypedDict):
    """What each step is given and returns; the names of its fields are the graph's channels."""

    count: int
    text: str


INPUT: State = {"count": 0, "text": "a text of some length"}


def langgraph(folder: str, steps: int) -> Callable[[], State]:
    """Return a run of a StateGraph with a SqliteSaver; its durability is the default."""
    graphs = importlib.import_module("langgraph.graph")
    saver = importlib.import_module("langgraph.checkpoint.sqlite").SqliteSaver
    graph = graphs.StateGraph(State)
    names = [f"n{number}" for number in range(steps)]
    for number, name in enumerate(names):
        graph.add_node(name, _adds if number % 2 == 0 else _passes)
    for source, target in zip([graphs.START, *names], [*names, graphs.END], strict=True):
        graph.add_edge(source, target)
    connection: Any = saver.from_conn_string(os.path.join(folder, "langgraph.db"))
    application = graph.compile(checkpointer=connection.__enter__())
    threads = iter(range(1_000_000))

    def run() -> State:
        config = {"configurable": {"thread_id": str(next(threads))}, "recursion_limit": steps + 10}
        state: State = application.invoke(INPUT, config)
        return state

    run.__dict__["open"] = connection  # closed where nothing refers to it
    return run


def dbos(folder: str, steps: int) -> Callable[[], State]:
    """Return a run of a workflow whose steps are recorded in SQLite, which is the default."""
    application = importlib.import_module("dbos").DBOS
    url = f"sqlite:///{os.path.join(folder, 'dbos.db')}"
    application(config={"name": "bench", "system_database_url": url, "run_admin_server": False, "log_level": "ERROR"})
    adds, passes = application.step()(_adds), application.step()(_passes)

    def chain(state: State) -> State:
        for number in range(steps):
            state = adds(state) if number % 2 == 0 else passes(state)
        return state

    workflow: Callable[[State], State] = application.workflow()(chain)
    application.launch()
    return lambda: workflow(INPUT)


def _adds(state: State) -> State:
    return {"count": state["count"] + 1, "text": state["text"]}


def _passes(state: State) -> State:
    return state


def main() -> None:
    """Answer each line until there are no more."""
    kind, folder, steps = sys.argv[1], sys.argv[2], int(sys.argv[3])
    run = {"langgraph": langgraph, "dbos": dbos}[kind](folder, steps)
    for line in sys.stdin:
        times = []
        for _ in range(int(line)):
            began = time.perf_counter()
            state = run()
            times.append((time.perf_counter() - began) * 1000)
            assert state["count"] == (steps + 1) // 2, state
        print(json.dumps(times), flush=True)
    os._exit(0)  # DBOS has threads that do not end by themselves


if __name__ == "__main__":
    main()
