"""A Slack and an app of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.journeys.channels.conftest import GuardedWeb, Tables
from tests.observers.channels.bot import ChannelProcess, People, table_of
from tests.observers.channels.fake_slack import APP_TOKEN, SECRET, TOKEN, FakeSlack

ANA, BEN, STRANGER = "UANA", "UBEN", "UNEW"


class SlackBot(ChannelProcess):
    """The process `./callboard slack`."""

    def __init__(self, folder: Path, slack: FakeSlack, server: str, people: People, way_in: str) -> None:
        lines = [f"server: {server}", "slack:", "  token: ${SLACK_TOKEN}", way_in, f"  api: {slack.api}"]
        lines += ["  agent: tester", f"  people: {table_of(people)}"]
        secrets = {"SLACK_TOKEN": TOKEN, "SLACK_APP_TOKEN": APP_TOKEN, "SLACK_SECRET": SECRET}
        super().__init__(folder, "slack", lines, people, **secrets)


@pytest.fixture(scope="module")
def ids() -> tuple[str, str]:
    return ANA, BEN


@pytest.fixture
def slack() -> Iterator[FakeSlack]:
    with FakeSlack() as started:
        yield started


@pytest.fixture
def make_bot(tmp_path: Path, slack: FakeSlack, web: GuardedWeb, people: Tables) -> Callable[..., SlackBot]:
    """Makes an app of this test's own, which is not started; what is given is how Slack's events come."""
    return lambda way_in="  app_token: ${SLACK_APP_TOKEN}": SlackBot(tmp_path, slack, web.address, people, way_in)


@pytest.fixture
def bot(make_bot: Callable[..., SlackBot]) -> Iterator[SlackBot]:
    with make_bot() as started:
        yield started
