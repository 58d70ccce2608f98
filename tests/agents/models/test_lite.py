"""LiteLLM does nothing of its own accord."""

from __future__ import annotations

import importlib
import json
import logging
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from agents.models import lite
from agents.models.call import ModelCall
from agents.models.lite import litellm_module, replace_functions
from agents.models.open import open_stream
from bus.loop import ProcessLoop
from config.redaction import redact
from handlers.worker.warm_up import warm_up, warm_up_to_fork
from tests.agents.models.conftest import WEATHER, read
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


CALLED = {"id": "call_1", "type": "function", "function": {"name": "get_weather", "arguments": '{"city": "Pécs"}'}}
CONVERSATION: list[dict[str, Any]] = [
    {"role": "system", "content": "Täglich."},
    {"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "image_url", "image_url": {"url": "data:x"}}]},
    {"role": "assistant", "content": None, "tool_calls": [CALLED], "thinking_blocks": [{"type": "thinking", "x": 1}]},
    {"role": "tool", "tool_call_id": "call_1", "name": "get_weather", "content": "warm \u2028 \x7f"},
    {"role": "assistant", "content": "It is warm."},
    {"role": "user", "content": ""},
]


@pytest.fixture
def completions() -> Any:
    """The SDK's module, whose function is ours. Imported here, or collecting tests would cost seconds of LiteLLM's."""
    litellm_module()
    from openai.resources.chat.completions import completions

    return completions


def sent(run: Any, server: Any, call: Any) -> Any:
    async def ask() -> None:
        stream = await open_stream(call)
        while await stream.reader.read() is not None:
            pass
        await stream.reader.aclose()

    run(ask())
    request = server.requests[-1]
    return request.path, json.dumps(request.body), {**request.headers, "x-stainless-read-timeout": ""}


@pytest.mark.parametrize("model", ["openai/gpt-5-mini", "openai/o1", "openai/test", "azure/test"])
def test_what_the_provider_gets_is_the_same_to_the_byte(run, server, call_of, completions, monkeypatch, model):
    plain = completions.async_maybe_transform.__wrapped__
    call = call_of(
        model, messages=CONVERSATION, tools=[WEATHER], tool_choice="auto", params={"temperature": 1, "seed": 3}
    )

    quick = sent(run, server, call)
    monkeypatch.setattr(completions, "async_maybe_transform", plain)
    slow = sent(run, server, call)

    assert quick == slow
    assert json.loads(quick[1])["messages"]


@pytest.mark.usefixtures("completions")
def test_the_sdk_looks_at_no_plain_request(run, server, call_of, monkeypatch):
    from openai._utils import _transform

    looks = []
    real = _transform._async_transform_recursive

    def counted(*arguments: Any, **options: Any) -> Any:
        looks.append(1)
        return real(*arguments, **options)

    monkeypatch.setattr(_transform, "_async_transform_recursive", counted)

    sent(run, server, call_of(messages=[{"role": "user", "content": "Hi"}], tools=[WEATHER], params={"seed": 3}))

    assert looks == []


@pytest.mark.parity
@pytest.mark.parametrize(
    "messages",
    [
        [{"role": "user", "content": [{"type": "text", "text": "x", "at": datetime(2026, 1, 1, tzinfo=UTC)}]}],
        ({"role": "user", "content": "a tuple"},),
        None,
    ],
)
def test_what_is_not_plain_is_still_transformed(run, completions, monkeypatch, messages):
    received = []

    async def transform(data: Any, expected: object) -> Any:
        received.append(data)
        return data

    monkeypatch.setattr(completions, "async_maybe_transform", transform)
    replace_functions()
    request = {"messages": messages, "model": "x"}

    assert run(completions.async_maybe_transform(request, dict)) == request
    assert received == [request]


@pytest.mark.parity
def test_plain_messages_are_not_transformed_beside_a_parameter_that_is(run, completions, monkeypatch):
    async def transform(data: Any, expected: object) -> Any:
        return {**data, "since": "2026-01-01"}

    monkeypatch.setattr(completions, "async_maybe_transform", transform)
    replace_functions()
    request = {"messages": [{"role": "user"}], "since": datetime(2026, 1, 1, tzinfo=UTC)}

    assert run(completions.async_maybe_transform(request, dict)) == {**request, "since": "2026-01-01"}


@pytest.mark.parity
def test_an_sdk_without_the_function_keeps_working(completions, monkeypatch, caplog):
    monkeypatch.delattr(completions, "async_maybe_transform")

    replace_functions()

    assert "long conversations take longer" in caplog.text


@pytest.mark.parity
def test_it_is_put_in_once(completions):
    before = completions.async_maybe_transform

    replace_functions()

    assert completions.async_maybe_transform is before


SCHEMA = {"type": "json_schema", "json_schema": {"name": "answer", "schema": {"type": "object"}}}


@pytest.mark.parametrize(
    ("model", "kind"), [("openai/gpt-3.5-turbo", "json_object"), ("openai/gpt-5-mini", "json_schema")]
)
def test_a_model_without_a_schema_mode_is_asked_for_a_json_object(
    model: str,
    kind: str,
    server: ModelServer,
    call_of: Callable[..., ModelCall],
    run: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OPENAI_API_BASE", server.url)
    monkeypatch.setenv("OPENAI_BASE_URL", server.url)

    run(read(call_of(model, api_base=None, response_format=SCHEMA)))

    (request,) = server.requests
    assert request.body["response_format"]["type"] == kind


def test_signed_thinking_of_another_provider_is_not_sent_back(
    server: ModelServer, call_of: Callable[..., ModelCall], run: Any
) -> None:
    thought = {"type": "thinking", "thinking": "Hm.", "signature": "c2ln"}
    answer = {"role": "assistant", "content": "Yes.", "thinking_blocks": [thought]}

    run(read(call_of("openai/gpt-test", messages=[answer, {"role": "user", "content": "And?"}])))

    assert server.requests[0].body["messages"][0] == {"role": "assistant", "content": "Yes."}
