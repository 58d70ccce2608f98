"""Every function that reads text of a model, tool, peer or file takes hostile text in linear time, or refuses it.

The bar is 50 ms for 1 MiB on the loop. A busy machine doubles a figure and more, so a slow one is measured again, and
what takes four times the bar fails. Before the whole length an eighth is tried: what would take minutes fails soon.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from agents.models.anthropic_wire import AnthropicWire
from agents.models.call import ModelCall
from agents.models.calls import CallCollector
from agents.models.chunk import ToolDelta
from agents.models.demo.answer import answer as demo_answer
from agents.models.failures import retry_after_s
from agents.models.finish import finish_word
from agents.models.openai_wire import OpenAIWire
from agents.models.said import said_in
from agents.models.sse_lines import EventLines
from agents.models.wire import carried_error, load, malformed, not_a_stream
from agents.output import parse_output
from agents.tools.arguments import parse_arguments
from agents.tools.calculator import calculator
from agents.tools.docstring import describe
from agents.tools.results import MAX_BYTES, to_result
from bus.envelope import command_of, rewrite_item
from bus.journal.line import to_line, unpack
from bus.messages import RunAgentMessage
from bus.payloads import decode
from config.credentials import require_no_credentials
from config.errors import did_you_mean
from config.json_schema import check_schema, misfits
from config.redaction import Redactor, redact_start, secrets_in_url
from config.redis_url import each_url, without_password
from observers import logfiles
from observers.held_text import HeldText
from observers.log_lines import one_line
from observers.log_record import cleaned
from tests.hostile_text import SHAPES
from web.bodies import parse_object
from web.security import HOST
from web.terminal.transcript import safe

MIB = 1024 * 1024
BAR_S = 0.05
REDACT = Redactor({"ACME_API_KEY": "plain-looking-value", "OTHER_TOKEN": "a" * 40})
SCHEMA = {"type": "object", "properties": {"a": {"type": "string", "pattern": "^(a+)+$"}}, "uniqueItems": True}


def _fed(wire: Any) -> Callable[[str], object]:
    """Return a function that feeds a wire an event with the text, and the text as it is, in pieces of the network."""

    def feed(text: str) -> None:
        data = text.encode("utf-8", "replace")
        for body in (data, b"data: " + data.replace(b"\n", b" ") + b"\n\n", b'data: {"choices":[{"delta":' + data):
            reader = wire()
            for at in range(0, len(body), 1400):
                reader.feed(body[at : at + 1400])
            reader.end()

    return feed


def _asked(sentence: str, *results: str) -> ModelCall:
    told = [{"role": "tool", "tool_call_id": "1", "content": result} for result in results]
    return ModelCall(model="demo/assistant", messages=[{"role": "user", "content": sentence}, *told])


def _described(text: str) -> object:
    def tool() -> None: ...

    tool.__doc__ = f"Says.\n\nArgs:\n    {text}\n    a{text}"
    return describe(tool)


def _collected(text: str) -> None:
    calls = CallCollector()
    for at in range(0, min(len(text), 20_000), 4):
        calls.take(ToolDelta(index=0, name=text[at : at + 4]))
    for index in range(10_000):
        calls.take(ToolDelta(index=index, id=str(index), name=text[:20], arguments=text[:20]))
        calls.newly_named()
    calls.finish()


def _held(text: str) -> None:
    held = HeldText(REDACT)
    for at in range(0, len(text), 200):
        held.add(text[at : at + 200])
    held.rest()


FUNCTIONS: Mapping[str, Callable[[str], object]] = {
    "a structured answer": lambda text: parse_output(text, SCHEMA),
    "data held against a schema": lambda text: misfits(SCHEMA, {"a": text}),
    "a list held against a schema": lambda text: misfits({"type": "array", "uniqueItems": True}, text.split(",")),
    "arguments of a tool": parse_arguments,
    "a result of a tool": to_result,
    "an expression": lambda text: calculator(text[: len(text)]),
    "redaction": REDACT,
    "the start of a redacted text": lambda text: redact_start(text, 400),
    "secrets of an address": secrets_in_url,
    "lines of an event stream": lambda text: EventLines().feed(text.encode("utf-8", "replace")),
    "an event": lambda text: load(text.encode("utf-8", "replace")),
    "a malformed event": lambda text: malformed(text.encode("utf-8", "replace")),
    "an answer that is no stream": lambda text: not_a_stream(text.encode("utf-8", "replace"), text),
    "an error inside a stream": lambda text: carried_error({"message": text, "type": text, "code": text}),
    "an error body": said_in,
    "Retry-After": lambda text: retry_after_s({"retry-after": text}),
    "a finish reason": finish_word,
    "an item of the queue": rewrite_item,
    "a message of the queue": lambda text: command_of("callboard.run_agent", "application/json", text),
    "a command": lambda text: RunAgentMessage.from_wire({"v": 1, "run_id": text}),
    "a line of the hot log": lambda text: to_line(text.encode("utf-8", "replace")),
    "a body of lines": lambda text: unpack(text.encode("utf-8", "replace")),
    "an event of the log": decode,
    "a request's body": lambda text: parse_object(text.encode("utf-8", "replace")),
    "a Host header": HOST.fullmatch,
    "a logged value": cleaned,
    "a broker's address": each_url,
    "an address as it is shown": without_password,
    "params of a definition": lambda text: require_no_credentials({"user": text, "headers": {"a": text}}),
    "a name with a near one": lambda text: did_you_mean(text[:80], ["support", "billing"]),
    "a sentence for the demo model": lambda text: demo_answer(_asked(text)),
    "a result for the demo model": lambda text: demo_answer(_asked("Where is it?", text[:MAX_BYTES])),
    "a line of a log file": lambda text: (logfiles._TEXT.match(text), logfiles._JSON.match(text)),
    "a near line of a log file": lambda text: logfiles._TEXT.match("2026-11-21T10:00:00Z  run_1  1  a" + text),
    "a schema": lambda text: check_schema({"type": "object", "description": text}),
}


IN_PIECES: Mapping[str, Callable[[str], object]] = {
    "pieces of tool calls": _collected,
    "held text": _held,
    "a docstring": _described,
    "a log line": one_line,
    "text for a terminal": safe,
    "OpenAI's stream": _fed(OpenAIWire),
    "Anthropic's stream": _fed(AnthropicWire),
}
"""What takes a text in many steps that let others go on, or away from the loop."""


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_mebibyte_of_hostile_text_takes_no_longer_than_the_bar(name: str) -> None:
    slow = {}
    for shape in SHAPES:
        spent = _spent_s(FUNCTIONS[name], SHAPES[shape])
        if spent > 4 * BAR_S:
            slow[shape] = round(spent, 3)

    assert slow == {}


@pytest.mark.parametrize("name", IN_PIECES)
def test_pieces_of_hostile_text_take_linear_time(name: str) -> None:
    slow = {}
    for shape in SHAPES:
        before = max(_once(IN_PIECES[name], SHAPES[shape](MIB // 64)), 0.01)
        spent = _once(IN_PIECES[name], SHAPES[shape](MIB // 8))
        if spent > 2 * 8 * before:
            slow[shape] = (before, spent)

    assert slow == {}


def _spent_s(function: Callable[[str], object], shape: Callable[[int], str]) -> float:
    """Return the CPU seconds for 1 MiB, the least of three; where an eighth of it says enough, eight times that."""
    eighth = _once(function, shape(MIB // 8))
    if eighth > 4 * BAR_S or eighth < BAR_S / 16:  # even quadratic growth stays below four times the bar then
        return 8 * eighth
    text = shape(MIB)
    spent = _once(function, text)
    for _ in range(2):
        if spent > BAR_S:
            spent = min(spent, _once(function, text))
    return spent


def _once(function: Callable[[str], object], text: str) -> float:
    begun = time.thread_time()
    try:
        function(text)
    except (NameError, AttributeError):  # the table itself is wrong
        raise
    except Exception:  # hostile text is refused with all kinds of sentences; how soon is what counts
        pass
    return time.thread_time() - begun
