"""The application as a whole: nothing at import, problems for everything, the page, threads, agents, health."""

from __future__ import annotations

import logging
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import redis
from flask import Flask

from agents.governance.guardrails.guardrails import Guardrails
from agents.process import Process
from agents.registry import AgentRegistry
from bus.journal import Journal
from config.database.errors import DatabaseBusy, DatabaseDamaged, DatabaseFull
from config.errors import SettingInvalid
from config.settings import Settings
from handlers.worker.run_agent_handler import Poller
from handlers.worker.slots import SlotPool
from tests.backends import RedisServer
from tests.web.conftest import RunOwner, accept
from web.app import create_app
from web.doctor.servers import check_deployment

ROOT = Path(__file__).parents[2]
HEAVY = ("litellm", "openai", "alembic", "rich", "mcp", "handlers", "agents.models.lite", "agents.tools.calculator")
VALUES = (
    "approvals clients controls errors forks forks.errors idempotency log log.line on_demand paging "
    "readers records records.questions states states.codes storage storage.internal_events"
)
"""Modules of ``bus.journal`` that requests need before there is a journal."""
SHOW = f"print([name for name in {HEAVY!r} if name in sys.modules]);"
NOT_AT_THE_START = ("agents.governance.guardrails.guardrails", "agents.governance.policy.rule")
"""What the first run of a process needs."""


def run_python(code: str) -> list[str]:
    """Return the lines a fresh process printed."""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    return done.stdout.split("\n")[:-1]


@pytest.mark.parity
def test_importing_the_application_brings_nothing_heavy() -> None:
    early = f"print([name for name in {NOT_AT_THE_START!r} if name in sys.modules]);"
    code = f"import sys, threading, web.app; {SHOW} {early} print(threading.active_count())"

    assert run_python(code) == ["[]", "[]", "1"]


@pytest.mark.parity
def test_importing_the_application_brings_the_values_of_the_journal_and_not_the_journal() -> None:
    code = "import sys, web.app; print(*(name[12:] for name in sys.modules if name.startswith('bus.journal.')))"

    [output] = run_python(code)

    brought = set(output.split()) - set(VALUES.split())
    assert not brought, "import names that are only types under `if TYPE_CHECKING`; the first request opens the journal"


@pytest.mark.parity
def test_serving_brings_no_model_library_and_no_tool(settings: Settings) -> None:
    chosen = settings.model_dump(include={"state_dir", "database_url", "agents_dir"}, mode="json")
    code = f"""
import sys
from web.app import create_app
from config.settings import Settings
client = create_app(Settings(**{chosen!r})).test_client()
print(client.post("/v1/runs", json={{"agent": "assistant", "input": "Hi"}}).status_code)
{SHOW}
"""

    assert run_python(code) == ["202", "[]"]


@pytest.mark.parity
def test_an_old_schema_is_said_until_it_is_migrated(settings: Settings, tmp_path: Path) -> None:
    from config.database.migrate import migrate

    old = settings.model_copy(update={"database_url": f"sqlite:///{tmp_path / 'old.db'}"})
    app = create_app(old)
    client: Any = app.test_client()

    before = [client.get(path) for path in ("/v1/runs", "/", "/ready")]
    health = client.get("/health")
    migrate(old)
    after = client.get("/v1/runs")

    assert {(answer.status_code, answer.json["code"]) for answer in before} == {(503, "schema_old")}
    assert "./callboard migrate" in before[0].json["detail"]
    assert (health.status_code, health.json["status"]) == (503, "degraded")
    assert after.status_code == 200
    app.extensions["callboard"].close()


@pytest.mark.parametrize(
    ("path", "method", "status", "code"),
    [
        ("/nowhere", "GET", 404, "not_found"),
        ("/v1/runs", "DELETE", 405, "method_not_allowed"),
        ("/v1/threads/none", "GET", 404, "thread_unknown"),
        ("/v1/agents/none", "GET", 404, "agent_unknown"),
        ("/v1//runs", "GET", 404, "not_found"),
    ],
)
def test_what_is_not_there_is_a_problem(door, path: str, method: str, status: int, code: str) -> None:
    answer = door.open(path, method=method)

    assert (answer.status_code, answer.json["code"], answer.mimetype) == (status, code, "application/problem+json")
    assert answer.json["status"] == status


