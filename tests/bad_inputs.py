"""Bad inputs of the surfaces that can be tried without a server, one by one.

``./callboard bench --only bad_inputs`` prints how long the slowest of each surface takes.
``tests/test_bad_inputs.py`` has the table of all classes of bad input with their tests.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from agents.governance.guardrails.scan import Scan
from agents.governance.guardrails.stream import StreamRedactor
from agents.tools.isolation.sandbox import Quota, Sandbox
from agents.tools.schema import parse_arguments
from bus.broker.envelope import rewrite_item
from bus.messages.message import MessageInvalid
from config.definitions.guardrails.checks import Checks, PatternCheck
from config.definitions.schemas.json_schema import SchemaRefused, check_schema, schema_errors
from config.egress.fetch import Fetcher
from config.egress.request import Outgoing
from config.egress.target import parse_target
from config.errors import CallboardError
from config.logs import JsonLines, TextLines
from config.redaction import Redactor
from tests import hostile_schemas
from tests.agents.tools.isolation import test_sandbox
from tests.agents.tools.test_schema import AMBIGUOUS as ARGUMENTS
from tests.bus import garbage
from tests.config import test_logs
from tests.config.egress import test_hostile_urls
from tests.config.redaction import test_redactor as test_redaction
from tests.web.test_bodies import AMBIGUOUS, HOSTILE
from web.calls.bodies import parse_object

Try = Callable[[], object]


def entries(folder: Path) -> Mapping[str, Mapping[str, Try]]:
    """Return the single inputs by surface: each raises one of our errors, or returns.

    ``folder`` is an empty folder for the sandbox.
    """
    sandbox = Sandbox(test_sandbox.furnish(folder), quota=Quota(max_bytes=0))
    return {
        "path sandbox": dict(_paths(sandbox)),
        "HTTP": {url: partial(_ask, url) for url in test_hostile_urls.HOSTILE},
        "regular expressions": dict(_patterns()),
        "JSON": dict(_json()),
        "JSON Schema": dict(_schemas()),
        "broker": dict(_items()),
        "logs and secrets": dict(_records()),
    }


def _paths(sandbox: Sandbox) -> Iterator[tuple[str, Try]]:
    for path in (*test_sandbox.OUTSIDE, *test_sandbox.LITERAL):
        yield f"read {path}", partial(sandbox.read_text, path)
        yield f"write {path}", partial(sandbox.write_text, path, "x")


def _ask(url: str) -> None:
    fetcher = Fetcher(resolver=test_hostile_urls.resolver)
    asyncio.run(fetcher.fetch(Outgoing(method="GET", target=parse_target(url))))


def _patterns() -> Iterator[tuple[str, Try]]:
    for pattern in hostile_schemas.PATTERNS:
        for text in (hostile_schemas.LETTERS, hostile_schemas.MIXED):
            yield f"{pattern} {text[:3]}", partial(_check, {"pattern": pattern}, text)
            yield f"{pattern} {text[:3]} as a name", partial(_check, {"patternProperties": {pattern: {}}}, {text: 1})

    for pattern in hostile_schemas.PATTERNS:
        for text in (hostile_schemas.LETTERS, hostile_schemas.MIXED):
            yield f"{pattern} {text[:3]} in a guardrail", partial(_guard, pattern, text)


def _guard(pattern: str, text: str) -> None:
    """Refuse the pattern, or search for it in a text as a whole and in one that is streamed."""
    with suppress(ValidationError):
        scan = Scan(Checks(patterns=(PatternCheck(name="hostile", pattern=pattern),)), Redactor({}))
        scan.clean(text)
        StreamRedactor(scan).add(text[:4096])


def _json() -> Iterator[tuple[str, Try]]:
    for name, body in {**AMBIGUOUS, **HOSTILE}.items():
        yield f"body {name}", partial(parse_object, body[: 2 * 1024 * 1024])
    for text, _ in ARGUMENTS:
        yield f"arguments {text[:40]}", partial(parse_arguments, text)


def _schemas() -> Iterator[tuple[str, Try]]:
    for name, schema in hostile_schemas.OUTWARD.items():
        yield name, partial(check_schema, schema)
    for name, (schema, make) in hostile_schemas.HEAVY.items():
        yield name, partial(_check, schema, make())


def _check(schema: Any, data: Any) -> None:
    check_schema(schema)
    schema_errors(schema, data)


def _items() -> Iterator[tuple[str, Try]]:
    inputs = garbage.unreadable() | garbage.huge() | garbage.not_ours() | garbage.asking_for_more()
    for name, item in inputs.items():
        yield name, partial(rewrite_item, item, "runs")


def _records() -> Iterator[tuple[str, Try]]:
    for form in (TextLines("web"), JsonLines("web")):
        for text in (test_logs.HOSTILE, *test_redaction.HOSTILE, "\n" * 100_000, "\x1b[31m" * 50_000):
            record = logging.makeLogRecord({"name": "x", "msg": "%s", "args": (text,), "field": text})
            yield f"{type(form).__name__} {text[:10]}", partial(form.format, record)


def is_accepted(entry: Try) -> bool:
    """Return whether an input is taken, as harmless text; False where one of our errors refuses it."""
    with suppress(CallboardError, SchemaRefused, MessageInvalid):
        entry()
        return False
    return True
