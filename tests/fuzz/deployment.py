"""The Callboard that is fuzzed: credentials are required, people sign in at a real provider, runs wait for answers."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from config.identity.principal import Principal, Role
from config.settings import Settings
from tests.bus.questions import asks, question, question_before
from tests.credentials import key_of
from tests.identity_provider.provider import CLIENT_ID, CLIENT_SECRET, IdentityProvider
from tests.journeys.up import Up
from tests.web.conftest import opened

OWNER = Principal(id="owner", roles=frozenset(Role))
STRANGER = Principal(tenant="acme", id="stranger", roles=frozenset(Role))
ANY_NUMBER = "10000000"
WAITING_RUNS = 30
AGENT = "name: Assistant\nmodel: demo/assistant\nsystem_prompt: You answer.\n"
AGENTS = {"assistant": "starters: [Hello]\ntools: [calculator]\n", "asking": "queue: served_by_no_worker\n"}
"""What their definitions have besides."""
WORKFLOW = """\
name: Triage
queue: served_by_no_worker
nodes:
  - {id: start, type: START}
  - {id: each, type: FOR_EACH, config: {items: [1]}}
  - {id: paid, type: WAIT, config: {signal: paid}}
  - {id: end, type: END}
edges:
  - {source: start, target: each}
  - {source: each, target: paid, source_handle: foreach-body}
  - {source: each, target: end}
"""


WEBHOOK = "format: standard\nsecret: ${HOOK_SECRET}\nstart: {agent: assistant, input: '{{ body }}'}\n"
HOOK_SECRET = "whsec_dGhlIGZ1enplcnMnIG93biBzZWNyZXQsIGxvbmc="


@dataclass(frozen=True, kw_only=True, slots=True)
class Deployment:
    """A running Callboard and what requests to it need."""

    origin: str
    credentials: Path
    """The keys of two administrators of different tenants, as Web Fuzzing Commons writes them."""
    facts: Path
    """For ``tests.fuzz.hooks``: the id of the key that is to stay, the questions that runs wait for, and the runs that
    wait for signals."""


@contextmanager
def deployment(folder: Path, provider: IdentityProvider) -> Iterator[Deployment]:
    """Yield a Callboard in this folder while it runs; its log may have no traceback afterwards."""
    (folder / "agents").mkdir(parents=True)
    for name, more in AGENTS.items():
        (folder / "agents" / f"{name}.yaml").write_text(AGENT + more)
    (folder / "agents" / "triage.yaml").write_text(WORKFLOW)
    (folder / "webhooks").mkdir()
    (folder / "webhooks" / "shop.yaml").write_text(WEBHOOK)
    with ExitStack() as open_things:
        chosen = _environment(folder, provider) | {"HOOK_SECRET": HOOK_SECRET}
        up = open_things.enter_context(Up(folder / "state", "--port", "0", "--workers", "1", **chosen))
        origin = up.address.partition("/#")[0].rstrip("/")
        provider.allow(origin)
        settings = Settings(_env_file=None, state_dir=folder / "state", agents_dir=str(folder / "agents"))  # type: ignore[call-arg]  # pydantic-settings' own
        keys = {person.id: key_of(settings, person) for person in (OWNER, STRANGER)}
        facts = {
            "key": keys[OWNER.id],
            "questions": _questions(settings),
            "workflows": _workflows(settings),
            "hook_secret": HOOK_SECRET,
        }
        yield Deployment(
            origin=origin,
            credentials=_written(folder / "credentials.json", {"auth": [_named(*item) for item in keys.items()]}),
            facts=_written(folder / "facts.json", facts),
        )
        up.stop()
        for number, line in enumerate(up.lines):
            assert "Traceback" not in line, "\n".join(up.lines[max(0, number - 3) : number + 60])


def _environment(folder: Path, provider: IdentityProvider) -> dict[str, str]:
    chosen = {
        "auth": "required",
        "agents_dir": str(folder / "agents"),
        "webhooks_dir": str(folder / "webhooks"),
        "oidc_issuer": provider.issuer,
        "oidc_client_id": CLIENT_ID,
        "oidc_client_secret": CLIENT_SECRET,
        "oidc_scopes": "openid profile email groups",
        "principal_requests_per_minute": ANY_NUMBER,
        "tenant_requests_per_minute": ANY_NUMBER,
    }
    return {f"CALLBOARD_{name.upper()}": value for name, value in chosen.items()}


def _questions(settings: Settings) -> list[tuple[str, str, list[str]]]:
    """Return run, question and possible answers of some runs that wait; no worker takes them afterwards."""
    questions = []
    with opened(settings) as runner:
        for number in range(WAITING_RUNS):
            run_id = runner.run("Refund the order.", "asking", principal=OWNER).run_id
            open_question = question() if number % 2 else question_before()
            runner.journal.live.publish(asks(runner.journal.database, run_id, open_question))
            (approval,) = runner.journal.readers.runs.get(OWNER, run_id)["approvals"]
            questions.append((run_id, approval["approval_id"], approval["decisions"]))
    return questions


def _workflows(settings: Settings) -> list[str]:
    """Return runs of a workflow whose items wait for signals."""
    with opened(settings) as runner:
        return [runner.run_workflow("triage", {}, principal=OWNER).run_id for _ in range(WAITING_RUNS)]


def _named(name: str, key: str) -> dict[str, object]:
    return {"name": name, "fixedHeaders": [{"name": "Authorization", "value": f"Bearer {key}"}]}


def _written(path: Path, content: object) -> Path:
    path.write_text(json.dumps(content))
    path.chmod(0o600)
    return path
