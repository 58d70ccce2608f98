"""What the site of the documents is made of: the table of contents, links as the site has them, what its pages load."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from cli.dev.commands.docs import DOCS, contents, docs, navigation, problems_of, relinked, site_paths

PATHS = site_paths()
TERMINAL, PYTHON_CLIENT = DOCS / "terminal.md", DOCS.parent / "clients" / "python" / "README.md"


def test_the_navigation_is_the_index_in_four_kinds_with_the_decisions_below_their_list() -> None:
    kinds = navigation(PATHS)

    assert [name for kind in kinds for name in kind] == ["Documents", "Learn", "Do", "Look up", "Understand"]
    assert kinds[1]["Learn"][0] == {
        "Tutorials": [{e.title: PATHS[e.path]} for e in contents() if e.group == "Tutorials"]
    }
    (decisions,) = (page["Decisions"] for page in kinds[4]["Understand"] if "Decisions" in page)
    assert decisions[0] == "decisions/index.md"
    assert len(decisions) > 5


def test_links_lead_to_pages_of_the_site_from_wherever_they_stand() -> None:
    text, problems = relinked(PYTHON_CLIENT, PATHS)

    assert problems == []
    assert "(../http.md#workflows)" in text
    assert "../../docs" not in text


def test_a_link_to_the_source_is_its_text_or_leads_to_the_repository(monkeypatch: pytest.MonkeyPatch) -> None:
    plain, _ = relinked(TERMINAL, PATHS)
    monkeypatch.setattr("cli.dev.commands.docs.project", lambda: {"urls": {"Repository": "https://example.org/c/"}})
    linked, _ = relinked(TERMINAL, PATHS)

    assert "\nCONTRIBUTING says how" in plain or " CONTRIBUTING says how" in plain
    assert "[CONTRIBUTING](https://example.org/c/blob/main/CONTRIBUTING.md) says how" in linked


def test_a_bar_in_the_code_of_a_table_stands_without_its_backslash() -> None:
    text, _ = relinked(TERMINAL, PATHS)

    assert "`--pool threads|prefork|solo`" in text


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        ('<a href="b.html#here">b</a><img src="b.png">', ""),
        ('<a href="b.html#there">b</a>', "there is no such heading"),
        ('<a href="c.html">c</a>', "is not there"),
        ('<script src="https://example.org/x.js"></script>', "from another host"),
        ('<link rel="stylesheet" href="//example.org/x.css">', "from another host"),
        ('<link rel="preconnect" href="https://example.org">', "from another host"),
        ('<a href="https://example.org">a link is no load</a>', ""),
    ],
)
def test_what_a_page_links_to_is_there_and_what_it_loads_is_of_the_site(
    body: str, problem: str, tmp_path: Path
) -> None:
    (tmp_path / "a.html").write_text(body)
    (tmp_path / "b.html").write_text('<h2 id="here">Here</h2>')
    (tmp_path / "b.png").touch()

    problems = problems_of(tmp_path)

    assert len(problems) == bool(problem)
    assert all(problem in each for each in problems)


def test_a_folder_with_files_of_something_else_is_not_replaced(tmp_path: Path) -> None:
    (tmp_path / "letter.txt").write_text("Dear Ann")

    outcome = CliRunner().invoke(docs, ["--output", str(tmp_path)])

    assert "which would be removed" in outcome.output
    assert (tmp_path / "letter.txt").exists()
