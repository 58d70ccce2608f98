"""The file tools and the order book, as an agent calls them."""

import asyncio
from dataclasses import replace

import orjson
import pytest

from agents.errors import SANDBOX_FULL, ArgumentsInvalid, PathRefused
from agents.tools.execution.executor import call_tool
from agents.tools.files import list_files, read_file, write_file
from agents.tools.isolation.sandbox import Quota
from agents.tools.schema import build_tool
from agents.tools.supplies import ORDERS, order_supplies
from config.effects import Effect
from tests.raising import raises


def test_what_was_written_is_listed_and_read(call):
    written = call(write_file, path="notes/today.txt", text="buy milk")

    assert written == {"path": "notes/today.txt", "bytes": 8}
    assert call(list_files) == {"files": [{"path": "notes/today.txt", "bytes": 8}]}
    assert call(read_file, path="notes/today.txt") == "buy milk"


def test_a_missing_file_is_answered_with_the_nearest(call):
    call(write_file, path="notes.txt", text="x")

    with pytest.raises(PathRefused) as caught:
        call(read_file, path="note.txt")

    assert "Did you mean 'notes.txt'? The files are: notes.txt." in str(caught.value)


def test_a_path_that_leads_out_is_refused(call):
    with pytest.raises(PathRefused, match="leads out of the sandbox"):
        call(read_file, path="../../etc/passwd")


def test_effects_say_what_calling_again_does():
    effects = {function.__name__: build_tool(function).effect for function in (list_files, read_file, write_file)}

    assert effects == {"list_files": Effect.PURE, "read_file": Effect.PURE, "write_file": Effect.IDEMPOTENT}


def test_an_order_needs_a_person():
    tool = build_tool(order_supplies)

    assert (tool.confirm, tool.effect) == (True, Effect.UNSAFE)


def test_orders_are_added_to_the_book(call, context):
    call(order_supplies, item="paper", boxes=3)
    second = call(order_supplies, item="pens", boxes=1, note="blue")

    book = [orjson.loads(line) for line in (context.sandbox / ORDERS).read_text().splitlines()]
    assert [(order["item"], order["total_eur"]) for order in book] == [("paper", 74.7), ("pens", 8.5)]
    assert second == book[1]
    assert (second["order"], second["by"], second["note"]) == ("call_1", "local", "blue")


@pytest.mark.parametrize(
    "arguments", [{"item": "paper", "boxes": 0}, {"item": "elephants", "boxes": 1}, {"item": "paper"}]
)
def test_an_order_that_does_not_fit_is_refused(call, arguments):
    with pytest.raises(ArgumentsInvalid):
        call(order_supplies, **arguments)


def test_a_sandbox_takes_no_more_than_its_quota(call, context, tmp_path):
    small = replace(context, quota=Quota(max_bytes=10, max_files=3))

    def write(path, text):
        return asyncio.run(call_tool(build_tool(write_file), {"path": path, "text": text}, small, 5.0))

    write("a/one.txt", "12345678")
    for path, text in (("two.txt", "123"), ("a/one.txt", "12345678901")):
        with raises(SANDBOX_FULL, match="together 10 are allowed"):
            write(path, text)
    write("a/one.txt", "1234567890")  # what is replaced does not count
    write("two.txt", "")
    for path in ("three.txt", "b/four.txt"):
        with raises(SANDBOX_FULL, match="3 files and folders"):
            write(path, "")
    write("a/one.txt", "")
    write("two.txt", "1234567890")


def test_no_quota_is_no_limit(call, context):
    (context.sandbox / "large").write_bytes(b"x" * 1000)
    free = replace(context, quota=Quota(max_bytes=0, max_files=0))

    asyncio.run(call_tool(build_tool(write_file), {"path": "b/c/d", "text": "x"}, free, 5.0))
