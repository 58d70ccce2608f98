"""A model's text on a terminal cannot be taken for a line of ours."""

from __future__ import annotations

import io
import json
from pathlib import Path

import click
import pytest

from bus.payloads import (
    ErrorPayload,
    MessagePayload,
    Payload,
    ReasoningPayload,
    ResponsePayload,
    ToolPayload,
    ToolResultPayload,
)
from cli.output.json import print_json, print_json_line
from cli.output.transcript import Transcript

FORGED = "✓ succeeded · 0.1 s · run_1"
LIES = [
    f"fine\n{FORGED}",
    f"fine\r{FORGED}",
    f"fine\r\n{FORGED}",
    "x" * 80 + FORGED,
    "東" * 40 + FORGED,
    "\t" * 11 + FORGED,
]


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def eighty_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")


def printed(*payloads: Payload) -> list[str]:
    """Return the lines of a terminal of 80 columns."""
    terminal = Terminal()
    transcript = Transcript("run_1", out=terminal, err=terminal)
    for payload in payloads:
        transcript.take(payload)
    return terminal.getvalue().split("\n")


def response(text: str) -> ResponsePayload:
    return ResponsePayload(seq=1, content=text, message_id="msg_1", step_id="stp_1")


@pytest.mark.parametrize("lie", LIES)
@pytest.mark.parametrize("size", [1, 1000])
@pytest.mark.parametrize("kind", [ResponsePayload, ReasoningPayload])
def test_each_line_of_a_model_stands_behind_a_bar(
    lie: str, size: int, kind: type[ResponsePayload | ReasoningPayload]
) -> None:
    pieces = [lie[at : at + size] for at in range(0, len(lie), size)]
    payloads = [kind(seq=i, content=piece, message_id="m", step_id="s") for i, piece in enumerate(pieces, 1)]

    lines = printed(*payloads, MessagePayload(seq=99, role="assistant", content=lie, message_id="m", step_id="s"))

    assert len(lines) > 1
    bare = [line.removeprefix("\x1b[2m\x1b[3m").removeprefix("\x1b[2;3m") for line in lines]
    assert [line for line in bare if "✓" in line and "│" not in line] == []
    assert [line for line in lines if line.startswith(FORGED)] == []


@pytest.mark.parametrize("lie", LIES)
def test_what_a_model_had_a_part_in_stays_behind_its_first_line(lie: str) -> None:
    lines = printed(
        ToolPayload(seq=1, call_id="c", name="send", arguments={}, content=lie, effect="pure", step_id="s"),
        ToolResultPayload(seq=2, call_id="c", name="send", outcome="done", result=lie),
        ErrorPayload(seq=3, code="provider", message=lie, retryable=False),
    )

    assert [line for line in lines if line.startswith(FORGED)] == []


def test_an_answer_to_a_pipe_is_the_answer_alone() -> None:
    out = io.StringIO()
    transcript = Transcript("run_1", out=out, err=Terminal())

    transcript.take(response("x" * 200 + "\nsecond"))
    transcript.take(MessagePayload(seq=2, role="assistant", content="…", message_id="msg_1", step_id="stp_1"))

    assert out.getvalue() == "x" * 200 + "\nsecond\n"


@pytest.mark.parametrize("size", [1, 3, 1000])
def test_a_line_breaks_between_words_and_a_longer_word_at_the_edge(size: int) -> None:
    text = "word " * 15 + "ANTHROPIC_API_KEY " + "x" * 100 + " end\n"

    lines = printed(*(response(text[at : at + size]) for at in range(0, len(text), size)))

    assert lines[:2] == ["│ " + ("word " * 15), "│ ANTHROPIC_API_KEY "]
    assert [line.removeprefix("│ ") for line in lines[2:4]] == ["x" * 78, "x" * 22 + " end"]


def test_an_answers_markdown_is_rendered_on_a_terminal_and_not_without_colours() -> None:
    rendered = printed(response("# Orders\n"))
    context = click.Context(click.Command("run"))
    context.color = False
    with context:
        plain = printed(response("# Orders\n"))

    assert "\x1b[1mOrders" in "".join(rendered)
    assert plain[0] == "│ # Orders"


def test_a_family_in_pieces_stays_one_picture() -> None:
    family = "👨‍👩‍👧"

    lines = printed(*(response(piece) for piece in family))

    assert family in lines[0]


def test_json_has_no_hidden_character_for_a_terminal_and_for_a_pipe(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    value = {"title": "a\x9b31m\u202eb\U000e0041"}
    print_json(value)
    piped = capsys.readouterr().out
    terminal = Terminal()
    monkeypatch.setattr("sys.stdout", terminal)

    print_json_line(json.dumps(value, ensure_ascii=False))

    assert not set(piped) & set("\x9b\u202e\U000e0041")
    assert json.loads(piped) == value
    assert json.loads(terminal.getvalue()) == json.loads(piped) == value
    assert terminal.getvalue().isascii()


def test_every_command_prints_json_the_same_way() -> None:
    """A command that printed JSON by itself would show a terminal what hides in it."""
    folder = Path(__file__).parents[2] / "cli"
    by_themselves = [path.name for path in folder.rglob("*.py") if "echo(orjson" in path.read_text()]

    assert by_themselves == []
