"""A secret stays out of every place where Callboard writes down what went wrong."""

from __future__ import annotations

import io
import logging
import traceback
from collections.abc import Callable, Iterator

import pytest
from celery import Celery
from pydantic import SecretStr
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError

from bus.messages.run_agent import RunAgentMessage
from config.database.engine import Database
from config.errors import CallboardError
from config.logs import NOISY, configure_logging
from config.settings import Settings, read_settings

KEY = "sk-ant-api03-Ab12Cd34Ef56Gh78Ij90"
WORD = "swordfish-hunter2"
URL = f"postgresql+psycopg://someone:{WORD}@db.example/callboard"


@pytest.fixture
def logged(settings: Settings) -> Iterator[Callable[[], str]]:
    root = logging.getLogger()
    before = root.handlers[:]
    levels = {logger: logger.level for logger in (root, *map(logging.getLogger, NOISY))}
    buffer = io.StringIO()
    configure_logging(settings.model_copy(update={"debug": True}), "worker-1", buffer)
    yield buffer.getvalue
    root.handlers[:] = before
    for logger, level in levels.items():
        logger.setLevel(level)
    logging.captureWarnings(False)


def in_an_exception() -> None:
    raise ValueError(f"the provider refused {KEY}", {"Authorization": f"Bearer {WORD}"})


def in_a_cause() -> None:
    try:
        in_an_exception()
    except ValueError as error:
        raise RuntimeError("the call failed") from error


def in_a_url() -> None:
    raise ConnectionError(f"cannot reach {URL} and https://h.example/v1?api_key={KEY}")


def in_a_note() -> None:
    error = ValueError("failed")
    error.add_note(f"called with x-api-key: {KEY}")
    raise error


@pytest.mark.parametrize("action", [in_an_exception, in_a_cause, in_a_url, in_a_note])
def test_a_traceback_in_the_log_has_none(logged: Callable[[], str], action: Callable[[], None]) -> None:
    try:
        action()
    except Exception:
        logging.getLogger("bus.relay").exception("failed")

    assert "Traceback" in logged()
    assert KEY not in logged()
    assert WORD not in logged()


def test_arguments_and_environment_in_a_log_line_have_none(logged: Callable[[], str]) -> None:
    environment = {"OPENAI_API_KEY": KEY, "DATABASE_URL": URL}

    logging.getLogger("bus.relay").error("started with %r", environment, extra={"header": f"Bearer {WORD}"})

    assert KEY not in logged()
    assert WORD not in logged()


def test_the_settings_have_none_in_a_traceback_with_local_variables() -> None:
    chosen = read_settings(
        database_url=URL,
        redis_url=f"redis://:{WORD}@h.example/0",
        broker_url=f"amqp://someone:{WORD}@h.example//",
        oidc_client_secret=SecretStr(WORD),
    )
    try:
        raise ValueError(chosen.deployment)
    except ValueError as error:
        traceback_text = "".join(traceback.TracebackException.from_exception(error, capture_locals=True).format())

    assert "redis_url='redis://" in traceback_text
    assert WORD not in traceback_text + str(chosen) + f"{chosen!r}"
    assert chosen.database_url == URL


def test_a_statement_that_fails_shows_no_values(logged: Callable[[], str], database: Database) -> None:
    with pytest.raises((CallboardError, DBAPIError)) as caught, database.write() as connection:
        connection.execute(text("INSERT INTO nowhere VALUES (:word)"), {"word": WORD})

    logging.getLogger("bus.journal").error("failed", exc_info=caught.value)

    assert WORD not in logged() + str(caught.value)


@pytest.mark.parametrize("value", [":word", "CAST(:word AS integer)"])
def test_a_row_that_does_not_fit_shows_no_values(logged: Callable[[], str], database: Database, value: str) -> None:
    def insert() -> None:
        with database.write() as connection:
            connection.execute(text("CREATE TEMPORARY TABLE kept (word TEXT PRIMARY KEY)"))
            connection.execute(text(f"INSERT INTO kept VALUES ({value}), ({value})"), {"word": f'"{WORD}" and more'})

    with pytest.raises((CallboardError, DBAPIError)) as caught:
        insert()

    logging.getLogger("bus.journal").error("failed", exc_info=caught.value)

    assert WORD not in logged() + str(caught.value)
    assert WORD not in str(caught.value.__cause__) + repr(caught.value)


def test_celery_shows_ids_of_a_task_and_nothing_else() -> None:
    wire = RunAgentMessage(run_id="run_1", agent_id="assistant", thread_id="thr_1").to_wire()
    message = Celery("shown", set_as_current=False).amqp.as_task_v2("1", RunAgentMessage.name, args=(wire,))

    assert set(wire) == {"v", "run_id", "agent_id", "thread_id", "detached", "definition_digest"}
    assert "run_1" in message.headers["argsrepr"]
