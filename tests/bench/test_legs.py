"""The legs of a first token."""

import re

from config.folders import ROOT
from tests.bench.legs import FIRST_DESIGN_MS, LEGS, Clocks, Moments, legs_of, note_of, trace

DIRECT = Moments(sent=0, asked=7_000_000, written=57_000_000, received=58_500_000)
OURS = Moments(
    sent=0,
    queued=2_000_000,
    running=8_000_000,
    asked=12_000_000,
    written=62_000_000,
    numbered=62_500_000,
    received=64_000_000,
)


def test_the_legs_of_a_run_that_a_worker_takes_add_up_to_its_first_token():
    spans = legs_of(OURS)

    single = [span for name, span in spans.items() if name.startswith("→") or name == "client sends → run queued"]
    assert sum(single) == OURS.received


def test_the_direct_way_has_the_legs_that_both_ways_have():
    spans = legs_of(DIRECT)

    assert spans == {
        "client sends → model server has the request": 7_000_000,
        "→ model server writes the first token": 50_000_000,
        "model server writes the first token → client receives it": 1_500_000,
    }


def test_an_events_time_is_shown_by_the_clients_clock():
    clocks = Clocks(offset_ns=1_000_000_000 * 10**9)

    seen = clocks.monotonic_ns("2001-09-09T01:46:42.003Z")

    assert seen == 2_003_500_000


def test_the_trace_of_a_run_names_each_place_it_passed():
    assert trace(DIRECT) == "sent → 7.0 → asked → 50.0 → written → 1.5 → received"


def test_the_legs_that_the_first_chat_design_has_are_measured_beside_its_numbers():
    notes = {name: note_of(name) for _, _, name in LEGS}

    assert set(FIRST_DESIGN_MS) <= set(notes)
    assert notes["→ client receives it"] == "the first chat design allows 50"
    assert notes["→ model server has the request"] == ""


def test_the_published_table_has_its_numbers_from_here():
    table = (ROOT / "docs" / "performance.md").read_text()
    rows = re.findall(r"^\| first token, (.+?), at \d+ runs(?: \((.+?)\))? \|", table, re.MULTILINE)

    assert {name for _, _, name in LEGS} == {name for name, _ in rows}
    assert [note for _, note in rows] == [note_of(name) for name, _ in rows]
    assert table.count("(the first chat design allows") == len(FIRST_DESIGN_MS)
