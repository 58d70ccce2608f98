"""What a prompt guard adds to the first token, beside the same agent without one, on a real model server.

    PYTHONPATH=. .venv/bin/python -m tests.bench.prompt_guard [--rounds 3] [--quick] [--json]

The two agents take turns. The model server writes its first token 50 ms after it was asked.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from pathlib import Path

from agents.models.lite import litellm_module
from agents.runner import Runner
from bus.payloads import ResponsePayload
from config.database.migrate import migrate
from config.settings import Settings
from tests.app_harness import write_agent
from tests.bench.command import Effort, run, say
from tests.bench.processes import model_server
from tests.bench.report import Bar, Figure, Report

BAR = 1.1
AGENTS = {
    "without": "",
    "a function": "prompt_guard: tests.bench.prompt_guard:check",
    "the demo model": "prompt_guard: {model: demo/instant}",
}
MODEL = "gpt-bench-5-20"


def check(prompt: str, agent: object, history: object) -> bool:
    """Pass each text at once."""
    return True


def measure(effort: Effort) -> Report:
    """Return the time to the first token with each guard, beside none."""
    litellm_module()
    with tempfile.TemporaryDirectory(prefix="cbbench") as folder, model_server(Path(folder)) as url:
        settings = Settings(
            _env_file=None,  # type: ignore[call-arg]  # pydantic-settings' own
            state_dir=Path(folder) / "state",
            database_url=f"sqlite:///{folder}/callboard.db",
            redis_url=None,
            broker_url=None,
            agents_dir=f"{folder}/agents",
        )
        for name, line in AGENTS.items():
            file = Path(folder) / "agents" / write_agent(Path(folder) / "agents", url, line, name.split()[-1], "openai")
            path = file.with_name(f"{file.name}.yaml")
            path.write_text(path.read_text().replace("gpt-5-mini", MODEL))
        migrate(settings)
        runner = Runner.open(settings)
        figures = _figures(runner, effort)
        runner.settle(10)
        runner.close()
    return Report(name="prompt_guard", title="The first token of an agent with a prompt guard", figures=figures)


def _figures(runner: Runner, effort: Effort) -> list[Figure]:
    rounds: dict[str, list[float]] = {name: [] for name in AGENTS}
    _medians(runner, 3)  # warms up
    for _ in range(effort.rounds):
        for name, figure in _medians(runner, effort.pick(10, 3)).items():
            rounds[name].append(figure)
    say(", ".join(f"{name}: {min(times):.1f} ms" for name, times in rounds.items()))
    beside, bar = rounds.pop("without"), Bar(compares="ratio", limit=BAR)
    return [
        Figure(name=f"first token, guarded by {name}", unit="ms", rounds=times, references=beside, bar=bar)
        for name, times in rounds.items()
    ]


def _medians(runner: Runner, runs: int) -> dict[str, float]:
    """Return the median of the milliseconds to the first token with each agent, which take turns."""
    times: dict[str, list[float]] = {name: [] for name in AGENTS}
    for _ in range(runs):
        for name, values in times.items():
            began_s = time.perf_counter()
            handle = runner.run("go", name.split()[-1])
            next(event for event in handle.events() if isinstance(event, ResponsePayload))
            values.append((time.perf_counter() - began_s) * 1000)
            handle.result(20)
    return {name: statistics.median(values) for name, values in times.items()}


if __name__ == "__main__":
    run(measure, __doc__)
