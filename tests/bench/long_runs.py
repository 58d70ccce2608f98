"""Whether a run of 10 000 steps and a thread of 10 000 messages end as quickly, and as small, as they began.

    PYTHONPATH=. .venv/bin/python -m tests.bench.long_runs [--quick] [--json] [--postgres]

Everything is real but the model: the synchronous route in this process, SQLite (or a Postgres of its own), LiteLLM
over HTTP to a model server that is another process. In its last tenth the long one takes turns with a new one, so
that a busy machine slows both. The model is shown 4 000 characters: the window is full at once, and whatever else
grew would show. Each figure is compared with a beginning of the same round, so there is one round always.
"""

from __future__ import annotations

import contextlib
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from os import getpid
from pathlib import Path
from typing import TYPE_CHECKING

from config.settings import Settings
from tests.bench.command import Effort, run, say
from tests.bench.processes import model_server, resident_mib
from tests.bench.report import Bar, Figure, Report
from tests.bench.turns import STRETCH, Turns, use_turns

if TYPE_CHECKING:
    from agents.handle import RunHandle
    from agents.runner import Runner

WINDOW_CHARS = 4_000
STEPS_A_ROUND = 2
"""A model call and a tool call."""
MESSAGES_A_RUN = 2
"""A sentence and its answer."""
MARKS = (10, 50, 100)
"""How many percent are done when this process is weighed."""
_AGENT = """\
name: {name}
model: openai/bench-tool
api_base: {url}
system_prompt: Count.
tools: [{tool}]
max_iterations: {rounds}
history_chars: {window}
compaction: {{enabled: false}}
"""


@dataclass(slots=True)
class Course:
    """How long each round of something took, and how big this process was on the way."""

    total: int
    done: int = 0
    sizes_mib: dict[int, float] = field(default_factory=dict)
    old_ms: list[float] = field(default_factory=list)
    """A round near its end, in each stretch."""
    new_ms: list[float] = field(default_factory=list)
    """A round of the new one, in the stretch beside it."""

    def note(self) -> None:
        """Take down that one more round is over."""
        self.done += 1
        percent = self.done * 100 / self.total
        if percent in MARKS:
            self.sizes_mib[int(percent)] = resident_mib(getpid())
            say(f"{self.done} of {self.total}: {self.sizes_mib[int(percent)]:.0f} MiB")

    def figures(self, what: str, each: str) -> list[Figure]:
        """Return the end beside a beginning, and the size at the end beside that in the middle."""
        after_a_tenth, middle, end = (self.sizes_mib[percent] for percent in MARKS)
        return [
            Figure(
                name=f"{what}: a {each} in its last tenth, beside one of a new one",
                unit="ms",
                rounds=self.old_ms,
                references=self.new_ms,
                bar=Bar(compares="ratio", limit=1.2),
                note=f"in turns, {len(self.old_ms)} times",
            ),
            Figure(
                name=f"{what}: the worker's memory at its end, beside the middle",
                unit="MiB",
                rounds=[end],
                references=[middle],
                bar=Bar(compares="ratio", limit=1.1),
                note=f"{after_a_tenth:.1f} after a tenth",
            ),
        ]


def measure(effort: Effort, *, on_postgres: bool = False) -> Report:
    """Return the ends of a run and of a thread beside their beginnings."""
    steps, messages = effort.pick(10_000, 1_000), effort.pick(10_000, 200)
    rounds, runs = steps // STEPS_A_ROUND, messages // MESSAGES_A_RUN
    with _open(on_postgres, rounds) as runner:
        _start(runner, "warm_up").result(120)  # imports LiteLLM, and fills the first pages of everything
        a_run = _long_run(runner, rounds)
        a_thread = _long_thread(runner, runs)
    figures = [
        *a_run.figures(f"a run of {steps} steps", "round"),
        *a_thread.figures(f"a thread of {messages} messages", "run"),
    ]
    database = "Postgres" if on_postgres else "SQLite"
    return Report(name="long_runs", title=f"Long runs and long threads ({database})", figures=figures)


def _long_run(runner: Runner, rounds: int) -> Course:
    course = Course(rounds)
    tenth = max(rounds // 10, 2 * STRETCH + 1)
    turns = Turns(alone=rounds - tenth, old_rounds=rounds, new_rounds=tenth, on_old_round=course.note)
    use_turns(turns)
    old = _start(runner, "old")
    assert turns.is_time.wait(3600), "the long run did not get to its last tenth"
    new = _start(runner, "new")
    for handle in (old, new):
        end = handle.result(3600)
        assert end.status == "succeeded", end
    use_turns(None)
    assert course.done == rounds, f"{course.done} of {rounds} rounds"
    course.old_ms, course.new_ms = _ms(turns.round_s["old"]), _ms(turns.round_s["new"])
    return course


def _long_thread(runner: Runner, runs: int) -> Course:
    course, times_s = Course(runs), {"old": list[float](), "new": list[float]()}
    for number in range(runs):
        beside = ["old", "new"] if number >= runs - runs // 10 else ["old"]
        for thread in beside if number % 2 else reversed(beside):
            began_s = time.perf_counter()
            end = _start(runner, "talker", thread).result(60)
            assert end.status == "succeeded", end
            if len(beside) > 1:
                times_s[thread].append(time.perf_counter() - began_s)
        course.note()
    course.old_ms, course.new_ms = _ms(times_s["old"]), _ms(times_s["new"])
    return course


def _start(runner: Runner, agent_id: str, thread_id: str | None = None) -> RunHandle:
    return runner.run("Count until you may not.", agent_id, thread_id=thread_id)


def _ms(seconds: Sequence[float]) -> list[float]:
    return [each * 1000 for each in seconds]


@contextlib.contextmanager
def _open(on_postgres: bool, rounds: int) -> Iterator[Runner]:
    from agents.runner import Runner
    from config.database.migrate import migrate

    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="cbbench")))
        url = stack.enter_context(model_server(folder))
        tenth = max(rounds // 10, 2 * STRETCH + 1)
        for name, rounds_of_run in {"warm_up": 10, "old": rounds, "new": tenth, "talker": 1}.items():
            tool = "" if name == "talker" else "tests.bench.turns:next_round"
            text = _AGENT.format(name=name, url=url, tool=tool, rounds=rounds_of_run, window=WINDOW_CHARS)
            (folder / f"{name}.yaml").write_text(text)
        settings = Settings(state_dir=folder / "state", agents_dir=str(folder))
        if on_postgres:
            from tests.backends import PostgresCluster

            cluster = stack.enter_context(PostgresCluster())
            settings = settings.model_copy(update={"database_url": cluster.new_database()})
        migrate(settings)
        runner = Runner.open(settings)
        stack.callback(runner.close)
        stack.callback(runner.settle, 10)
        yield runner


if __name__ == "__main__":
    wants_postgres = "--postgres" in sys.argv
    sys.argv = [argument for argument in sys.argv if argument != "--postgres"]
    run(partial(measure, on_postgres=wants_postgres), __doc__)
