"""Every error is explained in one catalogue, from which docs/errors.md is written, and clients learn what to repeat."""

from __future__ import annotations

import re
from collections import Counter

from cli.dev.error_catalogue import NO_ERROR, PAGE, catalogue, document, error_kinds
from config.errors import Topic
from config.folders import FOLDERS, ROOT
from web.dialects.seeds.orchestrator import PASSING

ENTRIES = catalogue()
AFTER_A_WHILE = {408, 429, 503, 507}
"""The statuses of requests that may succeed later; their responses have `Retry-After`."""
STATUSES = {400, 401, 403, 404, 405, 409, 413, 414, 415, 417, 422, 431, 500, 501, 502, *AFTER_A_WHILE}
CODES = re.compile(r'(?:^    code = |^[A-Z_]+ = \w+\.row\(\s*)"(\w+)"', re.MULTILINE)
SENTENCES = re.compile(r"[A-Z`\[].*[.)]", re.DOTALL)


def test_every_error_of_the_sources_is_in_the_catalogue() -> None:
    sources = (path.read_text() for room in FOLDERS for path in (ROOT / room).rglob("*.py"))
    codes = {code for source in sources for code in CODES.findall(source)}

    assert ENTRIES.keys() == codes, "add the module to MODULES of cli/dev/error_catalogue.py"


def test_a_code_is_that_of_one_error() -> None:
    codes = Counter(kind.code for kind in error_kinds())

    assert [code for code, count in codes.items() if count > 1] == []


def test_an_error_says_what_it_means_and_what_to_do() -> None:
    """The meaning is the first paragraph of the class's docstring."""
    texts = [(entry.code, text) for entry in ENTRIES.values() for text in (entry.meaning, entry.remedy)]

    assert [(code, text) for code, text in texts if not SENTENCES.fullmatch(text) or "|" in text] == []


def test_the_status_says_whether_the_request_may_succeed_later() -> None:
    statuses = {entry.code: (entry.status, entry.retryable) for entry in ENTRIES.values() if entry.status}

    assert {code: status for code, (status, _) in statuses.items() if status not in STATUSES} == {}
    assert {code: row for code, row in statuses.items() if row[1] is not (row[0] in AFTER_A_WHILE)} == {}


def test_a_name_of_the_capability_design_stands_for_one_thing() -> None:
    names = [entry.seed_name for entry in ENTRIES.values() if entry.seed_name is not None] + [*NO_ERROR]

    twice = sorted({name for name in names if names.count(name) > 1})
    assert twice == ["UNAUTHORIZED"], "no valid envelope, and no role that a tool asks for"
    assert {"INPUT_VALIDATION_FAILED", "APPROVAL_REQUIRED", "UNAUTHORIZED", "NOT_CONFIGURED"} < set(names)


def test_process_says_of_the_same_errors_of_runs_that_they_may_pass() -> None:
    runs = {entry.code for entry in ENTRIES.values() if entry.topic is Topic.RUN and entry.retryable}

    assert runs == PASSING


def test_the_page_is_written_from_the_catalogue() -> None:
    assert PAGE.read_text() == document(), "python -m cli.dev.error_catalogue"
