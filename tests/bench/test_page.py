"""The tables of docs/performance.md."""

import subprocess
from pathlib import Path

import pytest

from cli.dev.commands.apart import MEASUREMENTS
from config.folders import ROOT
from tests.bench.page import PAGE, conditions, tables_in, with_tables

TWO = "# Page\n\n<!-- bench one -->\nold\n<!-- end -->\n\nText.\n\n<!-- bench two -->\nkept\n<!-- end -->\n"


def test_a_table_is_replaced_and_everything_else_stays():
    page = with_tables(TWO, {"one": "### One\n\n| a |\n"})

    assert page == TWO.replace("old", "### One\n\n| a |")


def test_a_table_without_a_place_on_the_page_changes_nothing():
    assert with_tables(TWO, {"three": "new"}) == TWO


def test_the_page_has_a_place_for_each_measurement():
    assert set(tables_in(PAGE.read_text())) == {*MEASUREMENTS, "beside"}


def test_every_table_of_the_page_is_written_by_the_bench():
    text = with_tables(PAGE.read_text(), dict.fromkeys(tables_in(PAGE.read_text()), ""))

    assert "|" not in text


@pytest.mark.parity  # starts git
def test_a_commit_whose_files_were_changed_is_marked_unless_it_was_the_page_alone(tmp_path: Path) -> None:
    def git(*arguments: str) -> None:
        subprocess.run(("git", "-c", "user.name=x", "-c", "user.email=x@y", *arguments), cwd=tmp_path, check=True)

    page, code = tmp_path / PAGE.relative_to(ROOT), tmp_path / "code.py"
    page.parent.mkdir()
    page.touch()
    code.touch()
    git("init", "-q")
    git("add", "-A")
    git("commit", "-qm", "all")

    page.write_text("a table")
    assert "-dirty" not in conditions(tmp_path, 3)
    code.write_text("a change")
    assert "-dirty" in conditions(tmp_path, 3)
