"""What the doctor says about the collector of traces."""

from __future__ import annotations

import pytest

from cli.doctor.observers import check_traces
from config.settings import Settings
from tests.cli.doctor.conftest import only
from tests.otlp_receiver import OtlpReceiver
from tests.ports import free_port

pytestmark = pytest.mark.parity


def test_nothing_is_said_where_there_is_none(settings: Settings) -> None:
    assert list(check_traces(settings)) == []


def test_a_collector_is_asked_whether_it_takes_spans(settings: Settings) -> None:
    with OtlpReceiver() as receiver:
        chosen = settings.model_copy(update={"traces_url": receiver.url})
        taken = only(check_traces(chosen))
        receiver.respond = lambda _: (401, b"")
        refused = only(check_traces(chosen))

    assert taken == ("ok", f"the collector at {receiver.url}/v1/traces takes spans")
    assert receiver.spans == {}
    assert refused[0] == "fail"
    assert "CALLBOARD_TRACES_HEADERS" in refused[1]


def test_a_collector_that_is_away_fails(settings: Settings) -> None:
    verdict, text = only(check_traces(settings.model_copy(update={"traces_url": f"http://127.0.0.1:{free_port()}"})))

    assert verdict == "fail"
    assert "Start the collector" in text
