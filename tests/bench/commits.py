"""How often a run commits, beside the boundary rule: accept, claim, the first start, and once behind each step.

    PYTHONPATH=. .venv/bin/python -m tests.bench.commits [--quick] [--json]

Nothing is timed here: commits are counted where SQLAlchemy does them, and distinguished by what they wrote. What a
process does for itself (its heartbeats) is listed, and belongs to no run.
"""

from __future__ import annotations

import contextlib
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from config.settings import Settings
from tests.bench.command import Effort, run, say
from tests.bench.report import Bar, Figure, Report
from tests.model_server import Call, ModelServer, Turn

if TYPE_CHECKING:
    from agents.runner import Runner
    from config.database.engine import Database

BEFORE_STEPS = 3
"""Commits that belong to no step: accept, claim, and the start of the first step."""
SHORT, LONG = 40, 400
"""Chunks of two answers; what the long one commits more, the chunks cost."""
SUM = "17*23"


@dataclass(frozen=True, kw_only=True, slots=True)
class Reference:
    """A run whose commits are known beforehand."""

    name: str
    turns: Sequence[Turn]
    steps: int
    """Model calls and tool calls."""

    @property
    def by_rule(self) -> int:
        """Each step's result shares its commit with the next step's start, or with the end."""
        return BEFORE_STEPS + self.steps


def measure(effort: Effort) -> Report:
    """Return the commits of a chat, of two tools one after the other, and of two at once; and a chunk's."""
    with _open() as (runner, server, counted):
        _commits(runner, server, counted, _chat("warm-up", 3))  # imports LiteLLM, for longer than a heartbeat waits
        figures = [_beside_the_rule(reference, runner, server, counted) for reference in _references()]
        short, long = (_commits(runner, server, counted, _chat(f"{chunks} chunks", chunks)) for chunks in (SHORT, LONG))
    per_chunk = (sum(long.values()) - sum(short.values())) / (LONG - SHORT)
    figures.append(Figure(name="commits a chunk", unit="", rounds=[per_chunk], bar=Bar(compares="figure", limit=0)))
    details = {"short": short, "long": long}
    return Report(name="commits", title="Commits, beside the boundary rule", figures=figures, details=details)


def _beside_the_rule(reference: Reference, runner: Runner, server: ModelServer, counted: Counted) -> Figure:
    commit_counts = _commits(runner, server, counted, reference)
    say(f"{reference.name}: {sum(commit_counts.values())} commits for {reference.steps} steps, {dict(commit_counts)}")
    return Figure(
        name=f"commits of a run: {reference.name}",
        unit="",
        rounds=[float(sum(commit_counts.values()))],
        references=[float(reference.by_rule)],
        bar=Bar(compares="difference", limit=1.0 * reference.steps),
        note=f"{reference.steps} step{'s' * (reference.steps != 1)}; at most one more a step",
    )


def _references() -> list[Reference]:
    def call(number: int) -> Call:
        return Call(name="calculator", arguments={"expression": SUM}, id=f"call_{number}")

    answer = Turn(text="It is 391.")
    return [
        _chat("chat", 10),
        Reference(
            name="two tools, one after the other",
            steps=5,
            turns=[Turn(text="First.", calls=[call(1)]), Turn(text="Then.", calls=[call(2)]), answer],
        ),
        Reference(name="two tools at once", steps=4, turns=[Turn(text="Both.", calls=[call(1), call(2)]), answer]),
    ]


def _chat(name: str, chunks: int) -> Reference:
    return Reference(name=name, steps=1, turns=[Turn(text=[f"{number} " for number in range(chunks)])])


def _commits(runner: Runner, server: ModelServer, counted: Counted, reference: Reference) -> Counter[str]:
    """Return the commits of one run, by what they wrote first."""
    server.script(reference.turns)
    counted.begin()
    end = runner.run("Count, please.", "bench").result(30)
    assert end.status == "succeeded", end
    runner.settle(10)
    return counted.of_the_run()


class Counted:
    """Sees every commit of a database, and what the transaction wrote."""

    _OF_THE_PROCESS = ("workers",)

    def __init__(self, database: Database) -> None:
        from sqlalchemy import event

        self._found: Counter[str] = Counter()
        self._written: dict[int, str] = {}
        event.listen(database.engine, "before_cursor_execute", self._look)
        event.listen(database.engine, "commit", self._count)
        event.listen(database.engine, "rollback", self._forget)

    def begin(self) -> None:
        """Forget what was counted."""
        self._found.clear()

    def of_the_run(self) -> Counter[str]:
        """Return the commits that are not the process's own."""
        return Counter({what: n for what, n in self._found.items() if what.split()[-1] not in self._OF_THE_PROCESS})

    def _look(self, connection: Any, _cursor: Any, statement: str, *_: Any) -> None:
        words = statement.split()
        verb = words[0].lower()
        if verb in ("insert", "update", "delete"):
            table = words[1 if verb == "update" else 2]
            self._written.setdefault(id(connection.connection.dbapi_connection), f"{verb} {table}")

    def _count(self, connection: Any) -> None:
        self._found[self._written.pop(id(connection.connection.dbapi_connection), "nothing")] += 1

    def _forget(self, connection: Any) -> None:
        self._written.pop(id(connection.connection.dbapi_connection), None)


@contextlib.contextmanager
def _open() -> Iterator[tuple[Runner, ModelServer, Counted]]:
    from agents.runner import Runner
    from config.database.migrate import migrate

    with tempfile.TemporaryDirectory(prefix="cbbench") as name, ModelServer() as server:
        folder = Path(name)
        (folder / "bench.yaml").write_text(
            f"name: Bench\nmodel: openai/gpt-5-mini\napi_base: {server.url}\nsystem_prompt: Count.\n"
            "tools: [calculator]\n"
        )
        settings = Settings(state_dir=folder / "state", agents_dir=str(folder))
        migrate(settings)
        runner = Runner.open(settings)
        try:
            yield runner, server, Counted(runner.journal.database)
        finally:
            runner.close()


if __name__ == "__main__":
    run(measure, __doc__)
