"""A Python program beside a running `up`: what docs/python.md prints works, and words arrive as they are said."""

import statistics
import time
import urllib.request
from typing import Any

import pytest

from agents.runner import Runner
from bus.payloads import ResponsePayload
from config.folders import ROOT
from config.settings import read_settings
from tests.journeys.stage import AGENT
from tests.journeys.up import Up
from tests.model_server import ModelServer
from tests.test_docs import examples

pytestmark = [pytest.mark.journey, pytest.mark.timeout(180)]

PIECES, PACE = 60, 20


def test_a_detached_runs_words_arrive_one_by_one(tmp_path):
    agents = tmp_path / "agents"
    agents.mkdir()
    with ModelServer() as model:
        (agents / "speaker.yaml").write_text(AGENT.format(pieces=PIECES, pace=PACE, url=model.url))
        agents_alone = {"CALLBOARD_AGENTS_DIR": str(agents), "CALLBOARD_REDIS_URL": ""}
        with Up(tmp_path / "state", "--port", "0", "--workers", "1", **agents_alone) as up:
            assert up.ask("speaker", "Hello")["status"] == "succeeded", "a worker is warm"
            runner = Runner.open(read_settings(state_dir=tmp_path / "state", agents_dir=str(agents)))

            delays_s = [
                (time.monotonic_ns() - int(event.content)) / 1e9
                for event in runner.run("Hello", "speaker", detached=True).events()
                if isinstance(event, ResponsePayload) and event.content.strip()
            ]

            runner.close()
            up.stop()
    print(f"first {delays_s[0]:.3f} s, median {statistics.median(delays_s):.3f} s, worst {max(delays_s):.3f} s")
    assert len(delays_s) == PIECES
    assert statistics.median(delays_s) < 0.3


class CutShort:
    """An answer whose connection is reset after a few lines, the first time."""

    cuts = 1

    def __init__(self, answer):
        self._answer = answer
        self.status = answer.status

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._answer.close()

    def read(self):
        return self._answer.read()

    def __iter__(self):
        for number, line in enumerate(self._answer):
            if number > 8 and CutShort.cuts:
                CutShort.cuts -= 1
                raise ConnectionResetError
            yield line


def test_the_http_example_starts_follows_and_resumes(tmp_path, capsys, monkeypatch):
    code = next(code for code in examples((ROOT / "docs" / "python.md").read_text(), "python") if "urllib" in code)
    opened = urllib.request.urlopen
    monkeypatch.setattr(urllib.request, "urlopen", lambda *words, **named: CutShort(opened(*words, **named)))
    with Up(tmp_path / "state", "--port", "0", "--workers", "1", CALLBOARD_REDIS_URL="") as up:
        names: dict[str, Any] = {"__name__": "example"}
        exec(code.replace("http://127.0.0.1:8000", up.address), names)  # the page's own code is what is tested
        printed = capsys.readouterr().out

        run_id = names["start"]("What is 2 + 2?")
        whole = list(names["follow"](run_id))
        rest = list(names["follow"](run_id, after=whole[2]["seq"]))
        nothing = list(names["follow"](run_id, after=whole[-1]["seq"]))
        with pytest.raises(RuntimeError, match="no-such-agent"):
            names["start"]("Hello", agent="no-such-agent")
        up.stop()

    assert "391" in printed
    assert printed.endswith("\nsucceeded\n")
    assert CutShort.cuts == 0, "the connection was lost once"
    assert [event["seq"] for event in whole] == sorted({event["seq"] for event in whole})
    assert rest == whole[3:]
    assert nothing == []