@pytest.mark.parametrize("path", ["//v1/runs", "///v1/runs", "//v1/runs/x", "//"])
def test_an_address_that_begins_with_two_slashes_is_not_there(door, path: str) -> None:
    answer = door.get("/", environ_overrides={"PATH_INFO": path})

    assert (answer.status_code, answer.json["code"]) == (404, "not_found")


def test_an_address_that_leads_nowhere_is_a_page_for_a_person_and_a_problem_for_a_program(door) -> None:
    browser = {"Accept": "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"}

    page, program, call = door.get("/bord", headers=browser), door.get("/bord"), door.get("/v1/bord", headers=browser)

    assert (page.status_code, page.content_type) == (404, "text/html; charset=utf-8")
    assert "There is nothing at this address" in page.text
    assert "bord" not in page.text.replace("board", "")
    assert [answer.content_type for answer in (program, call)] == ["application/problem+json"] * 2
    assert door.head("/bord", headers=browser).content_type == "application/problem+json"


@pytest.mark.parametrize("path", ["/v1/agents/assistent", "/v1/threads/none", "/v1/runs/none", "/static/x.js", "/x"])
def test_a_404_names_no_path_and_nothing_that_there_is(door, path: str, settings: Settings) -> None:
    answer = door.get(path)

    assert answer.status_code == 404
    assert "'assistant'" not in answer.text
    assert ".yaml" not in answer.text
    assert not {"known", "folder", "file"} & answer.json.keys()


def test_a_run_for_an_agent_there_is_not_names_no_other(door) -> None:
    answer = door.post("/v1/runs", json={"agent": "assistent", "input": "Hi"})

    assert (answer.status_code, answer.json["code"]) == (404, "agent_unknown")
    assert "assistant" not in answer.text.replace("assistent", "")
    assert ".yaml" not in answer.text


@pytest.mark.parametrize(
    ("error", "status", "code", "retry"),
    [
        (DatabaseBusy("locked; try again."), 503, "database_busy", True),
        (DatabaseFull("full; make space."), 507, "database_full", True),
        (DatabaseDamaged("damaged; restore a backup."), 503, "database_damaged", True),
        (SettingInvalid("CALLBOARD_X cannot be used."), 500, "setting_invalid", False),
        (KeyError("secret-detail"), 500, "internal", False),
    ],
)
def test_errors_behind_the_door(app: Flask, caplog, error: Exception, status: int, code: str, retry: bool) -> None:
    @app.get("/broken")
    def broken() -> str:
        raise error

    caplog.set_level(logging.ERROR)
    client: Any = app.test_client()
    answer = client.get("/broken")

    assert (answer.status_code, answer.json["code"]) == (status, code)
    assert ("Retry-After" in answer.headers) is retry
    assert answer.json["retryable"] is retry
    assert "Traceback" not in answer.text
    assert "secret-detail" not in answer.text
    assert "CALLBOARD_X" not in answer.text
    if code == "internal":
        assert [record.error_id for record in caplog.records] == [answer.json["error_id"]]


def test_the_page_is_checked_by_its_tag(door) -> None:
    first = door.get("/")
    again = door.get("/", headers={"If-None-Match": first.headers["ETag"]})

    assert (first.status_code, first.mimetype) == (200, "text/html")
    assert (again.status_code, again.data) == (304, b"")


def test_static_files_have_their_types_and_stay_in_their_folder(door) -> None:
    script = door.get("/static/services/api.js")

    assert script.headers["Content-Type"] == "text/javascript; charset=utf-8"
    for path in ("../app.py", "..%2fapp.py", "%2e%2e/api/runs.py", "/etc/passwd", "services", "none.js", "../../x.txt"):
        assert door.get(f"/static/{path}").status_code == 404


