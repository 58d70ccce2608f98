"""What a turn costs that shows the model a long conversation, beside the same turn of a new thread.

    PYTHONPATH=. .venv/bin/python -m tests.bench.long_prompts [--quick] [--json]

The synchronous route in this process, SQLite, LiteLLM over HTTP to a model server that is another process. The
conversation is written into the thread at once; then both threads take turns.
"""

from __future__ import annotations

import contextlib
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson
from sqlalchemy import insert, select, update

from config.clock import epoch_ms
from config.database.tables import messages, threads
from config.ids import new_id
from config.settings import Settings
from tests.bench.command import Effort, run
from tests.bench.processes import model_server
from tests.bench.report import Bar, Figure, Report

if TYPE_CHECKING:
    from agents.runner import Runner

MESSAGES = 1_082
CHARS_EACH = 140
"""About 185 KB together, as SQL keeps them."""
AGENT = "name: Talker\nmodel: openai/bench-tool\napi_base: {url}\nsystem_prompt: Talk.\n"


def measure(effort: Effort) -> Report:
    """Return a turn behind a long conversation beside one of a new thread."""
    turns = effort.pick(30, 5)
    with open_runner() as runner:
        turn_ms(runner, "warm_up")  # imports LiteLLM
        turn_ms(runner, "long")
        fill(runner, "long", MESSAGES)
        rounds: dict[str, list[float]] = {"long": [], "new": []}
        for number in range(turns):
            rounds["long"].append(turn_ms(runner, "long"))
            rounds["new"].append(turn_ms(runner, f"new-{number}"))
    figure = Figure(
        name=f"a turn that shows the model {MESSAGES:,} messages, beside one of a new thread",
        unit="ms",
        rounds=rounds["long"],
        references=rounds["new"],
        bar=Bar(compares="figure", limit=80),
        note=f"{turns} turns",
    )
    return Report(name="long_prompts", title="Long prompts (SQLite)", figures=[figure])


def turn_ms(runner: Runner, thread_id: str) -> float:
    """Return how long one turn of the thread takes, from the sentence to its end."""
    began_s = time.perf_counter()
    end = runner.run("And then?", "talker", thread_id=thread_id).result(120)
    assert end.status == "succeeded", end
    return (time.perf_counter() - began_s) * 1000


def fill(runner: Runner, thread_id: str, count: int) -> None:
    """Write so many messages into a thread that has had a turn, in front of the next one."""
    with runner.journal.database.write() as connection:
        thread = connection.execute(select(threads).where(threads.c.id == thread_id)).one()
        rows = [_row(thread, number) for number in range(count)]
        connection.execute(insert(messages), rows)
        connection.execute(
            update(threads).values(next_message=thread.next_message + count).where(threads.c.key == thread.key)
        )


def _row(thread: Any, number: int) -> dict[str, Any]:
    return {
        "thread_key": thread.key,
        "number": thread.next_message + number,
        "turn": thread.next_message + number // 2 * 2,
        "run_id": "run_of_nobody",
        "id": new_id("msg"),
        "role": ("user", "assistant")[number % 2],
        "data_json": orjson.dumps({"content": f"{number} {'x' * CHARS_EACH}"}).decode(),
        "partial": False,
        "created_ms": epoch_ms(),
    }


@contextlib.contextmanager
def open_runner() -> Iterator[Runner]:
    """Open a runner over a model server and a database of its own."""
    from agents.runner import Runner
    from config.database.migrate import migrate

    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="cbbench")))
        url = stack.enter_context(model_server(folder))
        (folder / "talker.yaml").write_text(AGENT.format(url=url))
        settings = Settings(state_dir=folder / "state", agents_dir=str(folder))
        migrate(settings)
        runner = Runner.open(settings)
        stack.callback(runner.close)
        stack.callback(runner.settle, 10)
        yield runner


if __name__ == "__main__":
    run(measure, __doc__)
