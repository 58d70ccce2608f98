"""LiteLLM does nothing of its own accord."""

from __future__ import annotations

import importlib
import logging
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

from agents.models import lite
from agents.models.call import ModelCall
from agents.models.lite import litellm_module
from bus.loop import ProcessLoop
from config.redaction import redact
from handlers.worker.warm_up import warm_up, warm_up_to_fork
from tests.agents.models.conftest import read
from tests.fleet import bare_environment
from tests.model_server import ModelServer, Turn

pytestmark = pytest.mark.parity


def test_nothing_but_the_answer_reaches_stdout_however_talkative_litellm_is(
    server: ModelServer,
    call_of: Callable[..., ModelCall],
    run: Any,
    capfd: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG, "LiteLLM")
    server.script([Turn(text="Hello you.")])

    run(read(call_of()))

    assert [record for record in caplog.records if record.name == "LiteLLM"]
    assert capfd.readouterr().out == ""


def test_an_opened_stream_is_not_priced_and_a_tools_own_call_is(
    server: ModelServer, call_of: Callable[..., ModelCall], run: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    litellm = litellm_module()
    priced: list[object] = []

    def price(**call: object) -> float:
        priced.append(call)
        return 0.5

    monkeypatch.setattr(litellm, "response_cost_calculator", price)
    server.script([Turn(text="Hello you."), Turn(text="Hello tool.")])

    run(read(call_of()))
    of_a_run = list(priced)
    hello = [{"role": "user", "content": "Hello"}]
    opened = run(
        litellm.acompletion(model="openai/gpt-5-mini", api_base=server.url, api_key="x", messages=hello, stream=True)
    )

    assert of_a_run == []
    assert opened._hidden_params["response_cost"] == 0.5


@pytest.mark.parity
def test_what_its_clients_import_when_they_are_collected_is_imported_with_it() -> None:
    """An import at the interpreter's end waits for ever when a thread of the process ended in the middle of one."""
    program = (
        "import sys; from agents.models.lite import litellm_module; litellm_module(); "
        "print('litellm.llms.custom_httpx.aiohttp_transport' in sys.modules)"
    )

    output = subprocess.check_output([sys.executable, "-c", program], env=bare_environment(), text=True)

    assert output.strip() == "True"


def test_what_of_litellm_is_replaced_is_there_and_in_use() -> None:
    """Another release may call it otherwise, and is only slower; with the one of the lock nothing is."""
    litellm_module()
    from litellm.litellm_core_utils import litellm_logging, secret_redaction
    from openai.resources.chat.completions import completions

    assert secret_redaction.python_redact_string is redact
    assert hasattr(litellm_logging.Logging.response_cost_calculator, "__wrapped__")
    assert hasattr(vars(completions)["async_maybe_transform"], "__wrapped__")
    assert "hidden-by-us" not in secret_redaction.redact_internal_details("password=hidden-by-us")


LOGGING = "litellm.litellm_core_utils.litellm_logging"
REDACTION = "litellm.litellm_core_utils.secret_redaction"


@pytest.mark.parametrize(
    ("patch", "module", "owner", "name", "words"),
    [
        ("replace_functions", REDACTION, "", "python_redact_string", "redacts err"),
        ("replace_functions", LOGGING, "Logging", "response_cost_calculator", "prices each stream"),
        ("replace_functions", LOGGING, "", "Logging", "prices each stream"),
        ("_import_what_comes_late", "litellm.types.utils", "", "ModelResponseStream", "first answer takes longer"),
    ],
)
def test_a_release_without_what_is_replaced_is_used_with_a_warning(
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    patch: str,
    module: str,
    owner: str,
    name: str,
    words: str,
) -> None:
    litellm_module()
    holder = importlib.import_module(module)
    monkeypatch.delattr(getattr(holder, owner) if owner else holder, name)

    getattr(lite, patch)()

    assert words in caplog.text


@pytest.mark.parametrize(
    ("patch", "module", "words"),
    [
        ("replace_functions", "litellm.litellm_core_utils.secret_redaction", "redacts errors itself"),
        ("replace_functions", "litellm.litellm_core_utils.litellm_logging", "prices each stream"),
        ("_import_what_comes_late", "litellm.llms.custom_httpx.aiohttp_transport", "first answer takes longer"),
        ("replace_functions", "openai.resources.chat.completions.completions", "transforms each message"),
    ],
)
def test_a_release_without_the_module_of_it_is_used_with_a_warning(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, patch: str, module: str, words: str
) -> None:
    litellm_module()
    monkeypatch.setitem(sys.modules, module, None)  # importing it raises ImportError

    getattr(lite, patch)()

    assert words in caplog.text


def test_a_worker_starts_without_litellm_so_that_runs_can_say_what_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken() -> None:
        raise ImportError("No module named 'aiohttp'")

    monkeypatch.setattr(lite, "process_import", lite.LiteLLMImport(broken))
    loop = ProcessLoop()

    try:
        warm_up(loop)
        warm_up_to_fork()
    finally:
        loop.stop()
