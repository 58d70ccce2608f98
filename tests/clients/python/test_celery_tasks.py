"""What the client publishes of a Celery application: its tasks, as their signatures and docstrings describe them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import date, timedelta
from enum import Enum
from pathlib import Path
from typing import Annotated, Any, Literal, NotRequired, TypedDict

import pytest
from celery import Celery
from pydantic import BaseModel

from callboard_client.celery_tasks import TaskUndescribed, describe_tasks, main, publish_tasks
from config.definitions.celery_tasks import load_application
from config.definitions.schemas.json_schema import check_schema


class Size(Enum):
    SMALL = "s"
    LARGE = "l"


class Line(TypedDict):
    item: str
    count: int
    note: NotRequired[str]


class Address(BaseModel):
    street: str


class Customer(BaseModel):
    home: Address


def shop(**conf: Any) -> Celery:
    app = Celery("shop", broker="memory://", backend="cache+memory://", set_as_current=False)
    app.conf.update(conf)
    return app


def described(function: Any, app: Celery | None = None, **options: Any) -> dict[str, Any]:
    app = app or shop()
    app.task(name="shop.one", shared=False, **options)(function)
    description: dict[str, Any] = describe_tasks(app)["tasks"]["shop.one"]
    check_schema(description["schema"])
    return description


def test_a_task_is_described_by_its_signature_and_docstring() -> None:
    def refund(number: str, euros: float = 1.5, *, at_once: bool = False) -> None:
        """Pay money back.

        In two steps.

        Args:
            number (str): the order's number,
                such as A-1.
            euros: how much.

        Returns:
            nothing: of interest.
        """

    description = described(refund)

    assert description["description"] == "Pay money back.\n\nIn two steps."
    assert description["queue"] == "celery"
    assert description["schema"] == {
        "type": "object",
        "properties": {
            "number": {"type": "string", "description": "the order's number, such as A-1."},
            "euros": {"type": "number", "description": "how much.", "default": 1.5},
            "at_once": {"type": "boolean", "default": False},
        },
        "required": ["number"],
        "additionalProperties": False,
    }


@pytest.mark.parametrize(
    ("hint", "schema"),
    [
        (int, {"type": "integer"}),
        (str | None, {"anyOf": [{"type": "string"}, {"type": "null"}]}),
        (list[int], {"type": "array", "items": {"type": "integer"}}),
        (Sequence[str], {"type": "array", "items": {"type": "string"}}),
        (tuple[int, ...], {"type": "array", "items": {"type": "integer"}}),
        (list, {"type": "array"}),
        (dict[str, int], {"type": "object", "additionalProperties": {"type": "integer"}}),
        (dict, {"type": "object"}),
        (Literal["a", "b"], {"enum": ["a", "b"]}),
        (Size, {"enum": ["s", "l"]}),
        (date, {"type": "string", "format": "date"}),
        (Annotated[int, "how many"], {"type": "integer", "description": "how many"}),
        (Any, {}),
        (
            Line,
            {
                "type": "object",
                "properties": {"item": {"type": "string"}, "count": {"type": "integer"}, "note": {"type": "string"}},
                "required": ["count", "item"],
            },
        ),
    ],
)
def test_types_become_schemas(hint: Any, schema: dict[str, Any]) -> None:
    def task(value):
        """Do it."""

    task.__annotations__["value"] = hint

    assert described(task)["schema"]["properties"]["value"] == schema


def test_a_pydantic_model_inside_another_one_is_found() -> None:
    def task(customer: Customer) -> None:
        """Do it."""

    task.__annotations__["customer"] = Customer
    schema = described(task)["schema"]

    assert schema["properties"]["customer"]["properties"]["home"] == {"$ref": "#/$defs/Address"}
    assert schema["$defs"]["Address"]["required"] == ["street"]


def test_a_bound_task_has_no_self_and_open_keywords_are_open() -> None:
    def task(self, number: str, *rest: str, **more: str) -> None:
        """Do it."""

    schema = described(task, bind=True)["schema"]

    assert (list(schema["properties"]), schema["additionalProperties"]) == (["number"], True)


def test_routes_options_and_ignored_results_are_the_applications() -> None:
    app = shop(task_routes={"shop.one": {"queue": "money", "priority": 3}}, task_track_started=True)

    def task() -> None:
        """Do it."""

    description = described(task, app, ignore_result=True, callboard={"effect": "pure", "timeout_s": 5.0})

    assert (description["queue"], description["priority"], description["waits"]) == ("money", 3, False)
    assert (description["effect"], description["timeout_s"]) == ("pure", 5.0)
    assert describe_tasks(app)["tracks_starts"] is True


def test_a_task_that_takes_no_keywords_is_an_error() -> None:
    def task(number, /):
        """Do it."""

    with pytest.raises(TaskUndescribed, match="by position only"):
        described(task)


def test_an_argument_without_a_type_takes_anything() -> None:
    def task(number):
        """Do it."""

    assert described(task)["schema"]["properties"] == {"number": {}}


def test_a_type_without_a_schema_is_named() -> None:
    def task(value):
        """Do it."""

    task.__annotations__["value"] = bytes
    with pytest.raises(TaskUndescribed, match=r"shop\.one: value has a type without a JSON Schema"):
        described(task)


def test_the_file_is_what_callboard_reads(tmp_path: Path) -> None:
    app = shop(task_track_started=True)

    @app.task(name="shop.refund", shared=False, callboard={"effect": "idempotent"})
    def refund(number: str) -> None:
        """Pay money back."""

    @app.task(name="shop.other", shared=False)
    def other() -> None:
        """Do something else."""

    assert publish_tasks(app, tmp_path / "deep" / "shop.json", only=["shop.refund"]) == 1
    (tmp_path / "deep" / "shop.yaml").write_text("broker: redis://localhost/0\npublished: shop.json\n")

    application = load_application(tmp_path / "deep" / "shop.yaml")
    assert list(application.tasks) == ["shop.refund"]
    assert (application.tracks_starts, str(application.tasks["shop.refund"].effect)) == (True, "idempotent")
    assert [path.name for path in (tmp_path / "deep").glob(".*")] == [], "nothing is left beside it"


def test_the_command_says_what_is_wrong(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.path", [*__import__("sys").path])
    (tmp_path / "own_shop.py").write_text(
        "from celery import Celery\napp = Celery('shop', broker='memory://', set_as_current=False)\n"
        "@app.task(name='shop.one', shared=False)\ndef one(): 'Do it.'\n"
    )

    assert main([]) == 2
    assert main(["own_shop:nothing", "x.json"]) == 1
    assert main(["no_such_module:app", "x.json"]) == 1
    assert main(["own_shop:app", "x.json", "shop.missing"]) == 1
    assert main(["own_shop:app", "x.json", "shop.one"]) == 0

    output = capsys.readouterr()
    assert "usage:" in output.err
    assert "has no task shop.missing" in output.err
    assert output.out == "1 task is published in x.json\n"
    assert json.loads((tmp_path / "x.json").read_text())["tasks"]["shop.one"]["waits"] is False


@pytest.mark.parametrize(
    ("backend", "conf", "results"),
    [
        ("redis://localhost:6379/3", {}, {"kind": "redis", "db": 3, "key_prefix": "", "expires_s": 86400.0}),
        (
            "redis+socket:///run/redis.sock?virtual_host=2",
            {"result_backend_transport_options": {"global_keyprefix": "shop:"}, "result_expires": timedelta(hours=1)},
            {"kind": "redis", "db": 2, "key_prefix": "shop:", "expires_s": 3600.0},
        ),
        (
            "db+sqlite:///results.db",
            {
                "database_table_names": {"task": "ours"},
                "database_create_tables_at_setup": False,
                "result_expires": None,
            },
            {"kind": "database", "table": "ours", "expires_s": 0.0},
        ),
        ("rpc://", {}, {"kind": "RPCBackend"}),
    ],
)
def test_where_results_are_is_published_without_hosts(
    backend: str, conf: dict[str, Any], results: dict[str, Any]
) -> None:
    app = Celery("shop", broker="memory://", backend=backend, set_as_current=False)
    app.conf.update(conf)

    assert describe_tasks(app, only=[])["results"] == results
