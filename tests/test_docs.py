"""The documents name what the code has, their links lead somewhere, and their examples work."""

import json
import re
import subprocess
from pathlib import Path

import pytest
import yaml

from agents.tools.schema import build_tool
from bus.broker.celery_config import celery_config
from bus.payloads import DELTA_TYPES, EVENT_TYPES
from cli import COMMANDS
from cli.dev.commands.docs import llms_txt
from cli.dev.own_files import copy, own_files
from config.database.migrate import migrate
from config.definitions.agent import DefinitionFields
from config.definitions.loading import load_definition
from config.definitions.model_fields import Timeouts
from config.failpoints import PLACES
from config.folders import FOLDERS, ROOT
from config.settings import Settings
from tests import failure_model
from tests.bench.processes import clean_environment
from tests.processes import run_python

DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", *sorted(DOCS.rglob("*.md"))]
PAGES += sorted((ROOT / "clients").rglob("*.md"))
LINK = re.compile(r"\]\(([^)\s]+)\)|(?:src|srcset)=\"([^\"]+)\"")


def page(name: str) -> str:
    return (DOCS / name).read_text()


def examples(text: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.DOTALL | re.MULTILINE)


def test_every_setting_is_explained_with_its_default():
    row = re.compile(r"^.*\| `CALLBOARD_([A-Z0-9_]+)` \|.*$", re.MULTILINE)
    rows = {match[1].lower(): match[0] for match in reversed([*row.finditer(page("configuration.md"))])}

    assert [name for name in Settings.model_fields if name not in rows] == []
    defaults = {name: field.default for name, field in Settings.model_fields.items()}
    numbers = {name: value for name, value in defaults.items() if type(value) in (int, float)}
    assert [
        name
        for name, value in numbers.items()
        if f"| {value:g} |" not in rows[name] and f"| {value} |" not in rows[name]
    ] == []


def test_no_setting_is_explained_that_does_not_exist():
    explained = set(re.findall(r"^\| `CALLBOARD_([A-Z_]+)`", page("configuration.md"), re.MULTILINE))

    assert explained == {name.upper() for name in Settings.model_fields}


def test_few_settings_stand_first():
    _, first, *_ = page("configuration.md").split("\n## ")

    assert 20 <= len(re.findall(r"^\| `CALLBOARD_", first, re.MULTILINE)) <= 25


@pytest.mark.parametrize("kind", EVENT_TYPES.values())
def test_every_event_type_is_explained_with_its_hook(kind):
    assert f"| `{kind.type}` | `{kind.hook}` |" in page("observers.md")


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_is_explained(command):
    assert re.search(rf"^\| `{command}[ `]", page("terminal.md"), re.MULTILINE)


@pytest.mark.parametrize("field", [*DefinitionFields.model_fields, *Timeouts.model_fields])
def test_every_field_of_a_definition_is_explained(field):
    assert re.search(rf"^\| `{field}` \|", page("agents.md"), re.MULTILINE)


def test_why_celery_is_set_as_it_is_says_nothing_of_settings_that_are_gone():
    rows = re.findall(r"^\| (`.+?) \| .+? \| .+? \|$", page("operations.md"), re.MULTILINE)
    named = {name for row in rows for name in re.findall(r"`([a-z]+(?:_[a-z]+)+)`", row)}
    configured = celery_config(Settings(redis_url="redis://localhost"))

    assert named <= {*configured, *configured["broker_transport_options"]}


