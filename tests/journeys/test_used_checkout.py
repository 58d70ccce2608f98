"""A checkout that is used: its user's files, packages, settings and `up` fail neither the checks nor the tests.

All tests are collected there, and a sample of each group is run; `python -m tests.used_checkout` runs all of them.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from cli.devtools.checks import MARKS
from config.folders import ROOT
from tests.used_checkout import FILES, UsedCheckout

pytestmark = [pytest.mark.journey, pytest.mark.slow, pytest.mark.timeout(600)]

SAMPLES = {
    "unit": """
        tests/config/definitions/test_dotted_path.py tests/config/policy/test_policy_page.py
        tests/config/test_private_files.py tests/config/test_settings.py tests/agents/test_shipped_agents.py
        tests/agents/tools/test_catalogue.py tests/observers/test_discovery.py tests/cli/doctor tests/test_words.py
        """,
    "parity": "tests/cli/test_main.py",
    "journeys": "tests/journeys/test_doctor.py tests/journeys/test_keyless_web.py",
    "browser": "tests/browser/test_start_page.py",
    "postgres": "tests/cli/doctor/test_workers.py",
}
"""Group -> tests of it that read definitions, settings, plugins, or each file of a folder."""
IMPORT_ALL = ("unit", "journeys", "browser")
"""Groups that import each file of tests between them; the others select from the same files."""


@pytest.fixture(scope="module")
def used(tmp_path_factory: pytest.TempPathFactory) -> Iterator[UsedCheckout]:
    """A used checkout whose `up` runs."""
    checkout = UsedCheckout(tmp_path_factory.mktemp("used"))
    with checkout.up():
        yield checkout


def test_the_copy_is_really_used(used: UsedCheckout) -> None:
    said = used.callboard("agents", "librarian")
    deployment = used.python("-P", "-c", "from config.settings import settings; print(settings().deployment)")

    assert said.returncode == 0, said.stdout + said.stderr
    assert "✓ librarian" in said.stdout
    assert said.stderr.startswith("warning: `import config` finds Callboard's folder and hides "), said.stderr
    assert deployment.stdout == "theirs\n", "the files and the environment count for the user"


def test_format_lint_imports_and_types_look_at_our_own_files_only(used: UsedCheckout) -> None:
    ran = used.callboard("check", "--static")

    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "left out, since they are not staged in git: config/agents/aardvark.yaml, " in ran.stdout


def test_fixing_leaves_the_users_files_alone(used: UsedCheckout) -> None:
    ran = used.callboard("check", "--fix", "--static")

    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert (used.root / "tests" / "test_mine.py").read_text() == FILES["tests/test_mine.py"]


def test_every_test_is_collected_without_the_users_things(used: UsedCheckout) -> None:
    groups = [word for group in IMPORT_ALL for word in ("--only", group)]

    ran = used.callboard("test", *groups, "--", "-n", "0", "--collect-only", "--disable-warnings")

    assert ran.returncode == 0, ran.stdout[-6000:] + ran.stderr[-2000:]
    assert ran.stdout.count(" tests collected") == len(IMPORT_ALL)


@pytest.mark.parametrize("group", MARKS)
def test_tests_do_not_meet_the_users_things(group: str, used: UsedCheckout) -> None:
    files = SAMPLES[group].split()
    assert [name for name in files if not (ROOT / name).exists()] == []

    ran = used.callboard("test", "--only", group, "--", "-n", "0", *files)  # few; a process costs 2 s

    assert ran.returncode == 0, ran.stdout[-6000:] + ran.stderr[-2000:]
    assert " passed" in ran.stdout
    assert not used.has_started_a_server, "a test started an MCP server of the user's"
