"""LiteLLM does nothing of its own accord."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import pytest

from agents.models.call import ModelCall
from tests.agents.models.conftest import read
from tests.model_server import ModelServer, Turn


def test_nothing_but_the_answer_reaches_stdout_however_talkative_litellm_is(
    server: ModelServer, call_of: Callable[..., ModelCall], run: Any, capfd: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:  # fmt: skip
    caplog.set_level(logging.DEBUG, "LiteLLM")
    server.script([Turn(text="Hello you.")])

    run(read(call_of()))

    assert [record for record in caplog.records if record.name == "LiteLLM"]
    assert capfd.readouterr().out == ""
