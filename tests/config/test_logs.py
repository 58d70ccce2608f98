import io
import json
import logging

import pytest

from config.logs import NOISY, acting_for, configure_logging, line_format
from config.settings import Settings
from config.text.visible import one_line

HOSTILE = "two\nlines\r\x1b[31mred\x00\u2028\u202eevil\ud800"


@pytest.fixture
def written(settings):
    """Configure logging into a buffer; afterwards the loggers are as they were."""
    root = logging.getLogger()
    before = root.handlers[:]
    levels = {logger: logger.level for logger in (root, *map(logging.getLogger, NOISY))}
    buffer = io.StringIO()

    def configure(form: str) -> io.StringIO:
        configure_logging(settings.model_copy(update={"log_format": form}), "worker-1", buffer)
        return buffer

    yield configure
    root.handlers[:] = before
    for logger, level in levels.items():
        logger.setLevel(level)
    logging.captureWarnings(False)


def test_a_text_line_has_time_level_process_logger_message_and_ids(written):
    buffer = written("text")

    logging.getLogger("bus.relay").info("published the wake-up", extra={"run_id": "r_1", "delay_ms": 3})

    at, rest = buffer.getvalue().rstrip("\n").split(" ", 1)
    assert at.endswith("Z")
    assert rest == "INFO    worker-1 bus.relay published the wake-up run_id=r_1 delay_ms=3"


def test_a_json_line_has_the_same_as_fields(written):
    buffer = written("json")

    logging.getLogger("bus.relay").warning("published %d", 3, extra={"run_id": "r_1", "delay_ms": 3})

    line = json.loads(buffer.getvalue())
    assert {k: line[k] for k in line if k != "at"} == {
        "level": "warning",
        "process": "worker-1",
        "logger": "bus.relay",
        "message": "published 3",
        "run_id": "r_1",
        "delay_ms": 3,
    }


@pytest.mark.parametrize("form", ["text", "json"])
def test_one_record_is_one_line_whatever_is_in_it(written, form):
    buffer = written(form)

    try:
        raise ValueError(HOSTILE)
    except ValueError:
        logging.getLogger("x").exception("failed: %s", HOSTILE, extra={"input": HOSTILE})

    text = buffer.getvalue()
    assert text.count("\n") == 1
    assert len(text.splitlines()) == 1
    assert "\x1b" not in text
    text.encode()
    if form == "json":
        assert "ValueError" in json.loads(text)["traceback"]


@pytest.mark.parametrize("form", ["text", "json"])
def test_no_secret_in_message_fields_or_traceback(written, form):
    buffer = written(form)
    secret = "sk-ant-api03-Ab12Cd34Ef56Gh78Ij90"

    try:
        raise ValueError(f"refused {secret}")
    except ValueError:
        logging.getLogger("x").exception("called with %s", secret, extra={"header": f"Bearer {secret}"})

    assert secret not in buffer.getvalue()
    assert buffer.getvalue().count("[redacted]") >= 3


def test_a_wrong_format_string_is_written_and_not_lost(written):
    buffer = written("text")

    logging.getLogger("x").info("%d things", "many")

    assert "%d things ('many',)" in buffer.getvalue()


def test_debug_lines_appear_only_when_asked_for(written, settings):
    buffer = written("text")
    logging.getLogger("x").debug("hidden")

    configure_logging(settings.model_copy(update={"debug": True}), "web", buffer)
    logging.getLogger("x").debug("shown")

    assert "hidden" not in buffer.getvalue()
    assert "shown" in buffer.getvalue()


def test_one_line_keeps_ordinary_text():
    assert one_line("Grüße, 世界 🎭") == "Grüße, 世界 🎭"


@pytest.mark.parametrize("log_format", ["text", "json"])
def test_a_record_has_the_tenant_and_the_principal_it_is_about(log_format: str) -> None:
    formatter = line_format(Settings(log_format=log_format), "web")  # type: ignore[arg-type]  # one of the two
    record = logging.makeLogRecord({"name": "x", "levelname": "INFO", "msg": "did it", "tenant": "named"})
    token = acting_for.set(("acme", "ci"))
    try:
        line, own = formatter.format(logging.makeLogRecord({"name": "x", "msg": "did it"})), formatter.format(record)
    finally:
        acting_for.reset(token)

    assert [word in line for word in ("acme", "ci")] == [True, True]
    assert ("acme" in own, "named" in own) == (False, True)
    assert "acme" not in formatter.format(record)


def test_an_mcp_request_that_ends_no_session_writes_no_line(written):
    buffer = written("text")

    logging.getLogger("mcp.server.streamable_http").info("Terminating session: None")

    assert buffer.getvalue() == ""
