"""A run that its viewers leave, over real HTTP: with several web processes, one of which is killed."""

from __future__ import annotations

import time

import pytest

from tests.app_harness import AppHarness
from tests.journeys.neighbour import neighbour, until
from tests.journeys.test_web_killed import two_webs
from tests.journeys.web_server import Watching, Web
from tests.model_server import Turn
from tests.ports import free_port

pytestmark = [pytest.mark.journey, pytest.mark.timeout(180)]

ENDLESS = Turn(text=["word "] * 4, stall_after=4)


def status(web: Web, run_id: str) -> str:
    return str(web.ask(f"/v1/runs/{run_id}")[2]["status"])


def test_a_run_continues_while_any_web_process_has_a_viewer_and_stops_after_the_last_one_was_killed(
    brisk_harness: AppHarness,
) -> None:
    brisk_harness.agent()
    brisk_harness.model.respond = lambda body: ENDLESS
    message = {"agent": "tester", "input": "Hello", "on_disconnect": "stop:3"}

    with two_webs(brisk_harness) as (first, second), neighbour(brisk_harness):
        run_id = first.ask("/v1/runs", message)[2]["run_id"]
        Watching(second, run_id)
        time.sleep(6)  # longer than it continues without viewers
        while_watched = status(first, run_id)
        second.kill()
        left_s = until(lambda: status(first, run_id) == "cancelled", 20, "the run was stopped")
        events = first.events(run_id)

    assert while_watched == "running"
    assert left_s > 2.5
    (answer,) = [event for event in events if event["type"] == "control"]
    assert (answer["verb"], answer["state"], answer["by"]) == ("stop", "consumed", "on_disconnect")


def test_a_run_that_pages_are_read_of_has_a_viewer_and_the_agents_definition_pauses_it_without(
    brisk_harness: AppHarness,
) -> None:
    brisk_harness.agent("on_disconnect: 'pause:3'\n")
    settings = brisk_harness.settings.model_copy(update={"port": free_port()})

    with Web(settings) as web:  # and no worker: the run is queued
        run_id = web.ask("/v1/runs", {"agent": "tester", "input": "Hello"})[2]["run_id"]
        kept = web.ask("/v1/runs", {"agent": "tester", "input": "Hello", "on_disconnect": "continue"})[2]["run_id"]
        for _ in range(6):
            assert web.ask(f"/v1/runs/{run_id}/events", Accept="application/json")[0] == 200
            time.sleep(1)
        while_read = status(web, run_id)
        until(lambda: status(web, run_id) == "waiting", 20, "the run was paused")
        refused = web.ask("/v1/runs", {"agent": "tester", "input": "Hello", "on_disconnect": "stop:1"})

        assert while_read == status(web, kept) == "queued"
        assert web.ask(f"/v1/runs/{run_id}/resume", {})[0] == 200
        assert (refused[0], "'on_disconnect' has to be `continue`" in refused[2]["detail"]) == (400, True)
