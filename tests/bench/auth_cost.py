"""What authentication adds to a request: one run read with an API key and without, by turns from one web process.

    PYTHONPATH=. .venv/bin/python -m tests.bench.auth_cost [--rounds 3] [--quick] [--json]

The process asks for no credential and checks keys that are sent, so both requests take the same way otherwise. Refusals
of a key with a wrong secret are compared with those of a key that no deployment made.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import random
import statistics
import tempfile
import time
import zlib
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from cli.supervisor.serving import bind, gunicorn_command
from config.database.engine import open_database
from config.database.migrate import migrate
from config.database.shared_secret import shared_secret
from config.identity import keys
from config.identity.base62 import encoded
from config.identity.key_form import SECRET_NAME, KeyForm
from config.identity.principal import Principal
from config.settings import Settings
from tests.bench.command import Effort, run, say
from tests.bench.processes import Process, wait_for_answer
from tests.bench.report import Bar, Figure, Report
from tests.bench.rigs import environment_of

WARM = 200
BAR_US = 100
Way = tuple[str, int]
"""The key of a request, or none, and the status of its answer."""


def measure(effort: Effort) -> Report:
    """Return the medians of a request with a key and without, and of two refusals."""
    requests = effort.pick(3000, 50)
    with web() as (client, run_id, key):
        ways: dict[str, Way] = {
            "key": (key, 200),
            "none": ("", 200),
            "wrong": (_with_checksum(key[:-36] + "x" * 30), 401),
            "foreign": (KeyForm(lambda: "0f" * 32).make()[1], 401),
        }
        _in_turns(client, run_id, ways, WARM if not effort.is_quick else 5)
        rounds = [_in_turns(client, run_id, ways, requests) for _ in range(effort.rounds)]
    for number, medians in enumerate(rounds):
        say(f"round {number + 1}: " + ", ".join(f"{name} {us:.0f} µs" for name, us in medians.items()))
    figures = [
        Figure(
            name="GET of a run with an API key, p50",
            unit="µs",
            rounds=[medians["key"] for medians in rounds],
            references=[medians["none"] for medians in rounds],
            bar=Bar(compares="difference", limit=BAR_US),
            note="beside the same without",
        ),
        Figure(
            name="refusal of a wrong secret, p50",
            unit="µs",
            rounds=[medians["wrong"] for medians in rounds],
            references=[medians["foreign"] for medians in rounds],
            bar=Bar(compares="difference", limit=BAR_US),
            note="beside that of an unknown key",
        ),
    ]
    return Report(name="auth_cost", title="Authentication", figures=figures, details={"requests": requests})


def _in_turns(client: http.client.HTTPConnection, run_id: str, ways: dict[str, Way], times: int) -> dict[str, float]:
    """Return the median of each way's requests in microseconds; their order is random, as each slows the next one."""
    taken: dict[str, list[float]] = {name: [] for name in ways}
    dice = random.Random(7)
    for _ in range(times):
        for name in dice.sample(list(ways), len(ways)):
            key, status = ways[name]
            headers = {"Authorization": f"Bearer {key}"} if key else {}
            began = time.perf_counter()
            client.request("GET", f"/v1/runs/{run_id}", headers=headers)
            answer = client.getresponse()
            answer.read()
            taken[name].append(time.perf_counter() - began)
            assert answer.status == status, (name, answer.status)
    return {name: statistics.median(seconds) * 1e6 for name, seconds in taken.items()}


@contextlib.contextmanager
def web(principal: Principal | None = None) -> Iterator[tuple[http.client.HTTPConnection, str, str]]:
    """Yield a connection to a web process of its own, the id of a run, and a key of ``principal``.

    None is the principal that the process takes callers without a credential for, whose the run is.
    """
    with tempfile.TemporaryDirectory(prefix="cbbench") as name, contextlib.ExitStack() as open_things:
        folder = Path(name)
        settings = Settings(state_dir=folder / "state", port=0)
        migrate(settings)
        listener = open_things.enter_context(bind(settings, "up"))
        port = listener.getsockname()[1]
        argv, env = gunicorn_command(listener), environment_of(settings)
        web = Process("web", argv, folder / "web.log", env=env, pass_fds=(listener.fileno(),))
        open_things.callback(web.stop)
        wait_for_answer(port, "/ready", web)
        client = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
        open_things.callback(client.close)
        body = json.dumps({"agent": "assistant", "input": "Hello"})
        client.request("POST", "/v1/runs", body, {"Content-Type": "application/json"})
        run_id = json.loads(client.getresponse().read())["run_id"]
        yield client, run_id, key_of(settings, principal or settings.local_principal)


def key_of(settings: Settings, principal: Principal) -> str:
    """Return a key that acts as this principal."""
    with contextlib.closing(open_database(settings.database)) as database:
        form = KeyForm(partial(shared_secret, database, SECRET_NAME))
        form.open()
        with database.write() as connection:
            return keys.create(connection, form, principal, by="bench")[1]


def _with_checksum(start: str) -> str:
    return start + encoded(zlib.crc32(start.encode()), 6)


if __name__ == "__main__":
    run(measure, __doc__)
