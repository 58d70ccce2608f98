"""Whether the time of an answer tells a foreign id from an unknown one: both asked by turns, with one key.

    PYTHONPATH=. .venv/bin/python -m tests.bench.foreign_cost [--rounds 3] [--quick] [--json]

The reference is a second unknown id, asked for as often: the difference between two unknown ones is the noise.
"""

from __future__ import annotations

import http.client
import random
import statistics
import time

from config.identity.principal import Principal, Role
from tests.bench.auth_cost import web
from tests.bench.command import Effort, run
from tests.bench.report import Bar, Figure, Report

CALLS = (("GET", ""), ("GET", "/events"), ("GET", "/approvals"), ("POST", "/cancel"), ("DELETE", ""))
STRANGER = Principal(tenant="another", id="stranger", roles=frozenset(Role))
LIMIT = 1.05


def measure(effort: Effort) -> Report:
    """Return for each call the median time of a foreign id, beside that of an unknown one."""
    times = effort.pick(1000, 20)
    with web(STRANGER) as (client, run_id, key):
        ids = {"foreign": run_id, "unknown": f"{run_id[:-6]}000000", "other": f"{run_id[:-6]}111111"}
        _in_turns(client, ids, key, 20)
        rounds = [_in_turns(client, ids, key, times) for _ in range(effort.rounds)]
    figures = [
        Figure(
            name=f"{method} /v1/runs/ID{path} of a foreign run, p50",
            unit="µs",
            rounds=[found[method, path, "foreign"] for found in rounds],
            references=[found[method, path, "unknown"] for found in rounds],
            bar=Bar(compares="ratio", limit=LIMIT),
            note=f"two unknown ones: {_noise(rounds, method, path):.2f}x",
        )
        for method, path in CALLS
    ]
    return Report(name="foreign_cost", title="Foreign and unknown", figures=figures, details={"requests": times})


Medians = dict[tuple[str, str, str], float]


def _noise(rounds: list[Medians], method: str, path: str) -> float:
    return statistics.median(found[method, path, "other"] / found[method, path, "unknown"] for found in rounds)


def _in_turns(client: http.client.HTTPConnection, ids: dict[str, str], key: str, times: int) -> Medians:
    """Return the median of each call and id in microseconds; their order is random, as each slows the next one."""
    taken: dict[tuple[str, str, str], list[float]] = {(*call, name): [] for call in CALLS for name in ids}
    dice, headers = random.Random(7), {"Authorization": f"Bearer {key}"}
    for _ in range(times):
        for method, path, name in dice.sample(list(taken), len(taken)):
            began = time.perf_counter()
            client.request(method, f"/v1/runs/{ids[name]}{path}", headers=headers)
            answer = client.getresponse()
            answer.read()
            taken[method, path, name].append(time.perf_counter() - began)
            assert answer.status == 404, (method, path, name, answer.status)
    return {place: statistics.median(seconds) * 1e6 for place, seconds in taken.items()}


if __name__ == "__main__":
    run(measure, __doc__)