def test_threads_are_made_listed_and_read(client, runner, journal) -> None:
    empty = client.post("/v1/threads", json={"title": "Plans"})
    run_id = accept(runner, "Is 100% of it there?", thread_id="mine")
    RunOwner(journal, run_id).finish("Yes.")

    messages = client.get("/v1/threads/mine/messages").json["messages"]

    assert empty.status_code == 201
    assert client.get(empty.headers["Location"]).json["title"] == "Plans"
    assert [message["role"] for message in messages] == ["user", "assistant"]
    assert [thread["thread_id"] for thread in client.get("/v1/threads?search=100%25").json["threads"]] == ["mine"]
    assert len(client.get("/v1/threads?search=%25").json["threads"]) == 1
    assert [thread["thread_id"] for thread in client.get("/v1/threads?search=yes.").json["threads"]] == ["mine"]


def test_an_empty_thread_takes_its_first_message(client) -> None:
    thread_id = client.post("/v1/threads").json["thread_id"]

    client.post("/v1/runs", json={"agent": "assistant", "input": "Hi", "thread_id": thread_id})

    assert [m["content"] for m in client.get(f"/v1/threads/{thread_id}/messages").json["messages"]] == ["Hi"]


def test_messages_and_threads_come_in_pages(client, runner) -> None:
    for number in range(5):
        accept(runner, f"{number}", thread_id=f"t{number}")
        accept(runner, f"{number}", thread_id="all")

    first = client.get("/v1/threads/all/messages?limit=3").json
    rest = client.get(f"/v1/threads/all/messages?limit=3&after={first['next']}").json
    page = client.get("/v1/threads?limit=4").json
    others = client.get(f"/v1/threads?limit=4&before={page['next']}").json

    assert [m["content"] for m in first["messages"] + rest["messages"]] == ["0", "1", "2", "3", "4"]
    assert len({t["thread_id"] for t in page["threads"] + others["threads"]}) == 6


def test_agents_are_listed_and_broken_files_named(client, settings: Settings) -> None:
    folder = settings.agent_folders[0]
    (folder / "broken.yaml").write_text("name: Broken\nmodle: x\nsystem_prompt: y\n")

    json = client.get("/v1/agents").json

    assert json["agents"] == [client.get("/v1/agents/assistant").json]
    assert json["agents"][0]["is_demo"] is True
    assert "system_prompt" not in json["agents"][0]
    assert (json["problems"][0]["id"], json["problems"][0]["code"]) == ("broken", "definition_invalid")
    assert client.get("/v1/agents/broken").status_code == 422


def test_a_definition_that_cannot_be_read_now_is_answered_with_503_until_it_can(client, settings: Settings) -> None:
    path = settings.agent_folders[0] / "late.yaml"
    path.symlink_to("/proc/self/mem")  # a regular file whose reading fails with EIO
    start = {"agent": "late", "input": "x"}

    refused = client.post("/v1/runs", json=start)
    path.unlink()
    path.write_text("name: L\nmodel: demo/assistant\nsystem_prompt: y\n")

    assert (refused.status_code, refused.json["code"]) == (503, "definition_unreadable")
    assert refused.headers["Retry-After"]
    assert client.post("/v1/runs", json=start).status_code == 202


def test_an_agent_with_a_tool_that_is_not_allowed_is_named_beside_the_others(client, settings: Settings) -> None:
    fields = "name: Odd\nmodel: demo/assistant\nsystem_prompt: y\ntools: ['builtins:min']\n"
    (settings.agent_folders[0] / "odd.yaml").write_text(fields)

    json = client.get("/v1/agents").json

    assert [agent["id"] for agent in json["agents"]] == ["assistant"]
    assert [(problem["id"], problem["code"]) for problem in json["problems"]] == [("odd", "tool_unknown")]
    assert "CALLBOARD_TOOL_MODULES=.,builtins" in json["problems"][0]["detail"]
    assert client.get("/health").status_code == 200


def test_agents_are_listed_by_the_name_that_is_shown(client, settings: Settings) -> None:
    for agent_id, name in (("aa", "Zeta"), ("zz", "alpha")):
        (settings.agent_folders[0] / f"{agent_id}.yaml").write_text(
            f"name: {name}\nmodel: demo/assistant\nsystem_prompt: y\n"
        )

    listed = [agent["id"] for agent in client.get("/v1/agents").json["agents"]]

    assert [listed[0], listed[-1]] == ["zz", "aa"]


