"""gunicorn's own lines, in the format of all others."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Iterator

import pytest
from gunicorn.config import Config

from config.errors import SettingInvalid
from config.settings import settings
from web import gunicorn_conf
from web.gunicorn_conf import ServerLog
from web.server.worker import ThreadWorker


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


def test_gunicorns_own_tls_is_refused_instead_of_served_without() -> None:
    config = Config()
    config.set("certfile", "server.pem")

    with pytest.raises(SettingInvalid, match="CALLBOARD_TLS_CERTIFICATE"):
        ThreadWorker.check_config(config, None)


def test_gunicorn_believes_no_proxy_by_itself() -> None:
    config = Config()
    for name in ("forwarded_allow_ips", "forwarder_headers", "secure_scheme_headers"):
        config.set(name, getattr(gunicorn_conf, name))

    assert (config.forwarded_allow_ips, config.forwarder_headers, config.secure_scheme_headers) == ([], [], {})
