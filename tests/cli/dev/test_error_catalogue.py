"""Every error is explained in one catalogue, from which docs/errors.md is written, and clients learn what to repeat."""

from __future__ import annotations

import re
from collections import Counter

import pytest

from cli.dev.error_catalogue import NO_ERROR, PAGE, ErrorEntry, catalogue, document, error_kinds
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


@pytest.mark.parametrize("entry", ENTRIES.values(), ids=lambda entry: entry.code)
def test_an_error_says_what_it_means_and_what_to_do(entry: ErrorEntry) -> None:
    assert SENTENCES.fullmatch(entry.meaning), "the first paragraph of the class's docstring"
    assert SENTENCES.fullmatch(entry.remedy)
    assert "|" not in entry.meaning + entry.remedy


@pytest.mark.parametrize("entry", [entry for entry in ENTRIES.values() if entry.status], ids=lambda entry: entry.code)
def test_the_status_says_whether_the_request_may_succeed_later(entry: ErrorEntry) -> None:
    assert entry.status in STATUSES
    assert entry.retryable is (entry.status in AFTER_A_WHILE)


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
