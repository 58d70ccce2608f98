"""Whether the time of an answer tells a foreign id from an unknown one: both asked by turns, with one key.

    PYTHONPATH=. .venv/bin/python -m tests.bench.foreign_cost [--rounds 3] [--quick] [--json]

The reference is a second unknown id, asked for as often: the difference between two unknown ones is the noise.
"""

from __future__ import annotations

import http.client
import json
import statistics
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from config.identity.principal import Principal, Role
from config.settings import Settings
from tests.bench.command import Effort, run
from tests.bench.report import Bar, Figure, Report
from tests.bench.web import JSON, Headers, Request, accepted_run, in_turns, settings_in, web
from tests.credentials import key_of

CALLS = (
    ("GET", "/v1/runs/RUN"),
    ("GET", "/v1/runs/RUN/events"),
    ("GET", "/v1/runs/RUN/approvals"),
    ("POST", "/v1/runs/RUN/approvals/apr_1"),
    ("POST", "/v1/runs/RUN/cancel"),
    ("POST", "/v1/runs/RUN/ticket"),
    ("DELETE", "/v1/runs/RUN"),
    ("GET", "/v1/threads/THREAD"),
    ("GET", "/v1/threads/THREAD/messages"),
    ("DELETE", "/v1/threads/THREAD"),
    ("DELETE", "/v1/keys/KEY"),
)
"""Each call with the id of an object that has an owner; words in capitals are ids."""
BODIES = {"/v1/runs/RUN/approvals/apr_1": json.dumps({"decision": "approve"})}
STRANGER = Principal(tenant="another", id="stranger", roles=frozenset(Role))
LIMIT = 1.05


def measure(effort: Effort) -> Report:
    """Return for each call the median time of a foreign id, beside that of an unknown one."""
    times = effort.pick(500, 20)
    with tempfile.TemporaryDirectory(prefix="cbbench") as folder, web(settings := settings_in(Path(folder))) as client:
        key = key_of(settings, STRANGER)
        requests = _requests(client, _objects(client, settings), {"Authorization": f"Bearer {key}"})
        in_turns(requests, 20)
        rounds = [in_turns(requests, times) for _ in range(effort.rounds)]
    figures = [
        Figure(
            name=f"{method} {path}, foreign, p50",
            unit="µs",
            rounds=[durations[method, path, "foreign"] for durations in rounds],
            references=[durations[method, path, "unknown"] for durations in rounds],
            bar=Bar(compares="ratio", limit=LIMIT),
            note=f"two unknown ones: {_noise(rounds, method, path):.2f}x",
        )
        for method, path in CALLS
    ]
    return Report(name="foreign_cost", title="Foreign and unknown", figures=figures, details={"requests": times})


Way = tuple[str, str, str]
"""Method, path, and which id."""


def _objects(client: http.client.HTTPConnection, settings: Settings) -> Mapping[str, str]:
    """Return the ids of a run, its thread and a key, all of the tenant that the asker is not of."""
    run = accepted_run(client)
    client.request("GET", f"/v1/runs/{run}")
    thread = str(json.loads(client.getresponse().read())["thread_id"])
    key = key_of(settings, Principal(id="owner")).split("_")[1]
    return {"RUN": run, "THREAD": thread, "KEY": key}


def _requests(
    client: http.client.HTTPConnection, objects: Mapping[str, str], headers: Headers
) -> Mapping[Way, Request]:
    return {
        (method, path, which): Request(
            client=client,
            method=method,
            path=_address(path, objects, which),
            headers={**headers, **JSON} if path in BODIES else headers,
            body=BODIES.get(path),
            status=404,
        )
        for method, path in CALLS
        for which in ("foreign", "unknown", "other")
    }


def _address(path: str, objects: Mapping[str, str], which: str) -> str:
    """Return the path with ids of existing objects, or with their last letters changed."""
    ending = {"foreign": "", "unknown": "000000", "other": "111111"}[which]
    for kind, object_id in objects.items():
        path = path.replace(kind, object_id[: len(object_id) - len(ending)] + ending)
    return path


def _noise(rounds: Sequence[Mapping[Way, float]], method: str, path: str) -> float:
    return statistics.median(
        durations[method, path, "other"] / durations[method, path, "unknown"] for durations in rounds
    )


if __name__ == "__main__":
    run(measure, __doc__)
