"""A Python program beside a running `up` sees the words as they are said, like the page."""

import statistics
import time

import pytest

from agents.runner import Runner
from bus.payloads import ResponsePayload
from config.settings import read_settings
from tests.journeys.stage import AGENT
from tests.journeys.up import Up
from tests.model_server import ModelServer

pytestmark = [pytest.mark.journey, pytest.mark.timeout(180)]

PIECES, PACE = 60, 20


def test_a_detached_runs_words_arrive_one_by_one(tmp_path):
    agents = tmp_path / "agents"
    agents.mkdir()
    with ModelServer() as model:
        (agents / "speaker.yaml").write_text(AGENT.format(pieces=PIECES, pace=PACE, url=model.url))
        with Up(
            tmp_path / "state", "--port", "0", "--workers", "1",
            CALLBOARD_AGENTS_DIR=str(agents), CALLBOARD_REDIS_URL="",
        ) as up:  # fmt: skip
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
