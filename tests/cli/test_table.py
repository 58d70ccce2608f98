"""Lists fit every terminal, and are whole for programs."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import pytest

from cli.commands.workers import WORKERS
from cli.output.quoted import fit, text_width
from cli.output.table import Column, Form, Table, short_id
from config.ids import new_id

STYLES = re.compile(r"\x1b\[[0-9;]*m")
TITLES = [
    "Refund order 1042",
    "請求書を三つにまとめる " * 9,
    "🎉👩‍👩‍👧 party " * 9,
    "שלום עולם " * 9,
    "x" * 10_000,
    "\x1b[31mred\x1b[2J\nnext\u202e",
]
TABLE = Table(
    "run_id",
    (
        Column("RUN", "run_id"),
        Column("STATUS", "status"),
        Column("AGENT", "agent", worth=90),
        Column("COST", "cost", worth=50, is_number=True),
        Column("OWNER", "owner", is_wide=True),
        Column("TITLE", "title"),
    ),
    notes=lambda row: [(row["note"], "yellow")] if "note" in row else [],
)


def row(title: str, **more: Any) -> dict[str, Any]:
    facts = {"run_id": new_id("run"), "status": "succeeded", "agent": "assistant-with-a-long-name"}
    return facts | {"cost": "$0.0012", "owner": "anna", "title": title} | more


def lines_of(rows: list[dict[str, Any]], width: int, form: Form = "table") -> list[str]:
    return [STYLES.sub("", line) for line in TABLE.lines(rows, width, form)]


@pytest.mark.parametrize("width", [20, 40, 80, 120, 300])
def test_no_line_is_wider_than_the_terminal(width: int) -> None:
    lines = lines_of([row(title, note="events were dropped " * 9) for title in TITLES], width)

    assert max(text_width(part) for line in lines for part in line.split("\n")) <= width
    assert not any(character in "".join(lines) for character in "\x1b\u202e\x07")


@pytest.mark.parametrize("width", [40, 80, 120])
def test_the_title_is_never_lost(width: int) -> None:
    lines = lines_of([row(title) for title in TITLES], width)

    assert lines[0].split()[-1] == "TITLE"
    assert "Refund" in lines[1]
    assert all(line.endswith("…") for line in lines[2:6])


def test_what_is_worth_least_goes_first() -> None:
    titles = [lines_of([row("A title that is as long as a title is")], width)[0].split() for width in (120, 72, 40)]

    assert titles == [
        ["RUN", "STATUS", "AGENT", "COST", "TITLE"],
        ["RUN", "STATUS", "AGENT", "TITLE"],
        ["RUN", "STATUS", "TITLE"],
    ]


def test_a_column_without_a_value_is_left_out_and_only_wide_has_all() -> None:
    rows = [row("Hello", cost=None)]

    assert "COST" not in lines_of(rows, 120)[0]
    assert "OWNER" not in lines_of(rows, 120)[0]
    assert "OWNER" in lines_of(rows, 40, "wide")[0]
    assert rows[0]["run_id"] in lines_of(rows, 40, "wide")[1]
    assert lines_of(rows, 120)[1].startswith(rows[0]["run_id"][-6:] + "  ")


def test_wide_characters_take_two_columns_and_cells_stay_aligned() -> None:
    first, second = lines_of([row("請求書", agent="部長"), row("Hello", agent="clerk")], 80)[1:]

    assert text_width(first[: first.index("請求書")]) == second.index("Hello")


@pytest.mark.parametrize(
    ("text", "width", "cut"),
    [("abc", 3, "abc"), ("abcd", 3, "ab…"), ("請求書", 5, "請求…"), ("請求書", 4, "請…"), ("a", 0, "")],
)
def test_text_is_cut_by_the_columns_it_takes(text: str, width: int, cut: str) -> None:
    assert fit(text, width) == cut
    assert text_width(cut) <= width


def test_a_pipe_gets_whole_values_between_tabs(capsys: pytest.CaptureFixture[str]) -> None:
    rows = [row(title, note="a\tb") for title in TITLES]

    TABLE.print(rows, "table")

    lines = capsys.readouterr().out.splitlines()
    assert [line.split("\t")[0] for line in lines] == [each["run_id"] for each in rows]
    assert lines[4].split("\t")[4] == "x" * 10_000
    assert {line.count("\t") for line in lines} == {5}
    assert "⟨U+001B⟩[31mred" in lines[5]
    assert lines[0].endswith("\ta b")


@pytest.mark.parametrize(("form", "line"), [("name", "{run_id}"), ("json", '    "run_id": "{run_id}",')])
def test_programs_get_names_or_json(form: Form, line: str, capsys: pytest.CaptureFixture[str]) -> None:
    rows: list[Mapping[str, Any]] = [row("Hello"), {"problem": "a file without a name"}]

    TABLE.print(rows, form)

    assert line.format(**rows[0]) in capsys.readouterr().out.splitlines()


def test_an_empty_list_says_so_beside_the_output(capsys: pytest.CaptureFixture[str]) -> None:
    TABLE.print([], "table", empty="no runs.")

    assert capsys.readouterr() == ("", "no runs.\n")


def test_only_ids_that_callboard_made_are_shortened() -> None:
    assert short_id("thr_01hzy8gq3v5k6m7n8p9q0r1s2t") == "0r1s2t"
    assert short_id("own_b895682a125c_19291_303205_ehcvrmns5yc3") == "ns5yc3"
    assert [short_id(text) for text in ("customer-1042", "thr_short")] == ["customer-1042", "thr_short"]


def test_a_status_stays_whole_in_a_narrow_terminal() -> None:
    lines = lines_of([row("A title that is as long as a title is")], 40)

    assert lines[0].split() == ["RUN", "STATUS", "TITLE"]
    assert "  succeeded  A title" in lines[1]


def test_a_note_is_short_on_a_terminal_and_whole_where_all_is_asked_for() -> None:
    rows = [row("Hello", note="x" * 3000)]

    assert len(lines_of(rows, 80)[2].split("\n")) == 7
    assert lines_of(rows, 80)[2].endswith("…")
    assert "".join(lines_of(rows, 80, "wide")[2].split()) == "x" * 3000


def test_an_id_in_a_note_is_not_broken() -> None:
    id_ = new_id("run")

    note = lines_of([row("Hello", note=f"answer it: `./callboard approve {id_}`.")], 40)[2]

    assert f"    {id_}`." in note.split("\n")


@pytest.mark.parametrize(("agents", "words"), [(["nomodel"], "nomodel needs it"), (["a", "b"], "a, b need it")])
def test_a_missing_key_is_said_with_who_needs_it(agents: list[str], words: str) -> None:
    facts = {"dropped": {}, "abandoned": {}, "missing_keys": {"OPENAI_API_KEY": agents}, "mcp_servers": {}}

    assert list(WORKERS.notes(facts) if WORKERS.notes else ()) == [(f"OPENAI_API_KEY is not set; {words}", "yellow")]