@pytest.mark.parametrize("document", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_link_leads_somewhere(document):
    broken = []
    for match in LINK.finditer(document.read_text()):
        target = (match[1] or match[2]).partition("#")
        if target[0] and "://" not in target[0] and not (document.parent / target[0]).exists():
            broken.append(str((document.parent / target[0]).resolve().relative_to(ROOT)))
        elif target[2] and not target[0].startswith("http"):
            other = document.parent / target[0] if target[0] else document
            if target[2] not in anchors(other):
                broken.append(f"{target[0]}#{target[2]}")

    assert broken == []


def test_every_test_a_page_points_at_exists():
    named = [(path.name, name) for path in PAGES for name in re.findall(r"`(tests/[\w/.-]+)`", path.read_text())]

    assert [(page_name, name) for page_name, name in named if not (ROOT / name).exists()] == []


SOURCE_PATH = re.compile(rf"`((?:{'|'.join(FOLDERS)}|clients|docs)/(?:[\w-]+/)*(?:[\w-]+\.(?:py|js|lua|md))?)`")


def test_every_file_of_ours_that_a_page_names_exists():
    pages = [path for path in PAGES if path.name != "CHANGELOG.md"]
    named = [(path.name, name) for path in pages for name in SOURCE_PATH.findall(path.read_text())]

    assert [
        (page_name, name) for page_name, name in named if name not in MADE_BY_USERS and not (ROOT / name).exists()
    ] == []


MADE_BY_USERS = {"config/capabilities/"}
"""Paths that the pages ask the reader to make."""


def test_a_tutorial_says_what_comes_of_it_what_to_break_and_where_to_read_on():
    """tests/journeys/test_tutorials.py plays them."""
    for path in (DOCS / "tutorials").rglob("*.md"):
        text = path.read_text()
        headings = re.findall(r"^## (.+)$", text, re.MULTILINE)

        assert text.partition("\n\n")[2].startswith("In "), path
        assert any("Break it" in heading for heading in headings), path
        assert headings[-1] == "Read on", path


def test_the_index_lists_every_page_once():
    """A decision is listed in docs/decisions/README.md."""
    index = DOCS / "README.md"
    links = [target for target, _ in LINK.findall(index.read_text())]
    listed = [str((DOCS / target).resolve().relative_to(ROOT)) for target in links]
    pages = [*DOCS.rglob("*.md"), *(ROOT / "clients").glob("*/README.md")]
    numbered = set((DOCS / "decisions").glob("0*.md"))

    assert sorted(listed) == sorted(str(path.relative_to(ROOT)) for path in {*pages} - numbered - {index})


def test_the_list_for_language_models_is_that_of_the_index():
    assert page("llms.txt") == llms_txt(), "./callboard docs writes it"


def test_the_index_is_of_four_kinds():
    assert re.findall(r"^## (.+)$", page("README.md"), re.MULTILINE) == ["Learn", "Do", "Look up", "Understand"]


def test_the_failure_model_has_a_row_for_each_failpoint_and_each_of_them_is_in_the_code():
    """Which commits there are, the sweep compares: tests/journeys/test_crash_points.py."""
    code = "".join(path.read_text() for room in ("agents", "bus") for path in python_of(room))

    assert {point for _, point in failure_model.rows()} == set(PLACES)
    assert {*re.findall(r"\bfailpoint\(\"([a-z-]+)\"\)", code)} == set(PLACES)


def test_the_changelog_says_what_the_first_release_can_do():
    assert len((ROOT / "CHANGELOG.md").read_text().splitlines()) <= 150


def test_every_decision_is_in_their_list_by_its_title() -> None:
    pages = sorted((DOCS / "decisions").glob("0*.md"))
    titles = [(path.read_text().splitlines()[0].removeprefix("# "), path.name) for path in pages]

    assert sorted(re.findall(r"^- \[(.*)\]\((.*)\)$", page("decisions/README.md"), re.M)) == sorted(titles)


def test_the_names_that_are_kept_of_the_designs_are_classes() -> None:
    rule = page("decisions/0007-names-kept-technologies-replaced.md")
    match = re.search(r"we use that name: ([\w,\s]+)\.", rule)
    source = "".join(
        path.read_text() for room in ("agents", "bus", "handlers", "observers") for path in python_of(room)
    )

    assert match is not None
    names = re.findall(r"\w+", match[1])
    assert [name for name in names if not re.search(rf"^class {name}\b", source, re.M)] == []
    assert {"Runner", "EndPayload"} <= set(names)


def python_of(room: str) -> list[Path]:
    return sorted((ROOT / room).rglob("*.py"))


def anchors(document: Path) -> set[str]:
    headings = re.findall(r"^#+ (.+)$", document.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("name", ["README.md", "docs/agents.md"])
def test_the_agents_of_the_pages_can_be_read(name, tmp_path):
    snippets = examples((ROOT / name).read_text(), "yaml")

    for number, text in enumerate(snippets):
        path = tmp_path / f"example-{number}.yaml"
        path.write_text(text)
        fields = yaml.safe_load(text)
        assert load_definition(path).name == fields.get("name", fields.get("agent_name"))
    assert snippets


@pytest.mark.parametrize("name", ["README.md", "docs/tools.md"])
def test_the_tools_of_the_pages_can_be_built(name):
    names: dict = {"__name__": "example"}
    exec(examples((ROOT / name).read_text(), "python")[0], names)  # the page's own code is what is tested

    built = [build_tool(thing) for thing in names.values() if hasattr(thing, "__callboard_tool__")]

    assert built
    assert all(tool.description for tool in built)


def test_the_page_names_the_version_of_the_inspector_that_its_files_are_for() -> None:
    """Earlier ones, which npm installs where none is named and Node is older, cannot use the file with a key."""
    file = json.loads((DOCS / "examples" / "mcp" / "http" / "inspector.json").read_text())
    versions = re.findall(r"npx @modelcontextprotocol/inspector([^\s`]*)", page("mcp.md"))

    assert file["mcpServers"]["callboard"]["type"] == "streamable-http"
    assert {*versions} == {"@2"}


def test_users_read_of_folders_and_addresses() -> None:
    """The words of the code's own layout are no help to who reads the documents, the help or the page."""
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")), *(ROOT / "web" / "static").rglob("*.js")]
    private = re.compile(r"\bdoors?\b|\brooms\b(?!\.example)|\bour rooms?\b")
    matches = [
        f"{page.name}: {line}" for page in pages for line in page.read_text().splitlines() if private.search(line)
    ]

    assert matches == []
    assert [line for _, line in COMMANDS.values() if private.search(line)] == []


@pytest.mark.parity
def test_the_runner_example_prints_the_answer_on_a_line_of_its_own(tmp_path):
    migrate(Settings(state_dir=tmp_path))
    code = next(code for code in examples((ROOT / "docs" / "python.md").read_text(), "python") if "Runner" in code)

    ran = run_python("-c", code, env={**clean_environment(), "CALLBOARD_STATE_DIR": str(tmp_path)})

    assert "391" in ran.stdout.partition("\nsucceeded ")[0]
    assert "\nsucceeded " in ran.stdout, ran.stderr


@pytest.mark.parametrize("kind", [*EVENT_TYPES.values(), *DELTA_TYPES.values()])
def test_every_field_of_a_payload_is_explained(kind):
    rows = [line for line in page("observers.md").partition("## What a payload has")[2].splitlines() if "|" in line]
    row = " ".join(line for line in rows if f"`{kind.type}`" in line.split("|")[1])

    assert [name for name, _ in kind.own_fields if f"`{name}`" not in row] == []


@pytest.mark.parity
@pytest.mark.timeout(120)
def test_the_page_about_testing_works_as_it_is_typed(tmp_path):
    """With a pytest alone: the plug-ins of Callboard's own tests, which its configuration needs, are not loaded."""
    text, checkout = page("testing.md"), tmp_path / "callboard"
    copy(own_files(), checkout)
    set_up, run = (block for block in examples(text, "sh"))
    lines = [line for line in set_up.splitlines() if not line.startswith(("echo pytest", "./callboard"))]  # installing
    subprocess.run(["sh", "-ec", "\n".join(lines)], cwd=checkout, check=True)
    for number, example in enumerate(examples(text, "python")):
        (checkout / "my_tests" / f"test_{number}.py").write_text(example)

    environment = {**clean_environment(), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    ran = subprocess.run(["sh", "-c", run], cwd=checkout, env=environment, capture_output=True, text=True, check=False)

    assert f"{len(examples(text, 'python'))} passed" in ran.stdout, ran.stdout + ran.stderr


@pytest.mark.parametrize("example", examples(page("testing.md"), "python"))
def test_an_example_of_a_test_passes(example):
    defined: dict = {}
    exec(example, defined)

    tests = [thing for name, thing in defined.items() if name.startswith("test_")]
    assert tests
    for test in tests:
        test()
