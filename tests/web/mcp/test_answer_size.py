"""Answers over HTTP are no larger than the SDK's client reads; on stdio they are whole."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import orjson
import pytest
from mcp.client.streamable_http import DEFAULT_MAX_SSE_EVENT_SIZE
from mcp.types import TextResourceContents

from tests.web.mcp.conftest import Place
from web.mcp.results import MAX_ANSWER_BYTES, STRUCTURED, encoded_bytes, shortened

pytestmark = pytest.mark.parity

MESSAGE_BYTES = 1000
"""What a message has around the answer: the id, the trace."""


@pytest.fixture
def over_http(place: Place) -> Place:
    """The place with the limit of the web process."""
    return Place(replace(place.service, max_answer_bytes=MAX_ANSWER_BYTES))


def _require_readable(answer: Any) -> None:
    """Check that the SDK's client reads the answer as an event, as the SDK's server writes it."""
    sent = json.dumps(answer.model_dump(mode="json", by_alias=True, exclude_none=True), separators=(",", ":"))
    assert len(sent) + MESSAGE_BYTES < DEFAULT_MAX_SSE_EVENT_SIZE


@pytest.mark.parametrize("character", ["x", "字", "😀", "é"])
def test_a_large_output_is_whole_in_the_structured_content(over_http: Place, mode: str, character: str) -> None:
    answer = over_http.call("repeat", mode, text=character, times=200_000)

    _require_readable(answer)
    output, text = answer.structured_content["output"], answer.content[0].text
    assert len(output.encode()) >= 200_000
    assert text == output or (text.endswith(f"; {STRUCTURED}]") and text.startswith(character * 5_000))


def test_an_output_of_which_no_copy_fits_is_cut_and_says_where_it_is_whole(over_http: Place, mode: str) -> None:
    answer = over_http.call("repeat", mode, text="\x01", times=200_000)

    _require_readable(answer)
    state = answer.structured_content
    assert (state["status"], "output" in state) == ("succeeded", False)
    assert "status_url" in state["reason"]
    assert answer.content[0].text.endswith(f"; {state['status_url']} has all of it]")


def test_on_stdio_a_large_output_is_whole_in_both(place: Place, mode: str) -> None:
    answer = place.call("repeat", mode, text="字", times=100_000)

    assert answer.content[0].text == answer.structured_content["output"]


def test_a_large_event_is_shortened_and_the_cursor_goes_beyond_it(over_http: Place, mode: str) -> None:
    run_id = over_http.state("repeat", mode, text="字" * 300_000, times=1)["run_id"]

    pages: list[Any] = []
    after = "0"
    while not pages or not pages[-1].structured_content["ended"]:
        pages.append(over_http.call("run_events", mode, run_id=run_id, after=after))
        _require_readable(pages[-1])
        after = pages[-1].structured_content["cursor"]

    calls = [event for page in pages for event in page.structured_content["events"] if "arguments" in event]
    text = calls[0]["arguments"]["text"]
    assert text.startswith("字" * 50_000)
    assert f"of 300,000 characters are shown; GET /v1/runs/{run_id}/events has all of it]" in text


def test_a_large_thread_is_read_as_far_as_its_messages_fit(over_http: Place, mode: str) -> None:
    for _ in range(4):
        over_http.state("counter", mode, input="字" * 50_000, thread_id="long")

    answer = over_http.use(lambda client: client.read_resource("callboard://threads/long"), mode)

    _require_readable(answer)
    assert isinstance(answer.contents[0], TextResourceContents)
    thread = orjson.loads(answer.contents[0].text)
    assert thread["more_messages"] is True
    assert thread["messages"][0]["content"] == "字" * 50_000


def test_a_run_whose_output_does_not_fit_is_a_shortened_resource(over_http: Place, mode: str) -> None:
    run_id = over_http.state("repeat", mode, text="\\", times=250_000)["run_id"]

    answer = over_http.use(lambda client: client.read_resource(f"callboard://runs/{run_id}"), mode)

    _require_readable(answer)
    assert isinstance(answer.contents[0], TextResourceContents)
    assert f"; GET /v1/runs/{run_id} has all of it]" in orjson.loads(answer.contents[0].text)["output"]


def test_very_many_short_values_become_the_beginning_of_their_json() -> None:
    event = shortened({"seq": 3, "arguments": {"all": ["short"] * 200_000}}, MAX_ANSWER_BYTES, "the log has all of it")

    assert encoded_bytes(event) < MAX_ANSWER_BYTES
    assert event["seq"] == 3
    assert str(event["arguments"]).startswith('{"all":["short","short",')
