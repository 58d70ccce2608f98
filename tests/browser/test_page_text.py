"""The page's modules by themselves: Markdown, the event stream's grammar, events folded into a story."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser

from tests.browser.visitor import Visitor

pytestmark = [pytest.mark.browser, pytest.mark.timeout(120)]

WHOLE = """
  const { renderMarkdown } = await import("/static/markdown/stream.js");
  return renderMarkdown(given).innerHTML;
"""
TELL = """
  const { newStory, applyEvent } = await import("/static/state/story.js");
  const story = newStory({});
  const touched = given.map((event) => applyEvent(story, event));
  return { story, touched: touched.map((items) => items && items.length) };
"""


@pytest.fixture(scope="module")
def page(browser: Browser, callboard_url: str) -> Iterator[Visitor]:
    """A page whose modules can be imported."""
    context = browser.new_context()
    yield Visitor(context, callboard_url).opens()
    context.close()


# --- Markdown -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("*a* **b** ***c***", "<em>a</em> <strong>b</strong> <em><strong>c</strong></em>"),
        ("2 * 3 * 4 and snake_case_name", "2 * 3 * 4 and snake_case_name"),
        ("`a*b*` and ``c`d``", "<code>a*b*</code> and <code>c`d</code>"),
        ("interval [0, 1) holds", "interval [0, 1) holds"),
        (r"\*not\* <b>bold</b> &amp;", "*not* &lt;b&gt;bold&lt;/b&gt; &amp;amp;"),
        ("a  \nb", "a<br>b"),
    ],
)
def test_inline_marks(page: Visitor, source: str, expected: str) -> None:
    assert page.module(WHOLE, source) == f'<p dir="auto">{expected}</p>'


@pytest.mark.parametrize(
    "address",
    [
        "javascript:alert(1)",
        "JaVaScRiPt:alert(1)",
        "java\tscript:alert(1)",
        "&#106;avascript:alert(1)",
        "data:text/html,x",
        "vbscript:x",
        "//foreign.invalid/x",
        "/relative",
        "file:///etc/passwd",
        "blob:x",
        "\x01javascript:alert(1)",
        "https://bank.example@foreign.invalid/",
        "https://bank.example:443@foreign.invalid/",
        "https://bank.example\u200b@foreign.invalid",
    ],
)
@pytest.mark.parametrize("form", ["[x]({})", "![x]({})", "<{}>", "[x](<{}>)", '[x]({} "t")'])
def test_only_web_and_mail_addresses_become_links(page: Visitor, form: str, address: str) -> None:
    html = page.module(WHOLE, form.format(address))

    assert "<a " not in html
    assert "<img" not in html


def test_links_open_elsewhere_and_send_no_referrer(page: Visitor) -> None:
    html = page.module(WHOLE, "[x](https://example.org/)")

    assert 'rel="noopener noreferrer nofollow"' in html
    assert 'referrerpolicy="no-referrer"' in html


def test_an_image_is_a_link_and_is_not_fetched(page: Visitor) -> None:
    html = page.module(WHOLE, "![plan](https://foreign.invalid/p.png)")

    assert "<img" not in html
    assert "image: plan" in html
    assert page.foreign == []


def test_a_copy_without_a_clipboard_leaves_the_focus_on_its_button(page: Visitor) -> None:
    script = """
      const { copyButton } = await import("/static/dom/copyButton.js");
      const button = copyButton(() => "words");
      document.body.append(button);
      Object.defineProperty(navigator, "clipboard", { configurable: true, value: undefined });
      button.focus();
      button.click();
      await new Promise((resolve) => setTimeout(resolve, 50));
      const found = [button.textContent, document.activeElement === button];
      button.remove();
      delete navigator.clipboard;
      return found;
    """

    assert page.module(script) == ["Copied", True]


def test_hidden_characters_are_written_out(page: Visitor) -> None:
    html = page.module(WHOLE, "a\u202eb\U000e0041c")

    assert "⟨U+202E⟩" in html
    assert "⟨U+E0041⟩" in html


@pytest.mark.parametrize(
    "unit",
    [
        "word ",
        "x",
        "line\n",
        "*a b_ ",
        "[",
        "`a``",
        "> q\n",
        "- item\n",
        "| a | b |\n|---|---|\n",
        "| 1 | 2 |\n",
        "```\n",
        "# h\n\n",
    ],
)
def test_a_megabyte_is_cut_into_small_blocks(page: Visitor, unit: str) -> None:
    text = unit * (1_000_000 // len(unit))

    longest = page.module(
        """
        const { MarkdownStream } = await import("/static/markdown/stream.js");
        const stream = new MarkdownStream();
        for (let at = 0; at < given.length; at += 50_000) {
          stream.append(given.slice(at, at + 50_000));
          stream.paint();
        }
        const element = stream.finish().element;
        return Math.max(...[...element.querySelectorAll("p, .piece")].map((block) => block.textContent.length), 0);
        """,
        text,
    )

    assert longest < 60_000


# --- the event stream ---------------------------------------------------------------------------


@pytest.mark.parametrize("size", [1, 3, 1000])
def test_the_event_stream_is_read_as_the_standard_says(page: Visitor, size: int) -> None:
    text = (
        '\ufeff: comment\nretry: 2000\n\nid: 1\nevent: a\ndata: {"x":\ndata: 1}\n\n'
        "id: 2\r\nevent: b\r\ndata:two\r\n\r\nid: 3\revent: c\rdata: three\r\rdata\n\n"
        "event: nothing\n\nid: 9\ndata: cut"
    )

    events = page.module(
        """
        const { EventStreamParser } = await import("/static/client/sse.js");
        const found = [];
        const parser = new EventStreamParser({ onEvent: (event) => found.push([event.id, event.event, event.data]) });
        for (let at = 0; at < given.text.length; at += given.size) parser.push(given.text.slice(at, at + given.size));
        return found;
        """,
        {"text": text, "size": size},
    )

    assert events == [["1", "a", '{"x":\n1}'], ["2", "b", "two"], ["3", "c", "three"], ["3", "message", ""]]


def test_a_stream_that_is_cut_off_anywhere_moves_the_cursor_past_nothing_it_did_not_show(page: Visitor) -> None:
    frames = [f'event: response\ndata: {{"seq":{number},"content":"é"}}\nid: {number}\n\n' for number in range(8, 12)]
    whole = "retry: 2000\n:\n" + ":\n".join(frames)

    seen = page.module(
        """
        const { EventStreamParser } = await import("/static/client/sse.js");
        return [...given].map((_, cut) => {
          const found = [];
          const onEvent = (event) => found.push([event.id, JSON.parse(event.data).seq]);
          const parser = new EventStreamParser({ onEvent });
          parser.push(given.slice(0, cut));
          return found;
        });
        """,
        whole,
    )

    assert all(event == [str(number), number] for events in seen for number, event in enumerate(events, start=8))
    assert {len(events) for events in seen} == {0, 1, 2, 3}


# --- the story ----------------------------------------------------------------------------------


def _log(*events: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"seq": seq, "at": f"2026-11-20T12:00:00.{seq:03}Z", **event} for seq, event in enumerate(events, 1)]


def _piece(text: str, message: str = "m1", kind: str = "response") -> dict[str, Any]:
    return {"type": kind, "content": text, "message_id": message}


def _texts(page_state: dict[str, Any], *, withdrawn: bool = False) -> list[str]:
    items = page_state["story"]["items"]
    return [item["text"] for item in items if item["kind"] == "text" and bool(item.get("withdrawn")) is withdrawn]


def test_pieces_grow_one_text_and_repeats_are_ignored(page: Visitor) -> None:
    log = _log({"type": "status", "status": "running"}, _piece("Hel"), _piece("lo"))

    page_state = page.module(TELL, [*log, *log])

    assert _texts(page_state) == ["Hello"]
    assert page_state["touched"][3:] == [None, None, None]


def test_the_message_makes_its_text_final(page: Visitor) -> None:
    log = _log(_piece("Helo"), {"type": "message", "role": "assistant", "content": "Hello", "message_id": "m1"})

    page_state = page.module(TELL, log)

    assert _texts(page_state) == ["Hello"]
    assert page_state["story"]["items"][0]["final"] is True


def test_a_withdrawal_takes_exactly_its_pieces(page: Visitor) -> None:
    withdrawn = {"type": "withdrawn", "ranges": [[2, 3]]}

    page_state = page.module(TELL, _log(_piece("kept "), _piece("lost "), _piece("lost"), withdrawn, _piece("new")))

    assert _texts(page_state) == ["kept ", "new"]
    assert _texts(page_state, withdrawn=True) == ["lost lost"]


def test_what_is_final_is_never_withdrawn(page: Visitor) -> None:
    message = {"type": "message", "role": "assistant", "content": "Hello", "message_id": "m1"}

    page_state = page.module(TELL, _log(_piece("Hello"), message, {"type": "withdrawn", "ranges": [[1, 1]]}))

    assert _texts(page_state) == ["Hello"]


def test_a_tool_is_one_card_from_its_name_to_its_result(page: Visitor) -> None:
    call = {"type": "tool", "call_id": "c1", "name": "calculator"}
    full = {**call, "arguments": {"expression": "1+1"}, "effect": "pure"}
    result = {**call, "type": "tool_result", "outcome": "done", "result": "2", "duration_ms": 3}

    page_state = page.module(TELL, _log(call, full, result))

    (card,) = page_state["story"]["items"]
    assert (card["effect"], card["outcome"], card["result"], card["duration_ms"]) == ("pure", "done", "2", 3)


def test_thinking_ends_where_the_answer_begins(page: Visitor) -> None:
    page_state = page.module(TELL, _log(_piece("hm", kind="reasoning"), _piece("hm", kind="reasoning"), _piece("So")))

    thinking, text = page_state["story"]["items"]
    assert (thinking["text"], thinking["closed"], thinking["endedAt"]) == ("hmhm", True, "2026-11-20T12:00:00.003Z")
    assert text["text"] == "So"


def test_an_unknown_event_is_passed_over(page: Visitor) -> None:
    page_state = page.module(TELL, _log({"type": "from_the_future", "x": 1}, _piece("a")))

    assert _texts(page_state) == ["a"]
    assert page_state["story"]["cursor"] == 2


def test_stop_is_offered_for_ones_own_runs_and_by_roles_for_those_of_others(page: Visitor) -> None:
    offers = page.module(
        "const { mayStop, noteMe } = await import('/static/state/me.js');"
        "const may = (roles) => { noteMe({ principal: 'olga', roles }); return mayStop('adam'); };"
        "const others = [[], ['viewer', 'approver'], ['viewer', 'operator'], ['admin']].map(may);"
        "return [...others, mayStop('olga'), mayStop(undefined)];"
    )

    assert offers == [False, False, True, True, True, True]
