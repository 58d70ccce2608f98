"""Tools of Celery tasks, from the files that describe their applications: what they become, and what is wrong."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agents.catalogue import find_tool
from agents.tools.celery_tasks import LOST_WORK, outcome_of
from bus.celery_tasks.state import PENDING, TaskState
from config.definitions.errors import DefinitionInvalid, ToolUnknown
from config.definitions.loading import load_definition
from config.effects import Effect
from config.settings import Settings

SCHEMA = {"type": "object", "properties": {"number": {"type": "string"}}}
TASK = {"schema": SCHEMA, "description": "Pay money back."}
REDIS = {"broker": "redis://localhost:6379/0"}
Write = Callable[..., Settings]


@pytest.fixture
def write(settings: Settings, tmp_path: Path) -> Write:
    """Writes files of applications and returns the settings that name their folder."""

    def written(content: Any, name: str = "shop.yaml", published: Any = None) -> Settings:
        folder = tmp_path / "celery_tasks"
        folder.mkdir(exist_ok=True)
        (folder / name).write_text(content if isinstance(content, str) else json.dumps(content))
        if published is not None:
            (folder / "shop.json").write_text(published if isinstance(published, str) else json.dumps(published))
        return settings.model_copy(update={"celery_tasks_dir": str(folder)})

    return written


def application(**task: Any) -> dict[str, Any]:
    return REDIS | {"tasks": {"shop.tasks.refund": TASK | task}}


def test_a_task_is_a_tool_with_the_last_part_of_its_name(write: Write) -> None:
    tool = find_tool("celery:shop.tasks.refund", write(application()))

    assert (tool.name, tool.description, tool.parameters) == ("refund", "Pay money back.", SCHEMA)
    assert tool.effect is Effect.CHECKABLE, "its result can be read"
    assert tool.task is not None
    assert (tool.task.application, tool.task.task) == ("shop", "shop.tasks.refund")


def test_what_the_file_says_is_the_tools(write: Write) -> None:
    fields = {"name": "give_back", "effect": "idempotent", "timeout_s": 90, "confirm": True, "roles": ["operator"]}

    tool = find_tool("celery:shop.tasks.refund", write(application(**fields)))

    assert (tool.name, tool.effect, tool.timeout_s, tool.confirm) == ("give_back", Effect.IDEMPOTENT, 90.0, True)
    assert {str(role) for role in tool.roles} == {"operator"}


@pytest.mark.parametrize(
    ("fields", "read"),
    [({}, {"untrusted"}), ({"labels": ["trusted"]}, set()), ({"labels": ["orders"]}, {"orders", "untrusted"})],
)
def test_a_result_is_untrusted_unless_the_file_says_otherwise(write: Write, fields: Any, read: set[str]) -> None:
    tool = find_tool("celery:shop.tasks.refund", write(application(**fields)))

    assert tool.result_labels == read


def test_a_call_that_does_not_wait_is_unsafe(write: Write) -> None:
    tool = find_tool("celery:shop.tasks.refund", write(application(waits=False) | {"broker": "amqp://localhost//"}))

    assert (tool.effect, tool.task) == (Effect.UNSAFE, None)


def test_what_the_application_published_is_completed_by_the_file(write: Write) -> None:
    published = {
        "callboard_tasks": 1,
        "tracks_starts": True,
        "new_member": "of a later release",
        "tasks": {
            "shop.tasks.refund": TASK | {"queue": "money", "timeout_s": 5.0, "later": 1},
            "shop.tasks.find": TASK | {"effect": "pure"},
        },
    }
    content = REDIS | {"published": "shop.json", "tasks": {"shop.tasks.refund": {"timeout_s": 60.0}}}
    settings = write(content, published=published)

    refund, find = (find_tool(f"celery:shop.tasks.{name}", settings) for name in ("refund", "find"))

    assert (refund.timeout_s, refund.description) == (60.0, "Pay money back.")
    assert refund.task.routing.queue == "money"  # type: ignore[union-attr]  # of this implementation
    assert refund.task.tracks_starts  # type: ignore[union-attr]
    assert (find.effect, find.name) == (Effect.PURE, "find")


def test_a_deployments_own_broker_is_the_default(write: Write) -> None:
    settings = write({"tasks": {"shop.refund": TASK}}).model_copy(update={"redis_url": "redis://localhost/3"})

    assert find_tool("celery:shop.refund", settings).task.place.broker == "redis://localhost/3"  # type: ignore[union-attr]


def test_urls_with_passwords_come_from_variables(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    content = application() | {"broker_env": "SHOP_BROKER", "result_backend_env": "SHOP_RESULTS"}
    del content["broker"]
    settings = write(content)
    with pytest.raises(ToolUnknown, match="the variable SHOP_BROKER is not set"):
        find_tool("celery:shop.tasks.refund", settings)
    monkeypatch.setenv("SHOP_BROKER", "amqp://me:hidden-word@localhost//")
    monkeypatch.setenv("SHOP_RESULTS", "db+sqlite:////tmp/results.db")

    assert find_tool("celery:shop.tasks.refund", settings).task is not None


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"broker": "amqp://me:secret@host//"}, "may not hold a password"),
        ({"broker": "localhost"}, "has to be a URL"),
        ({"broker": "nosuch://host"}, "no transport is called 'nosuch'"),
        ({"broker": "redis://[::1"}, "URL"),
        ({"broker": None, "broker_env": "NO_SUCH_VARIABLE"}, "NO_SUCH_VARIABLE is not set"),
        ({"broker_env": "A"}, "exclude each other"),
        ({"broker_env": "a b"}, "pattern"),
        ({"broker": None}, "no broker is named"),
        ({"result_backend": "rpc://"}, "no other can read it"),
        ({"result_backend": "cache+memcached://host"}, "cannot be read from `cache+memcached`"),
        ({"broker": "amqp://localhost//"}, "its result cannot be read"),
        ({"brocker": "x"}, "Did you mean 'broker'"),
        ({"published": "none.json"}, "cannot be read"),
        ({"published": "."}, "cannot be read"),
        ({"result_table": "a; drop table b"}, "pattern"),
        ({"tasks": []}, "dictionary"),
    ],
)
def test_a_file_that_cannot_be_used_says_why(write: Write, change: dict[str, Any], problem: str) -> None:
    content = {name: value for name, value in (application() | change).items() if value is not None}

    with pytest.raises(ToolUnknown, match=r"shop\.yaml") as raised:
        find_tool("celery:shop.tasks.refund", write(content))

    assert problem in str(raised.value)
    assert "secret" not in str(raised.value)


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"schema": None}, "has no schema"),
        ({"schema": {"type": "array"}}, "type: object"),
        ({"schema": {"type": "nonsense"}}, "not a JSON Schema"),
        ({"schema": {"type": "object", "$ref": "http://x/y"}}, "not local"),
        ({"schema": 5}, "dictionary"),
        ({"output_schema": {"type": "nonsense"}}, "not a JSON Schema"),
        ({"description": None}, "has no description"),
        ({"effect": "harmless"}, "effect"),
        ({"timeout_s": -1.0}, "greater than 0"),
        ({"timeout_s": "soon"}, "number"),
        ({"name": "no name"}, "pattern"),
        ({"waits": False, "effect": "checkable"}, "no result to check"),
        ({"routing_key": "x"}, "needs an `exchange`"),
        ({"priority": 900}, "255"),
        ({"retry": 5}, "no such field"),
    ],
)
def test_a_task_that_cannot_be_called_says_why(write: Write, change: dict[str, Any], problem: str) -> None:
    task = {name: value for name, value in (TASK | change).items() if value is not None}

    with pytest.raises(ToolUnknown, match=r"shop\.yaml") as raised:
        find_tool("celery:shop.tasks.refund", write(REDIS | {"tasks": {"shop.tasks.refund": task}}))

    assert problem in str(raised.value)


@pytest.mark.parametrize("content", ["", "- a", "a: b: c", "x" * 300_000, "\0", "tasks: {a: &x [*x]}", "%YAML 9"])
def test_a_file_that_is_no_yaml_says_so(write: Write, content: str) -> None:
    with pytest.raises(ToolUnknown, match=r"shop\.yaml"):
        find_tool("celery:shop.tasks.refund", write(content))


@pytest.mark.parametrize(
    "published",
    [
        "",
        "[]",
        "{}",
        '{"callboard_tasks": 2, "tasks": {}}',
        '{"callboard_tasks": 1, "tasks": {"shop.refund": 5}}',
    ],
)
def test_a_published_file_that_is_none_says_so(write: Write, published: str) -> None:
    with pytest.raises(ToolUnknown, match=r"shop\.json"):
        find_tool("celery:shop.tasks.refund", write(REDIS | {"published": "shop.json"}, published=published))


def test_a_task_that_no_file_has_is_an_error_with_the_nearest_name(write: Write) -> None:
    with pytest.raises(ToolUnknown, match=r"Did you mean 'shop\.tasks\.refund'"):
        find_tool("celery:shop.tasks.refnud", write(application()))


def test_a_task_of_two_applications_is_ambiguous(write: Write) -> None:
    write(application(), "other.yaml")

    with pytest.raises(ToolUnknown, match="keep one of them"):
        find_tool("celery:shop.tasks.refund", write(application()))


def test_a_broken_file_hides_no_other(write: Write) -> None:
    write("nonsense: 1", "broken.yaml")

    assert find_tool("celery:shop.tasks.refund", write(application())).name == "refund"


@pytest.mark.parametrize("name", ["celery:shop.tasks.refund", "celery:orders/refund-now", "celery:a"])
def test_a_definition_names_tasks(tmp_path: Path, name: str) -> None:
    path = tmp_path / "clerk.yaml"
    path.write_text(f"name: Clerk\nmodel: auto\nsystem_prompt: x\ntools: ['{name}']\n")

    assert load_definition(path).tools == (name,)


@pytest.mark.parametrize("name", ["celery:", "celery:a b", "celery:a;b", "celery:\\n", "kelery:a.b"])
def test_a_definition_names_nothing_else(tmp_path: Path, name: str) -> None:
    path = tmp_path / "clerk.yaml"
    path.write_text(f"name: Clerk\nmodel: auto\nsystem_prompt: x\ntools: ['{name}']\n")

    with pytest.raises(DefinitionInvalid, match="tools"):
        load_definition(path)


@pytest.mark.parametrize(
    ("results", "url", "problem"),
    [
        ({"kind": "redis", "db": 1}, "redis://localhost:6379/0", "is database 0 of a Redis"),
        ({"kind": "redis", "db": 1}, "unix:///run/redis.sock?db=2", "is database 2 of a Redis"),
        ({"kind": "redis", "db": 1}, "db+sqlite:///results.db", "is no Redis"),
        ({"kind": "database"}, "redis://localhost:6379/0", "is a Redis"),
    ],
)
def test_a_result_backend_other_than_the_published_one_is_refused(
    write: Write, results: dict[str, Any], url: str, problem: str
) -> None:
    published = {"callboard_tasks": 1, "results": results, "tasks": {"shop.refund": TASK}}
    content = REDIS | {"result_backend": url, "published": "shop.json"}

    with pytest.raises(ToolUnknown, match=problem):
        find_tool("celery:shop.refund", write(content, published=published))


def test_prefix_and_table_of_the_results_are_as_published(write: Write) -> None:
    results = {"kind": "redis", "db": 0, "key_prefix": "shop:", "table": None, "later": 1}
    published = {"callboard_tasks": 1, "results": results, "tasks": {"shop.refund": TASK}}

    tool = find_tool("celery:shop.refund", write(REDIS | {"published": "shop.json"}, published=published))

    assert tool.task.place.result_key_prefix == "shop:"  # type: ignore[union-attr]
    assert tool.task.place.result_table == "celery_taskmeta"  # type: ignore[union-attr]


BEGUN = TaskState(name="STARTED")
HARMLESS = (Effect.PURE, Effect.IDEMPOTENT)


def outcome(state: TaskState, effect: Effect = Effect.CHECKABLE, **overrides: bool | None) -> str | None:
    facts: dict[str, Any] = {"is_over": False, "tracks_starts": False, **overrides}
    task_outcome = outcome_of(state, "shop.refund", effect, **facts)
    return task_outcome.outcome if task_outcome is not None else None


@pytest.mark.parametrize("effect", Effect)
@pytest.mark.parametrize("tracks_starts", [False, True])
def test_a_task_that_has_not_ended_is_left_alone_until_its_time_is_over(effect: Effect, tracks_starts: bool) -> None:
    for state in (PENDING, BEGUN, TaskState(name="RETRY"), TaskState(name="PROGRESS")):
        assert outcome(state, effect, tracks_starts=tracks_starts) is None


@pytest.mark.parametrize("effect", Effect)
def test_pending_is_not_done_only_where_starts_are_recorded(effect: Effect) -> None:
    assert outcome(PENDING, effect, is_over=True, tracks_starts=True) == "failed"
    expected = "failed" if effect in HARMLESS else "unknown"
    assert outcome(PENDING, effect, is_over=True, tracks_starts=False) == expected
    assert outcome(BEGUN, effect, is_over=True, tracks_starts=True) == expected


@pytest.mark.parametrize("effect", Effect)
@pytest.mark.parametrize("has_begun", [True, None])
def test_a_task_that_has_begun_or_whose_begin_may_be_lost_may_have_had_its_effect(
    effect: Effect, has_begun: bool | None
) -> None:
    expected = "failed" if effect in HARMLESS else "unknown"
    assert outcome(PENDING, effect, is_over=True, tracks_starts=True, has_begun=has_begun) == expected


@pytest.mark.parametrize("effect", Effect)
@pytest.mark.parametrize("error", LOST_WORK)
def test_a_task_that_was_ended_in_the_middle_may_have_had_its_effect(effect: Effect, error: str) -> None:
    state = TaskState(name="FAILURE", error=error, message="Worker exited prematurely: signal 9 (SIGKILL)")

    assert outcome(state, effect) == ("failed" if effect in HARMLESS else "unknown")


@pytest.mark.parametrize("effect", Effect)
def test_the_applications_own_error_is_a_failure(effect: Effect) -> None:
    assert outcome(TaskState(name="FAILURE", error="OrderUnknown", message="no"), effect) == "failed"


def test_a_revoked_task_may_have_had_its_effect_only_where_it_was_terminated() -> None:
    assert outcome(TaskState(name="REVOKED", error="TaskRevokedError", message="revoked")) == "failed"
    assert outcome(TaskState(name="REVOKED", error="TaskRevokedError", message="expired")) == "failed"
    assert outcome(TaskState(name="REVOKED", error="TaskRevokedError", message="terminated")) == "unknown"


def test_an_entry_that_cannot_be_read_is_unknown() -> None:
    task_outcome = outcome_of(
        TaskState(unreadable="The result is pickled."), "shop.refund", Effect.UNSAFE, is_over=False, tracks_starts=True
    )

    assert task_outcome is not None
    assert (task_outcome.outcome, task_outcome.result) == (
        "unknown",
        "shop.refund may have ended. The result is pickled.",
    )


def test_secrets_in_the_text_of_an_exception_are_redacted() -> None:
    state = TaskState(
        name="FAILURE", error="HTTPError", message="sk-proj-abcdefghijklmnopqrstuvwxyz0123456789ABCD was no key"
    )

    task_outcome = outcome_of(state, "shop.refund", Effect.UNSAFE, is_over=False, tracks_starts=True)

    assert task_outcome is not None
    assert "abcdefghijklmnop" not in task_outcome.result