def test_a_tool_that_nothing_knows_is_named_with_its_line_also_by_the_doctor(client, settings: Settings) -> None:
    path = settings.agent_folders[0] / "odd.yaml"
    path.write_text("name: Odd\nmodel: demo/assistant\nsystem_prompt: y\ntools: [calculater]\n")

    (problem,) = client.get("/v1/agents").json["problems"]
    findings = client.get("/v1/doctor").json["findings"]

    assert problem["detail"].startswith(
        f"{path}:4: tools[0]: tool 'calculater' is not known. Did you mean 'calculator'?"
    )
    assert ("fail", problem["detail"]) in [(f["state"], f["sentence"]) for f in findings if f["check"] == "agents"]


def test_tools_of_servers_and_applications_are_no_modules(client, settings: Settings) -> None:
    fields = (
        "name: Odd\nmodel: demo/assistant\nsystem_prompt: y\ntools: ['mcp:shop/find', 'mcp:shop', 'celery:shop.pay']\n"
    )
    (settings.agent_folders[0] / "odd.yaml").write_text(fields)

    json = client.get("/v1/agents").json

    assert ([agent["id"] for agent in json["agents"]], json["problems"]) == (["assistant", "odd"], [])


def test_health_counts_workers(client, journal) -> None:
    from bus.journal.stores import WorkerRow

    alone = client.get("/health").json
    journal.stores.workers.renew(WorkerRow(id="w1", host="h", pid=1, pool="threads", slots=10, busy=0))

    assert (alone["status"], alone["workers"]) == ("degraded", 0)
    assert client.get("/health").json == {"status": "ok", "database": "ok", "redis": "none", "workers": 1, "viewers": 0}
    assert client.get("/ready").json == {"status": "ready"}


def test_health_says_that_redis_is_away(settings: Settings, runner) -> None:
    away = settings.model_copy(update={"redis_url": "unix:///nowhere/redis.sock?db=0"})
    app = create_app(away, runner)

    client: Any = app.test_client()
    answer = client.get("/health")

    assert (answer.status_code, answer.json["redis"], answer.json["status"]) == (200, "unreachable", "degraded")
    app.extensions["callboard"].close()


@pytest.mark.parity
def test_health_says_that_redis_takes_no_writes(settings: Settings, runner, tmp_path) -> None:
    with RedisServer(tmp_path / "full") as server, redis.Redis.from_url(server.url) as client:
        app = create_app(settings.model_copy(update={"redis_url": server.url}), runner)
        http_client: Any = app.test_client()
        well = http_client.get("/health").json

        client.config_set("maxmemory", 1)
        full = http_client.get("/health")

        app.extensions["callboard"].close()
    assert well["redis"] == "ok"
    assert (full.status_code, full.json["redis"], full.json["status"]) == (200, "refuses_writes", "degraded")


@pytest.mark.parity
def test_health_and_doctor_say_that_workers_of_another_database_use_the_same_keys(
    redis_settings: Settings, runner, empty_database: Path, tmp_path: Path
) -> None:
    ours = redis_settings.model_copy(update={"database_url": runner.settings.database_url})
    others_url = f"sqlite:///{shutil.copy(empty_database, tmp_path / 'others.db')}"
    others = ours.model_copy(update={"database_url": others_url})
    app = create_app(ours, runner)
    answers = []

    for settings in (ours, others):
        look_for_work(settings)
        health: Any = app.test_client().get("/health").json
        answers.append((health["redis"], [verdict for verdict, _ in check_deployment(ours)]))

    app.extensions["callboard"].close()
    assert answers == [("ok", ["ok"]), ("shared", ["fail"])]


def look_for_work(settings: Settings) -> None:
    """Look for queued runs as a worker of this installation does."""
    journal = Journal(settings, publish=lambda message: None, guard=Guardrails)
    process = Process(settings=settings, journal=journal, registry=AgentRegistry(settings.agent_folders))
    journal.loop.run(Poller(process, SlotPool(1)).look())
    journal.close()
