"""What authentication adds to a request: the same requests with an API key, with a session, and without, by turns.

    PYTHONPATH=. .venv/bin/python -m tests.bench.auth_cost [--rounds 3] [--quick] [--json]

Two web processes serve one database. The one asks for no credential and checks keys that are sent, so its requests with
a key and without take the same way otherwise. It never looks at cookies, so sessions are sent to the other, which
requires credentials and counts requests too. Refusals of a key with a wrong secret are compared with those of a key
that no deployment made.
"""

from __future__ import annotations

import contextlib
import http.client
import tempfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from bus.identity.credentials.key_form import KeyForm, encoded
from config.identity.principal import Principal, Role
from tests.bench.command import Effort, run, say
from tests.bench.report import Bar, Figure, Report
from tests.bench.web import JSON, Headers, Request, accepted_run, in_blocks, settings_in, web
from tests.credentials import key_of, session_of

WARM = 200
BAR = Bar(compares="difference", limit=100)
ANY_NUMBER = 10_000_000
READER = Principal(id="reader", roles=frozenset({Role.OPERATOR}))
FIGURES = (
    ("GET of a run with an API key", "key", "none", "the same without", BAR),
    ("GET of a run with a session", "session", "none", "the same without", BAR),
    ("POST of a cancel with a session and its token", "session, POST", "none, POST", "the same without", BAR),
    ("GET of a run with an API key where one is required", "key, required", "none", "the same without", BAR),
    ("refusal of a wrong secret", "wrong", "foreign", "that of an unknown key", BAR),
)
"""What is measured, its way, that of its reference, and how the reference is called."""


def measure(effort: Effort) -> Report:
    """Return the medians of requests with a credential and without, and of two refusals."""
    requests = effort.pick(3000, 50)
    with _ways() as groups:
        in_blocks(groups, effort.pick(WARM, 5))
        rounds = [in_blocks(groups, requests) for _ in range(effort.rounds)]
    for number, medians in enumerate(rounds):
        say(f"round {number + 1}: " + "; ".join(f"{name} {us:.0f} µs" for name, us in medians.items()))
    figures = [
        Figure(
            name=f"{name}, p50",
            unit="µs",
            rounds=[medians[way] for medians in rounds],
            references=[medians[reference] for medians in rounds],
            bar=bar,
            note=f"beside {note}",
        )
        for name, way, reference, note, bar in FIGURES
    ]
    return Report(name="auth_cost", title="Authentication", figures=figures, details={"requests": requests})


@contextlib.contextmanager
def _ways() -> Iterator[Sequence[Mapping[str, Request]]]:
    """Yield the requests by the name of their way, those of a group to one process, while the two web processes run."""
    with tempfile.TemporaryDirectory(prefix="cbbench") as folder, contextlib.ExitStack() as open_things:
        asks_none = settings_in(Path(folder))
        asks = settings_in(
            Path(folder),
            auth="required",
            oidc_issuer="https://login.example.org",  # is asked for nothing: the session is there already
            oidc_client_id="bench",
            principal_requests_per_minute=ANY_NUMBER,
            tenant_requests_per_minute=ANY_NUMBER,
        )
        free, strict = (open_things.enter_context(web(settings)) for settings in (asks_none, asks))
        own_key, key = key_of(asks, asks_none.local_principal), key_of(asks, READER)
        yield *_without(free, own_key), *_with(strict, key, session_of(asks, READER))


def _without(client: http.client.HTTPConnection, key: str) -> Sequence[Mapping[str, Request]]:
    """Return the requests to the process that asks for no credential."""
    read, ended = (accepted_run(client) for _ in range(2))
    wrong, foreign = _with_wrong_secret(key), KeyForm(lambda: "0f" * 32).make()[1]
    return (
        {"none": _get(client, read, {}), "key": _get(client, read, _bearer(key))},
        {"none, POST": _post(client, ended, {})},
        {
            "wrong": _get(client, read, _bearer(wrong), status=401),
            "foreign": _get(client, read, _bearer(foreign), status=401),
        },
    )


def _with(client: http.client.HTTPConnection, key: str, session: Headers) -> Sequence[Mapping[str, Request]]:
    """Return the requests to the process that requires one."""
    read, ended = (accepted_run(client, session) for _ in range(2))
    cookie = {"Cookie": session["Cookie"]}
    return (
        {"session": _get(client, read, cookie), "key, required": _get(client, read, _bearer(key))},
        {"session, POST": _post(client, ended, session)},
    )


def _get(client: http.client.HTTPConnection, run_id: str, headers: Headers, status: int = 200) -> Request:
    return Request(client=client, path=f"/v1/runs/{run_id}", headers=headers, status=status)


def _post(client: http.client.HTTPConnection, run_id: str, headers: Headers) -> Request:
    """Return a cancel as the page sends it; only the first one changes something."""
    sent = JSON | {"Origin": f"http://127.0.0.1:{client.port}"} | dict(headers)
    return Request(client=client, method="POST", path=f"/v1/runs/{run_id}/cancel", headers=sent, body="{}")


def _bearer(key: str) -> Headers:
    return {"Authorization": f"Bearer {key}"}


def _with_wrong_secret(key: str) -> str:
    start = key[:-36] + "x" * 30
    return start + encoded(zlib.crc32(start.encode()), 6)


if __name__ == "__main__":
    run(measure, __doc__)
