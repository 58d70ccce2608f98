"""The functions that read text of a model, tool, peer or file: a test and a benchmark drive each with hostile text."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from gunicorn.config import Config
from gunicorn.http.errors import ParseException
from sqlalchemy import create_engine
from sqlalchemy.exc import OperationalError

from agents.governance.guardrails.scan import Scan
from agents.governance.guardrails.stream import StreamRedactor
from agents.models.call import ModelCall
from agents.models.demo.reader import answer as demo_answer
from agents.models.failures import parse_error_body, retry_after_s
from agents.models.streams.anthropic import AnthropicWire
from agents.models.streams.chunk import ToolDelta, finish_word
from agents.models.streams.lines import EventLines
from agents.models.streams.openai import OpenAIWire
from agents.models.streams.tool_calls import CallCollector
from agents.models.streams.wire import carried_error, load, malformed, not_a_stream
from agents.steps.model_request import parse_output
from agents.tools.calculator import calculator
from agents.tools.http import to_result as http_result
from agents.tools.mcp.connection.traffic import EventValues, TooMuch, require_flat
from agents.tools.mcp.reading_tools import is_named, may_name
from agents.tools.results import MAX_BYTES, to_result
from agents.tools.schema import describe, parse_arguments
from bus.broker.envelope import command_of, rewrite_item
from bus.journal.log.line import to_line, unpack
from bus.journal.readers import Line
from bus.messages.run_agent import RunAgentMessage
from bus.payloads import decode
from cli.output.markdown import MAX_LINE_CHARS, line_rows, table_rows
from cli.output.table import Column, Table
from config.database.error_codes import named_error
from config.definitions.guardrails.checks import Checks
from config.definitions.schemas.json_schema import check_schema, schema_errors
from config.definitions.secrets import require_no_credentials
from config.definitions.webhooks.signatures import FORMATS, problem_of
from config.definitions.yaml_lines import read_yaml
from config.egress.errors import UrlRefused
from config.egress.exchange import HttpAnswer, Limits
from config.egress.request import checked_headers
from config.egress.target import parse_target
from config.expressions.errors import ExpressionFailed, ExpressionRefused
from config.expressions.template_syntax import MAX_SOURCE
from config.expressions.templates import Template
from config.expressions.work import split_texts
from config.redaction import Redactor, redact_start, secrets_in_url
from config.redis.url import each_url, without_password
from config.text.names import did_you_mean
from config.text.visible import one_line, visible
from observers.channels.mailbox import responses_in
from observers.channels.mails import MailPart, envelope_of, parts_in, text_of
from observers.channels.texts import parts_of, shown
from observers.logfile import reader as logfiles
from observers.logfile.record import HeldText, cleaned
from web.calls.bodies import parse_object
from web.security import name_in
from web.server.incoming import MAX_CHUNKS, BodyTooLarge, Incoming, decode_body

REDACT = Redactor({"ACME_API_KEY": "plain-looking-value", "OTHER_TOKEN": "a" * 40})
GUARD = Scan(Checks(pii="redact"), REDACT)
CONFIG = Config()
CHUNKED = b"POST /v1/runs HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
SCHEMA = {"type": "object", "properties": {"a": {"type": "string", "pattern": "^(a+)+$"}}, "uniqueItems": True}


def _counted(text: str) -> None:
    """Count the values of what a server of MCP streams, in pieces of the network."""
    values = EventValues(4 * len(text))
    data = b"data: " + text.encode("utf-8", "replace") + b"\n\n"
    with suppress(TooMuch):
        for at in range(0, len(data), 1400):
            values.arrived(data[at : at + 1400])


def _flat(text: str) -> None:
    with suppress(TooMuch):
        require_flat(text.encode("utf-8", "replace"))


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
    results_shown = [{"role": "tool", "tool_call_id": "1", "content": result} for result in results]
    return ModelCall(model="demo/assistant", messages=[{"role": "user", "content": sentence}, *results_shown])


def envelope_with(text: str) -> object:
    """Read headers whose values are the text, as long as a channel fetches them."""
    names = "From Subject References Message-ID Authentication-Results Precedence".split()
    head = "".join(f"{name}: {text[:10_000]}\r\n" for name in names)
    return envelope_of(head.encode(errors="replace")[:65_536], "steward@callboard.example", "mx")


def mail_part(kind: str) -> MailPart:
    names = {"encoding": "quoted-printable", "charset": "utf-8", "file_name": ""}
    return MailPart(section="1", kind=kind, is_attachment=False, **names)


def structure_of(line: bytes) -> object:
    return [list(parts_in(value)) for values in responses_in([line]) for value in values.values()]


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


def _signed(text: str) -> None:
    names = ("webhook-id", "webhook-timestamp", "webhook-signature", "x-hub-signature-256", "stripe-signature")
    for value in (text[:8190], ("v1," + text)[:8190], ("t=1,v1=" + text)[:8190], "v1,=" * 2000, "v1=," * 2000):
        for format_ in FORMATS:
            problem_of(format_, dict.fromkeys(names, value), text.encode("utf-8", "replace"), [b"a", b"b"], 0)


def _lines(text: str) -> None:
    lines, data = EventLines(), text.encode("utf-8", "replace")
    for at in range(0, len(data), 64 * 1024):
        lines.feed(data[at : at + 64 * 1024])


def _held(text: str) -> None:
    held = HeldText(REDACT)
    for at in range(0, len(text), 200):
        held.add(text[at : at + 200])
    held.rest()


def _streamed(text: str) -> None:
    guard = StreamRedactor(GUARD)
    for at in range(0, len(text), 200):
        guard.add(text[at : at + 200])
    guard.rest()


def _chunked(text: str) -> None:
    """Read a chunked body of the text: inside of chunks of a byte and of 1 KiB, where sizes stand, and as a trailer."""
    data = text.encode("utf-8", "replace")
    by_byte, by_kib = _chunks(data[: 2 * MAX_CHUNKS], 1), _chunks(data, 1024)
    for body in (by_byte, by_kib, data, b"1;" + data, b"0\r\na: " + data):
        reader = Incoming(CONFIG, ("127.0.0.1", 1))
        reader.feed(CHUNKED)
        with suppress(ParseException, BodyTooLarge):
            for at in range(0, len(body), 64 * 1024):
                reader.feed(body[at : at + 64 * 1024])
                if (request := reader.take()) is not None:
                    decode_body(request)
                    break


def _chunks(data: bytes, size: int) -> bytes:
    pieces = (data[at : at + size] for at in range(0, len(data), size))
    return b"".join(b"%x\r\n%s\r\n" % (len(piece), piece) for piece in pieces) + b"0\r\n\r\n"


def _withdrawn(text: str) -> object:
    data = b'{"ranges":[[' + text.encode("utf-8", "replace") + b"]]}"
    return Line(seq=1, type="withdrawn", data=data).withdrawn_ranges


def _database_error(text: str) -> object:
    return named_error(OperationalError(text, {}, Exception(text)), create_engine("sqlite://"))


def _yaml(text: str) -> object:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "agent.yaml"
        path.write_text(text, "utf-8", "replace")
        return read_yaml(path, "`name: ...`")


def _template(text: str) -> None:
    for source in (text[:MAX_SOURCE], f"{{{{ {text[: MAX_SOURCE - 10]}", f"{{{{ '{text[: MAX_SOURCE - 10]}' }}}}"):
        with suppress(ExpressionRefused):
            Template(source)


def _rendered(source: str, text: str) -> None:
    with suppress(ExpressionFailed):
        Template(source).value({"input": {"a": text}})


def _target(text: str) -> None:
    for url in (text, "https://" + text, "https://example.org/" + text, "https://[" + text):
        with suppress(UrlRefused):
            parse_target(url)
    with suppress(UrlRefused):
        parse_target("https://example.org/a/b").joined(text)


def _answered(text: str) -> None:
    body = text.encode("utf-8", "replace")[: Limits().max_bytes]
    for kind in ("application/json", "text/plain; charset=gb18030", text[:8192]):
        http_result(HttpAnswer(status=200, url="", headers={"content-type": kind, "link": text}, body=body))


ON_THE_LOOP: Mapping[str, Callable[[str], object]] = {
    "a result of a tool": to_result,
    "an expression": calculator,
    "redaction": REDACT,
    "the start of a redacted text": lambda text: redact_start(text, 400),
    "secrets of an address": secrets_in_url,
    "an event": lambda text: load(text.encode("utf-8", "replace")),
    "a malformed event": lambda text: malformed(text.encode("utf-8", "replace")),
    "an answer that is no stream": lambda text: not_a_stream(text.encode("utf-8", "replace"), text),
    "an error inside a stream": lambda text: carried_error({"message": text, "type": text, "code": text}),
    "an error body": parse_error_body,
    "Retry-After": lambda text: retry_after_s({"retry-after": text}),
    "a finish reason": finish_word,
    "an item of the queue": lambda text: rewrite_item(text, "runs"),
    "a message of the queue": lambda text: command_of("callboard.run_agent", "application/json", text),
    "a command": lambda text: RunAgentMessage.from_wire({"v": 1, "run_id": text}),
    "a line of the hot log": lambda text: to_line(b'{"seq":' + text.encode("utf-8", "replace") + b',"type":"a"}'),
    "withdrawn numbers": _withdrawn,
    "a body of lines": lambda text: unpack(text.encode("utf-8", "replace")),
    "an event of the log": decode,
    "the headers of a webhook": _signed,
    "a request's body": lambda text: parse_object(text.encode("utf-8", "replace")),
    "a body in chunks": _chunked,
    "a Host header": name_in,
    "a logged value": cleaned,
    "an error of the database": _database_error,
    "a broker's address": each_url,
    "an address as it is shown": without_password,
    "params of a definition": lambda text: require_no_credentials({"user": text, "headers": {"a": text}}),
    "a name with a near one": lambda text: did_you_mean(text[:80], ["support", "billing"]),
    "a sentence for the demo model": lambda text: demo_answer(_asked(text)),
    "a result for the demo model": lambda text: demo_answer(_asked("Where is it?", text[:MAX_BYTES])),
    "a line of a log file": lambda text: (logfiles._TEXT.match(text), logfiles._JSON.match(text)),
    "a near line of a log file": lambda text: logfiles._TEXT.match("2026-11-21T10:00:00Z  run_1  1  a" + text),
    "an address to ask": _target,
    "an answer over HTTP": _answered,
    "a header to send": lambda text: checked_headers([("X-A", text), (text, "a")]),
    "a schema": lambda text: check_schema({"type": "object", "description": text}),
}
"""What the loop of a worker or the web process does at once."""


ON_A_THREAD: Mapping[str, Callable[[str], object]] = {
    "a large piece of streamed text": lambda text: StreamRedactor(GUARD).add(text),
    "a large result of a tool, without secrets and personal data": lambda text: GUARD.clean(text[:MAX_BYTES]),
    "a structured answer": lambda text: parse_output(text, SCHEMA),
    "arguments of a tool": parse_arguments,
    "data held against a schema": lambda text: schema_errors(SCHEMA, {"a": text}),
    "a list held against a schema": lambda text: schema_errors({"type": "array", "uniqueItems": True}, text.split(",")),
    "an agent's file": _yaml,
    "a template": _template,
    "a template's data": lambda text: _rendered("{{ input.a | replace('a', 'b') | urlencode | tojson }}", text),
    "an expression in CEL": split_texts,
    "Markdown on a terminal": lambda text: [line_rows(line[:MAX_LINE_CHARS], 80) for line in text.split("\n")],
    "a table in Markdown": lambda text: table_rows(["| a |", "|-|", text[:MAX_LINE_CHARS]], 80),
    "a title in a list": lambda text: Table("title", [Column("TITLE", "title")]).lines([{"title": text}], 80),
}
"""What a thread works on where the text is long (``agents/tools/results.py``), or always."""
IN_PIECES: Mapping[str, Callable[[str], object]] = {
    "lines of an event stream": _lines,
    "pieces of tool calls": _collected,
    "held text": _held,
    "streamed text": _streamed,
    "a docstring": _described,
    "a log line": one_line,
    "text for a terminal": visible,
    "headers of a mail": envelope_with,
    "text of a mail": lambda text: text_of(text.encode(errors="replace")[:65_536], mail_part("text/plain")),
    "text of a mail in HTML": lambda text: text_of(text.encode(errors="replace")[:65_536], mail_part("text/html")),
    "structure of a mail": lambda text: structure_of(f"1 (UID 1 BODYSTRUCTURE ({text}".encode(errors="replace")),
    "text for a channel": lambda text: parts_of(shown(text), 1990),
    "what an MCP server streams": _counted,
    "what an MCP server writes": _flat,
    "a resource's URI": lambda text: is_named(text, ["file:///srv/*", "*a*b*c*"]),
    "a resource's template": lambda text: may_name(text, ["file:///srv/*"]),
    "OpenAI's stream": _fed(OpenAIWire),
    "Anthropic's stream": _fed(AnthropicWire),
}
"""Functions that take a text in many steps, between which others continue."""
