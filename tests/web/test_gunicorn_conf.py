"""gunicorn's own lines, in the format of all others."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Iterator

import pytest
from gunicorn.config import Config

from config.settings import settings
from web.gunicorn_conf import ServerLog


@pytest.fixture(autouse=True)
def clean_logger(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """gunicorn's logger as it is in a new process, and afterwards as it was."""
    log = logging.getLogger("gunicorn.error")
    for name in ("handlers", "level", "propagate", "disabled"):
        monkeypatch.setattr(log, name, vars(logging.Logger("new"))[name])
    yield
    settings.cache_clear()


def test_a_line_is_one_of_callboards(capsys: pytest.CaptureFixture[str]) -> None:
    ServerLog(Config()).info("Listening at: %s", "http://127.0.0.1:8000")

    line = r"\d{4}-\d\d-\d\dT[\d:.]+Z INFO    web gunicorn.error Listening at: http://127.0.0.1:8000\n"
    assert re.fullmatch(line, capsys.readouterr().err)


def test_a_line_is_json_where_that_is_configured(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CALLBOARD_LOG_FORMAT", "json")
    settings.cache_clear()

    ServerLog(Config()).error("Worker exited")

    assert json.loads(capsys.readouterr().err)["message"] == "Worker exited"
