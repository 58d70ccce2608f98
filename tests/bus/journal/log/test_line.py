"""A line's number and type are read without parsing it, whatever stands in its fields."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from bus.journal.log.line import Line, pack, to_line, unpack
from bus.payloads import ResponsePayload, WithdrawnPayload, encode

texts = st.text(st.characters(exclude_categories=["Cs"]))


@given(st.integers(1, 2**31), texts, texts, texts)
def test_no_text_can_forge_a_number_or_type(seq, content, thread_id, run_id):
    data = encode(ResponsePayload(seq=seq, content=content), run_id, thread_id)

    assert to_line(data) == Line(seq, "response", data)


def test_a_thread_named_like_the_wire_is_only_a_name():
    data = encode(ResponsePayload(seq=3, content="x"), "run_1", '","type":"end"')

    assert to_line(data).type == "response"


@given(st.lists(texts, min_size=1))
def test_a_body_is_unpacked_as_it_was_packed(contents):
    lines = [encode(ResponsePayload(seq=i + 1, content=c), "run_1", "thr_1") for i, c in enumerate(contents)]

    assert [line.data for line in unpack(pack(lines))] == lines


@given(st.binary())
def test_what_a_stranger_published_is_left_out(garbage):
    good = encode(ResponsePayload(seq=9, content="x"), "run_1", "thr_1")

    assert good in [line.data for line in unpack(garbage + b"\n" + good)]


def test_garbage_alone_is_nothing():
    assert unpack(b'{"seq":}\n{"seq":x,"type":"a"}\n{"seq":1}\n\xff\n\n{"seq":1,"type":"\xff"}') == []


def test_only_a_withdrawn_event_names_ranges():
    withdrawn = to_line(encode(WithdrawnPayload(seq=5, ranges=[[1, 2], [4, 4]]), "run_1", "thr_1"))
    forged = [Line(1, "withdrawn", b"{"), Line(1, "withdrawn", b'{"ranges":[["a",2]]}'), Line(1, "withdrawn", b"{}")]

    assert withdrawn.withdrawn_ranges == [(1, 2), (4, 4)]
    assert [line.withdrawn_ranges for line in [*forged, Line(1, "end", withdrawn.data)]] == [[], [], [], []]
