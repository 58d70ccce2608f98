"""The tables of docs/performance.md."""

from cli.commands.bench import MEASUREMENTS
from tests.bench.page import PAGE, tables_in, with_tables

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
